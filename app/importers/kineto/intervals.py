"""Intervals: unions and exclusive times on arrays of starts and ends, all in the same unit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Wholes = NDArray[np.int64]


def groups(keys: Wholes) -> Iterator[tuple[int, Wholes]]:
    """Yield each distinct key with the indices that have it, in one sort however many keys there are."""
    if not len(keys):
        return
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    bounds = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    for low, high in zip(bounds.tolist(), [*bounds[1:].tolist(), len(keys)], strict=True):
        yield int(ordered[low]), order[low:high]


def exclusive(start: Floats, end: Floats, low: float = -np.inf, high: float = np.inf) -> Floats:
    """Length between ``low`` and ``high`` of each interval that no earlier one covers; together that of the union."""
    order = np.lexsort((-end, start))
    ends = np.maximum.accumulate(end[order]) if len(order) else end
    before = np.concatenate(([-np.inf], ends[:-1])) if len(order) else ends
    found = np.zeros(len(start))
    found[order] = np.maximum(0.0, np.minimum(end[order], high) - np.maximum(np.maximum(start[order], before), low))
    return found


def union(start: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Starts and ends of the union, in order, without overlap."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    starts, reached = start[order], np.maximum.accumulate(end[order])
    fresh = np.concatenate(([True], starts[1:] > reached[:-1]))
    last = np.concatenate((np.flatnonzero(fresh)[1:] - 1, [len(starts) - 1]))
    return starts[fresh], reached[last]


def covered(union_start: Floats, union_end: Floats, at: Floats) -> Floats:
    """Length of a union that lies before each time in ``at``."""
    if not len(union_start):
        return np.zeros(len(at))
    whole = np.concatenate(([0.0], np.cumsum(union_end - union_start)))
    index = np.searchsorted(union_start, at, side="right")
    inside = np.where(index > 0, union_end[index - 1] - at, 0.0)
    return np.asarray(whole[index] - np.maximum(0.0, inside), dtype=np.float64)


def exposed(start: Floats, end: Floats, work_start: Floats, work_end: Floats) -> Floats:
    """Length of each interval that neither an earlier one of its kind nor any work covers."""
    order = np.lexsort((-end, start))
    if not len(order):
        return np.zeros(0)
    reached = np.maximum.accumulate(end[order])
    begin = np.maximum(start[order], np.concatenate(([-np.inf], reached[:-1])))
    stop = np.maximum(begin, end[order])
    low, high = union(work_start, work_end)
    hidden = covered(low, high, stop) - covered(low, high, begin)
    found = np.zeros(len(start))
    found[order] = np.maximum(0.0, stop - begin - hidden)
    return found


def contains(union_start: Floats, union_end: Floats, at: Floats) -> NDArray[np.bool_]:
    """Whether each time lies inside a union."""
    if not len(union_start):
        return np.zeros(len(at), dtype=np.bool_)
    index = np.searchsorted(union_start, at, side="right") - 1
    return np.asarray((index >= 0) & (at <= union_end[np.maximum(index, 0)]))
