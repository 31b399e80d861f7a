"""Front: of a stream of evaluated plans, the best by an objective, and those that none beats in time and memory.

Plans that tie in both are one, the simplest of them, in either list.

On a cluster of fixed size cost (chip-seconds) is proportional to time, so the front of time, memory and cost is that of
time and memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estimator.scenario.plan import Plan
from estimator.search.evaluate import Evaluated

TIED = 1 + 1e-9
"""Numbers within this factor of one another are the same, rounding aside."""

Rows = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A plan with what decides between plans; ``ties``: further plans with these numbers, of which it is simplest."""

    step_s: float
    peak_bytes: float
    reserved_bytes: float
    plan: Plan
    ties: int = 0


@dataclass(kw_only=True, slots=True)
class _Place:
    """A place in a list: numbers that others are compared with, and of the plans that have them the simplest."""

    step_s: float
    peak_bytes: float
    plans: int = 0
    changes: int = 0
    simplest: Candidate | None = None

    def take(self, count: int, changes: int, candidate: Candidate) -> None:
        """Take in plans with these numbers, ``candidate`` the simplest of them."""
        self.plans += count
        if self.simplest is None or changes < self.changes:
            self.changes, self.simplest = changes, candidate


class Front:
    """Keeps ``kept`` best plans and the Pareto front; the stream itself is not stored."""

    def __init__(self, *, objective: str, kept: int) -> None:
        self.by_memory = objective == "memory"
        self.kept = kept
        self._best: list[_Place] = []
        self._front: list[_Place] = []

    def add(self, block: Evaluated, usable: Rows) -> None:
        """Take in the usable plans of a block."""
        if not len(usable):
            return
        seconds, peak = block.step_s[usable], block.peak_bytes[usable]
        self._add_best(block, usable, seconds, peak)
        self._add_front(block, usable, seconds, peak)

    def best(self) -> list[Candidate]:
        """Best plans first; plans that tie are one, the simplest of them."""
        return _candidates(self._best)

    def pareto(self) -> list[Candidate]:
        """Fastest plan first, each later one needs less memory; plans that tie are one, the simplest of them."""
        return sorted(_candidates(self._front), key=lambda candidate: candidate.step_s)

    def _add_best(self, block: Evaluated, usable: Rows, seconds: Values, peak: Values) -> None:
        key, other = (peak, seconds) if self.by_memory else (seconds, peak)
        near = np.arange(len(key))
        if len(self._best) == self.kept:
            near = np.flatnonzero(key <= self._key(self._best[-1])[0] * TIED)
        if not len(near):
            return
        changes = block.changes(usable[near])
        ranked = _ranks(key[near]), _ranks(other[near])
        order = np.lexsort((changes, *ranked[::-1]))
        fresh = np.any([np.diff(ranks[order], prepend=-1) != 0 for ranks in ranked], axis=0)
        firsts = np.flatnonzero(fresh)
        counts = np.diff(firsts, append=len(order))
        for first, count in zip(firsts[: self.kept], counts[: self.kept], strict=True):
            row = int(order[first])
            candidate = candidate_of(block, usable, seconds, peak, int(near[row]))
            self._best_place(candidate).take(int(count), int(changes[row]), candidate)
        self._best = sorted(self._best, key=self._key)[: self.kept]

    def _best_place(self, candidate: Candidate) -> _Place:
        """Return the place of the best whose numbers the candidate has, a new one where there is none."""
        for place in self._best:
            if _tie(place.step_s, candidate.step_s) and _tie(place.peak_bytes, candidate.peak_bytes):
                return place
        self._best.append(_Place(step_s=candidate.step_s, peak_bytes=candidate.peak_bytes))
        return self._best[-1]

    def _add_front(self, block: Evaluated, usable: Rows, seconds: Values, peak: Values) -> None:
        place, covered, tied = _compared(self._front, seconds, peak)
        near = np.flatnonzero(tied | ~covered)
        if not len(near):
            return
        if not covered.all():
            self._front = _merged(self._front, seconds[~covered], peak[~covered])
            place, _, tied = _compared(self._front, seconds[near], peak[near])
            near, place = near[tied], place[tied]
        else:
            place = place[near]
        changes = block.changes(usable[near])
        order = np.lexsort((changes, place))
        firsts = np.flatnonzero(np.diff(place[order], prepend=-1))
        for first, count in zip(firsts, np.diff(firsts, append=len(order)), strict=True):
            row, found = int(order[first]), self._front[place[order[first]]]
            found.take(int(count), int(changes[row]), candidate_of(block, usable, seconds, peak, int(near[row])))

    def _key(self, place: _Place) -> tuple[float, float]:
        pair = (place.peak_bytes, place.step_s)
        return pair if self.by_memory else (pair[1], pair[0])


def _candidates(places: list[_Place]) -> list[Candidate]:
    return [replace(place.simplest, ties=place.plans - 1) for place in places if place.simplest]


def _tie(one: float, other: float) -> bool:
    return max(one, other) <= min(one, other) * TIED


def _ranks(values: Values) -> Rows:
    """Rank numbers from the least on; those that are the same have one rank."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    found = np.empty(len(values), dtype=np.int64)
    found[order] = np.concatenate([[0], np.cumsum(ordered[1:] > ordered[:-1] * TIED)])
    return found


def _compared(front: list[_Place], seconds: Values, peak: Values) -> tuple[Rows, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return for each plan the last place no slower than it, whether that needs no more memory, and whether they tie.

    Of the places that are no slower the last needs least memory.
    """
    if not front:
        nowhere = np.zeros(len(seconds), dtype=bool)
        return np.zeros(len(seconds), dtype=np.int64), nowhere, nowhere
    times = np.array([place.step_s for place in front])
    memory = np.array([place.peak_bytes for place in front])
    last = np.searchsorted(times, seconds * TIED, side="right") - 1
    there = np.maximum(last, 0)
    covered = (last >= 0) & (memory[there] <= peak * TIED)
    return there, covered, covered & (seconds <= times[there] * TIED) & (peak <= memory[there] * TIED)


def _merged(front: list[_Place], seconds: Values, peak: Values) -> list[_Place]:
    """Return the front with what is new: fastest first, each later place needs less memory."""
    order = np.lexsort((peak, seconds))
    least = np.minimum.accumulate(peak[order])
    fresh = order[np.concatenate([[True], peak[order][1:] < least[:-1]])]
    added = [_Place(step_s=float(seconds[i]), peak_bytes=float(peak[i])) for i in fresh]
    found: list[_Place] = []
    for place in sorted([*front, *added], key=lambda place: (place.step_s, place.peak_bytes)):
        if found and place.step_s <= found[-1].step_s * TIED and place.peak_bytes * TIED < found[-1].peak_bytes:
            found.pop()
        if not found or place.peak_bytes * TIED < found[-1].peak_bytes:
            found.append(place)
    return found


def candidate_of(block: Evaluated, usable: Rows, seconds: Values, peak: Values, index: int) -> Candidate:
    """Return one of the usable plans of a block."""
    row = int(usable[index])
    return Candidate(
        step_s=float(seconds[index]),
        peak_bytes=float(peak[index]),
        reserved_bytes=float(block.reserved_bytes[row]),
        plan=block.plan(row),
    )
