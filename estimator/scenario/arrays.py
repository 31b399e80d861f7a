"""The few functions that formulas need beyond + - * /, for plain numbers and for NumPy arrays alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from estimator.scenario.units import Number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def is_single(ranks: Number) -> bool:
    """Whether a group is one rank alone, of one plan; of many plans at once it is not known."""
    return isinstance(ranks, (int, float)) and ranks <= 1


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


def largest(value: Number) -> float:
    """Largest element of an array; a number itself."""
    return value if isinstance(value, (int, float)) else float(_numpy().max(value))


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


T = TypeVar("T")


def picked(condition: Any, yes: T, no: T) -> T:
    """Return ``yes`` where the condition holds, else ``no``, for every number inside."""
    if isinstance(condition, bool):
        return yes if condition else no
    return _each([yes, no], lambda values: where(condition, values[0], values[1]))  # type: ignore[no-any-return]


def joined(parts: Sequence[T], lengths: Sequence[int]) -> T:
    """Put tables of ``lengths`` rows one below another; a plain number stands for a whole column."""

    np = _numpy()

    def stack(values: list[Any]) -> Any:
        columns = [np.broadcast_to(np.asarray(value), (n,)) for value, n in zip(values, lengths, strict=True)]
        return np.concatenate(columns).astype(bool if columns[0].dtype == bool else float)

    return _each(list(parts), stack)  # type: ignore[no-any-return]


def taken(table: T, rows: NDArray[np.int64]) -> T:
    """Return the chosen rows of every column."""
    return _each([table], lambda values: values[0][rows] if _is_array(values[0]) else values[0])  # type: ignore[no-any-return]


def _each(values: list[Any], combine: Any) -> Any:
    """Apply ``combine`` to corresponding numbers; what is no number must be the same everywhere and stays."""
    first = values[0]
    if isinstance(first, (float, int)) or _is_array(first) or isinstance(first, _numpy().generic):
        return first if all(value is first for value in values) and not _is_array(first) else combine(values)
    if isinstance(first, (tuple, list)):
        found = [_each(list(inner), combine) for inner in zip(*values, strict=True)]
        return tuple(found) if isinstance(first, tuple) else found
    if is_dataclass(first) and not isinstance(first, type) and type(first).__name__ not in _WHOLE:
        return type(first)(**{f.name: _each([getattr(v, f.name) for v in values], combine) for f in fields(first)})
    return first


_WHOLE = ("Training", "ByteWidths", "Cluster", "Plan")
"""Nouns that all plans of a table share."""


def _is_array(value: Any) -> bool:
    return isinstance(value, _numpy().ndarray)
