"""Grid: of a stream of evaluated plans the best in each cell of one or two axes, as a heatmap shows them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.search.evaluate import Evaluated
from estimator.search.front import Candidate, Rows, candidate_of
from estimator.search.space import Choice, Shape, Sharing

ROW_AXES = tuple(f.name for cls in (Choice, Shape) for f in fields(cls))
BLOCK_AXES = (*(f.name for f in fields(Sharing)), "schedule", "placement")
AXES = (*ROW_AXES, *BLOCK_AXES)
"""Fields of a plan that a cell can be of."""
MOST_AXES = 2


class Grid:
    """Keeps the plan with the best objective for each combination of values of ``axes``."""

    def __init__(self, axes: tuple[str, ...], *, objective: str) -> None:
        self.axes = axes
        self.by_memory = objective == "memory"
        self._best: dict[tuple[Any, ...], Candidate] = {}
        self._codes: tuple[object, NDArray[np.int64], list[tuple[Any, ...]]] | None = None

    def add(self, block: Evaluated, usable: Rows) -> None:
        """Take in the usable plans of a block."""
        if not self.axes or not len(usable):
            return
        codes, values = self._of_table(block)
        seconds, peak = block.step_s[usable], block.peak_bytes[usable]
        order = np.lexsort((seconds, peak) if self.by_memory else (peak, seconds))
        kept, firsts = np.unique(codes[block.choice[usable], block.shape[usable]][order], return_index=True)
        whole = {"schedule": block.schedule, "placement": block.placement}
        whole |= {f.name: getattr(block.sharing, f.name) for f in fields(Sharing)}
        for code, first in zip(kept, order[firsts], strict=True):
            own = iter(values[code])
            cell = tuple(whole[name] if name in BLOCK_AXES else next(own) for name in self.axes)
            best = self._best.get(cell)
            key = self._key(float(seconds[first]), float(peak[first]))
            if best is None or key < self._key(best.step_s, best.peak_bytes):
                self._best[cell] = candidate_of(block, usable, seconds, peak, int(first))

    def cells(self) -> list[tuple[tuple[Any, ...], Candidate]]:
        """Values of the axes, and the best plan that has them."""
        return sorted(self._best.items(), key=lambda one: tuple(map(str, one[0])))

    def _key(self, step_s: float, peak_bytes: float) -> tuple[float, float]:
        return (peak_bytes, step_s) if self.by_memory else (step_s, peak_bytes)

    def _of_table(self, block: Evaluated) -> tuple[NDArray[np.int64], list[tuple[Any, ...]]]:
        """Return a number for each choice and shape, and which values of the axes it stands for; once a table."""
        if self._codes is None or self._codes[0] is not block.shapes:
            names = [name for name in self.axes if name in ROW_AXES]
            numbers: dict[tuple[Any, ...], int] = {}
            codes = np.zeros((len(block.choices), max(map(len, block.shapes))), dtype=np.int64)
            for at, (choice, shapes) in enumerate(zip(block.choices, block.shapes, strict=True)):
                for place, shape in enumerate(shapes):
                    cell = tuple(getattr(choice if hasattr(choice, name) else shape, name) for name in names)
                    codes[at, place] = numbers.setdefault(cell, len(numbers))
            self._codes = block.shapes, codes, list(numbers)
        return self._codes[1], self._codes[2]
