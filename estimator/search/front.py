"""Front: of a stream of evaluated plans, the best by an objective, and those that none beats in time and memory.

On a cluster of fixed size cost (chip-seconds) is proportional to time, so the front of time, memory and cost is that of
time and memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.plan import Plan
from estimator.search.evaluate import Evaluated


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A plan with what decides between plans."""

    step_s: float
    peak_bytes: float
    plan: Plan


class Front:
    """Keeps ``kept`` best plans and the Pareto front; the stream itself is not stored."""

    def __init__(self, *, objective: str, kept: int) -> None:
        self.by_memory = objective == "memory"
        self.kept = kept
        self._best: list[Candidate] = []
        self._front: list[Candidate] = []

    def add(self, block: Evaluated, usable: NDArray[np.int64]) -> None:
        """Take in the usable plans of a block."""
        if not len(usable):
            return
        seconds, peak = block.step_s[usable], block.peak_bytes[usable]
        self._add_best(block, usable, seconds, peak)
        self._add_front(block, usable, seconds, peak)

    def best(self) -> list[Candidate]:
        """Best plans first."""
        return self._best

    def pareto(self) -> list[Candidate]:
        """Fastest plan first, each later one needs less memory."""
        return self._front

    def _add_best(
        self, block: Evaluated, usable: NDArray[np.int64], seconds: NDArray[np.float64], peak: NDArray[np.float64]
    ) -> None:
        key, other = (peak, seconds) if self.by_memory else (seconds, peak)
        if len(self._best) == self.kept:
            bound = self._key(self._best[-1])[0]
            near = np.flatnonzero(key <= bound)
        else:
            near = np.arange(len(key))
        if len(near) > self.kept:
            near = near[np.lexsort((other[near], key[near]))[: self.kept]]
        if len(near):
            merged = self._best + [_candidate(block, usable, seconds, peak, int(i)) for i in near]
            self._best = sorted(merged, key=self._key)[: self.kept]

    def _add_front(
        self, block: Evaluated, usable: NDArray[np.int64], seconds: NDArray[np.float64], peak: NDArray[np.float64]
    ) -> None:
        open_ = np.arange(len(seconds))
        if self._front:
            times = np.array([c.step_s for c in self._front])
            memory = np.array([c.peak_bytes for c in self._front])
            before = np.searchsorted(times, seconds, side="right") - 1
            beaten = (before >= 0) & (memory[np.maximum(before, 0)] <= peak)
            open_ = open_[~beaten]
        if not len(open_):
            return
        order = open_[np.lexsort((peak[open_], seconds[open_]))]
        least = np.minimum.accumulate(peak[order])
        fresh = np.concatenate([[True], peak[order][1:] < least[:-1]])
        merged = self._front + [_candidate(block, usable, seconds, peak, int(i)) for i in order[fresh]]
        merged.sort(key=lambda c: (c.step_s, c.peak_bytes))
        front: list[Candidate] = []
        for candidate in merged:
            if not front or candidate.peak_bytes < front[-1].peak_bytes:
                front.append(candidate)
        self._front = front

    def _key(self, candidate: Candidate) -> tuple[float, float]:
        pair = (candidate.peak_bytes, candidate.step_s)
        return pair if self.by_memory else (pair[1], pair[0])


def _candidate(
    block: Evaluated, usable: NDArray[np.int64], seconds: NDArray[np.float64], peak: NDArray[np.float64], index: int
) -> Candidate:
    return Candidate(step_s=float(seconds[index]), peak_bytes=float(peak[index]), plan=block.plan(int(usable[index])))
