"""Nesting: which op encloses which on a thread, and the times at which each one is the innermost."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from app.importers.kineto.intervals import Floats, Wholes


def innermost(start: Floats, end: Floats) -> tuple[Floats, Floats, Wholes, NDArray[np.bool_]]:
    """Cut one thread's ops into pieces during which one of them is the innermost.

    Returns starts, ends and owners of the pieces, and for each op whether it encloses another.
    """
    begins, ends, owners = array("d"), array("d"), array("q")
    parents = np.zeros(len(start), dtype=np.bool_)
    stack: list[int] = []
    reached = 0.0
    stop_of, begin_of = np.ascontiguousarray(end).data, np.ascontiguousarray(start).data

    def close(until: float) -> Iterator[tuple[float, float, int]]:
        nonlocal reached
        while stack and stop_of[stack[-1]] <= until:
            op = stack.pop()
            if stop_of[op] > reached:
                yield reached, stop_of[op], op
                reached = stop_of[op]

    for op in np.lexsort((-end, start)).tolist():
        at = begin_of[op]
        for low, high, owner in close(at):
            begins.append(low)
            ends.append(high)
            owners.append(owner)
        if stack:
            parents[stack[-1]] = True
            if at > reached:
                begins.append(reached)
                ends.append(at)
                owners.append(stack[-1])
        reached = max(reached, at) if stack else at
        stack.append(op)
    for low, high, owner in close(float("inf")):
        begins.append(low)
        ends.append(high)
        owners.append(owner)
    return np.array(begins), np.array(ends), np.array(owners), parents


def parents(start: Floats, end: Floats) -> Wholes:
    """Index of the op around each op of a thread, −1 for none."""
    found = np.full(len(start), -1, dtype=np.int64)
    stack: list[int] = []
    stop_of, begin_of = np.ascontiguousarray(end).data, np.ascontiguousarray(start).data
    for op in np.lexsort((-end, start)).tolist():
        while stack and stop_of[stack[-1]] <= begin_of[op]:
            stack.pop()
        if stack:
            found[op] = stack[-1]
        stack.append(op)
    return found


def enclosing(start: Floats, end: Floats, at: Floats) -> Wholes:
    """Index of the innermost op of a thread around each time, −1 for none."""
    times = np.sort(at)
    around = np.flatnonzero(np.searchsorted(times, start) < np.searchsorted(times, end, side="right"))
    begins, ends, owners, _ = innermost(start[around], end[around])
    if not len(begins):
        return np.full(len(at), -1, dtype=np.int64)
    owners = around[owners]
    index = np.searchsorted(begins, at, side="right") - 1
    inside = (index >= 0) & (at <= ends[np.maximum(index, 0)])
    return np.where(inside, owners[np.maximum(index, 0)], -1).astype(np.int64)
