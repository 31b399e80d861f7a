"""Units: SI inside, scaled words only where people read.

Every quantity in Headroom is a plain float (or NumPy array) in SI base units; its unit stands in its name
(``_s``, ``_bytes``, ``_flops``, ``_bytes_per_s``, ``_flops_per_s``, ``_frac``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Number: TypeAlias = float | NDArray[np.float64]
else:
    Number = object

KIB = 1024
MIB = 1024**2
GIB = 1024**3

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def engineering(value: float, unit: str, digits: int = 3) -> str:
    """Write ``value`` with three significant digits and a decimal prefix, as in ``1.23 TFLOP/s``."""
    if value == 0:
        return f"0 {unit}"
    rounded = float(f"{value:.{digits}g}")
    for scale, prefix in _PREFIXES:
        if abs(rounded) >= scale:
            return f"{_significant(value / scale, digits)} {prefix}{unit}"
    return f"{value:.{digits}g} {unit}"


def seconds(value: float, digits: int = 3) -> str:
    """Write a duration given in seconds with three significant digits, as in ``412 ms``."""
    if value == 0:
        return "0 s"
    rounded = float(f"{value:.{digits}g}")
    for scale, unit in _SMALL:
        if abs(rounded) >= scale:
            return f"{_significant(value / scale, digits)} {unit}"
    return f"{value:.{digits}g} s"


def bytes_text(value: float, digits: int = 3) -> str:
    """Write a size given in bytes in decimal GB, as chip makers do (141 GB); below 1 GB in MB."""
    return engineering(value, "B", digits)


def counted(number: int, noun: str, many: str = "") -> str:
    """Write a count with its noun, as in ``1 row`` and ``3 rows``; ``many`` is the plural that takes more than an s."""
    return f"{number:,} {noun if number == 1 else many or f'{noun}s'}"


def _significant(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e" in text else text
