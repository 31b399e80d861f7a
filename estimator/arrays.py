"""The few functions that formulas need beyond + - * /, for plain numbers and for NumPy arrays alike."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from estimator.units import Number


def maximum(left: Number, right: Number) -> Number:
    """Larger of the two, element by element."""
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left if left >= right else right
    return _numpy().maximum(left, right)  # type: ignore[no-any-return]


def minimum(left: Number, right: Number) -> Number:
    """Smaller of the two, element by element."""
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left if left <= right else right
    return _numpy().minimum(left, right)  # type: ignore[no-any-return]


def ceil_div(numerator: Number, denominator: Number) -> Number:
    """Smallest whole number of ``denominator`` that covers ``numerator``."""
    ratio = numerator / denominator
    return float(math.ceil(ratio)) if isinstance(ratio, (int, float)) else _numpy().ceil(ratio)


def where(condition: Any, yes: Number, no: Number) -> Number:
    """``yes`` where the condition holds, else ``no``."""
    if isinstance(condition, bool):
        return yes if condition else no
    return _numpy().where(condition, yes, no)  # type: ignore[no-any-return]


def log2(value: Number) -> Number:
    """Binary logarithm, 0 for values below 1."""
    if isinstance(value, (int, float)):
        return math.log2(value) if value > 1 else 0.0
    np = _numpy()
    return np.log2(np.maximum(value, 1.0))  # type: ignore[no-any-return]


@cache
def _numpy() -> Any:
    # Imported late: the nouns that share this package must work where NumPy is not installed.
    import numpy as np

    return np
