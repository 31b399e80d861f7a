"""Cross-over: from how many rows on one kind of tensor parallelism moves less than another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from estimator.parallel.grid_linear import linear_moves, received
from estimator.units import Number


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """A kind of tensor parallelism (1d, 2d, 2.5d, 3d) with its side (P of 1D, else q) and depth (2.5D)."""

    kind: str
    side: int
    depth: int = 1


def stack_elements(
    layout: Layout, linears: Sequence[tuple[Number, Number]], rows: Number, *, keep: bool = True
) -> Number:
    """Elements that a rank receives, forward and backward, in a stack of linears (K, N), by turns column and row.

    In 1D the first of each two is split by columns and the second by rows; in 3D their grid roles alternate.
    """
    total: Number = 0.0
    for index, (inputs, outputs) in enumerate(linears):
        second = bool(index % 2)
        kind = layout.kind if layout.kind != "1d" else ("1d-row" if second else "1d-column")
        moves = linear_moves(
            kind, rows, inputs, outputs, side=layout.side, depth=layout.depth, keep=keep, swapped=second
        )
        total = total + received(moves)
    return total


def crossover_rows(usual: Layout, other: Layout, linears: Sequence[tuple[float, float]], *, keep: bool = True) -> float:
    """Rows (tokens of a micro-batch) from which on ``other`` receives less than ``usual``; infinity where never.

    Volumes are a + b·M, so M = (a_other − a_usual)/(b_usual − b_other), where other's slope is the smaller one.
    """
    (fixed, slope), (other_fixed, other_slope) = (
        (float(start), float(stack_elements(layout, linears, 1.0, keep=keep) - start))
        for layout, start in ((one, stack_elements(one, linears, 0.0, keep=keep)) for one in (usual, other))
    )
    if slope <= other_slope:
        return math.inf
    return max((other_fixed - fixed) / (slope - other_slope), 0.0)
