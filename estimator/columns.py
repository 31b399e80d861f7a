"""Columns: dataclasses whose numbers are arrays over many plans, joined, cut and chosen from field by field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from estimator.arrays import where

T = TypeVar("T")


def picked(condition: Any, yes: T, no: T) -> T:
    """Return ``yes`` where the condition holds, else ``no``, for every number inside."""
    if isinstance(condition, bool):
        return yes if condition else no
    return _each([yes, no], lambda values: where(condition, values[0], values[1]))  # type: ignore[no-any-return]


def joined(parts: Sequence[T], lengths: Sequence[int]) -> T:
    """Put tables of ``lengths`` rows one below another; a plain number stands for a whole column."""

    def stack(values: list[Any]) -> Any:
        columns = [np.broadcast_to(np.asarray(value), (n,)) for value, n in zip(values, lengths, strict=True)]
        return np.concatenate(columns).astype(bool if columns[0].dtype == bool else float)

    return _each(list(parts), stack)  # type: ignore[no-any-return]


def taken(table: T, rows: NDArray[np.int64]) -> T:
    """Return the chosen rows of every column."""
    return _each([table], lambda values: values[0][rows] if isinstance(values[0], np.ndarray) else values[0])  # type: ignore[no-any-return]


def _each(values: list[Any], combine: Any) -> Any:
    """Apply ``combine`` to corresponding numbers; what is no number must be the same everywhere and stays."""
    first = values[0]
    if isinstance(first, (float, int, np.ndarray, np.generic)):
        return (
            first if all(value is first for value in values) and not isinstance(first, np.ndarray) else combine(values)
        )
    if isinstance(first, (tuple, list)):
        found = [_each(list(inner), combine) for inner in zip(*values, strict=True)]
        return tuple(found) if isinstance(first, tuple) else found
    if is_dataclass(first) and not isinstance(first, type) and type(first).__name__ not in _WHOLE:
        return type(first)(**{f.name: _each([getattr(v, f.name) for v in values], combine) for f in fields(first)})
    return first


_WHOLE = ("Training", "Numbers", "Cluster", "Plan")
"""Nouns that all plans of a table share."""
