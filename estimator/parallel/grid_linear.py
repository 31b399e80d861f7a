"""Linears on a grid of ranks: what 1D, 2D (SUMMA), 2.5D (Tesseract) and 3D tensor parallelism move, keep and compute.

One linear is Y[M, N] = X[M, K]·W[K, N]; everything here is counted in elements per rank. Rows of the grid hold the
ranks that share tokens, columns those that share features, depth (2.5D, 3D) splits the tokens once more.
"""

from __future__ import annotations

from dataclasses import dataclass

from estimator.cost.collectives import TRAFFIC
from estimator.units import Number

LINEAR_KINDS = ("1d-column", "1d-row", "2d", "2.5d", "3d")
"""Shoeybi 2019, arXiv 1909.08053 (1D; with the sequence split of Korthikanti 2022, arXiv 2205.05198); Xu 2021, arXiv
2104.05343 (2D); Wang 2021, arXiv 2105.14500 (2.5D); Bian 2021, arXiv 2105.14450 (3D)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """One collective of a linear: ``payload`` elements over ``ranks`` of one axis of the grid.

    The payload is the gathered tensor of an all-gather or reduce-scatter, and each rank's own one of an all-reduce.
    """

    name: str
    kind: str
    phase: str
    axis: str
    payload: Number
    ranks: Number

    @property
    def elements(self) -> Number:
        """Elements that each rank receives: factor · payload · (n − 1)/n."""
        return self.payload * TRAFFIC[self.kind] * ((self.ranks - 1) / self.ranks)

    @property
    def steps(self) -> Number:
        """Messages that follow one another on a ring: n − 1, twice that for an all-reduce."""
        return TRAFFIC[self.kind] * (self.ranks - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """What one rank has of a linear: elements of weights (and of gradients), saved input and buffers; FLOPs."""

    weights: Number
    saved_input: Number
    work_buffer: Number
    flops_forward: Number
    flops_backward: Number


def ranks_of(kind: str, side: Number, depth: Number = 1) -> Number:
    """Ranks of a grid: P of 1D (its side), q² of 2D, d·q² of 2.5D, q³ of 3D."""
    if kind.startswith("1d"):
        return side
    return side * side * {"2d": 1, "2.5d": depth, "3d": side}[kind]


def linear_moves(
    kind: str,
    m: Number,
    k: Number,
    n: Number,
    *,
    side: Number,
    depth: Number = 1,
    keep: bool = True,
    swapped: bool = False,
) -> list[Move]:
    """Return the collectives of one linear, forward and backward.

    ``side`` is the degree of 1D and q of the others. ``keep`` (1D column, 3D): the gathered operands stay for backward
    instead of being gathered again. ``swapped`` (3D): every other linear, where rows and columns change their roles.
    """
    if kind == "1d-column":
        moves = [
            Move(name="input gather", kind="all-gather", phase="forward", axis="row", payload=m * k, ranks=side),
            Move(
                name="input gradient scatter",
                kind="reduce-scatter",
                phase="backward",
                axis="row",
                payload=m * k,
                ranks=side,
            ),
        ]
        if not keep:
            moves.append(
                Move(name="input gather", kind="all-gather", phase="backward", axis="row", payload=m * k, ranks=side)
            )
        return moves
    if kind == "1d-row":
        return [
            Move(name="output scatter", kind="reduce-scatter", phase="forward", axis="row", payload=m * n, ranks=side),
            Move(
                name="output gradient gather",
                kind="all-gather",
                phase="backward",
                axis="row",
                payload=m * n,
                ranks=side,
            ),
        ]
    if kind == "3d":
        return _cube_moves(m, k, n, side, keep, swapped)
    return summa_moves(m, k, n, columns=side, rows=side, depth=depth if kind == "2.5d" else 1)


def summa_moves(m: Number, k: Number, n: Number, *, columns: Number, rows: Number, depth: Number = 1) -> list[Move]:
    """Return the collectives of SUMMA on ``rows`` × ``columns`` ranks, ``depth`` times over (Tesseract).

    Forward, X panels move along rows and W panels along columns: MK/(d·rows)·(c − 1)/c + KN/columns·(r − 1)/r elements.
    Backward is twice that: dX = dY·Wᵀ needs W panels and sums dX over rows, dW = Xᵀ·dY needs X panels and sums dW over
    columns. The d copies of W then sum dW over depth. Panels are counted as gathers; sent by store-and-forward
    broadcasts they take as long as q times these volumes. van de Geijn 1997, SUMMA; arXiv 2104.05343, section 3.
    """
    x, w = m * k / (depth * rows), k * n / columns
    return [
        Move(name="input panels", kind="all-gather", phase="forward", axis="row", payload=x, ranks=columns),
        Move(name="weight panels", kind="all-gather", phase="forward", axis="column", payload=w, ranks=rows),
        Move(name="weight panels", kind="all-gather", phase="backward", axis="column", payload=w, ranks=rows),
        Move(name="input gradient sums", kind="reduce-scatter", phase="backward", axis="row", payload=x, ranks=columns),
        Move(name="input panels", kind="all-gather", phase="backward", axis="row", payload=x, ranks=columns),
        Move(
            name="weight gradient sums", kind="reduce-scatter", phase="backward", axis="column", payload=w, ranks=rows
        ),
        Move(
            name="weight gradient copies",
            kind="all-reduce",
            phase="backward",
            axis="depth",
            payload=w / rows,
            ranks=depth,
        ),
    ]


def share(kind: str, m: Number, k: Number, n: Number, *, side: Number, depth: Number = 1, keep: bool = True) -> Share:
    """Return one rank's weights, saved input, work buffer and FLOPs (2MKN/P forward, 4MKN/P backward).

    Work buffers: the gathered operand or partial output in 1D and 3D, one pair of panels in 2D and 2.5D. 2.5D holds
    d copies of the weights.
    """
    ranks = ranks_of(kind, side, depth)
    square = side * side
    x, w, y = m * k, k * n, m * n
    weights = w / square if kind == "2.5d" else w / ranks
    saved = x / ranks
    if keep:
        saved = {"1d-column": x, "3d": (x + w) / square}.get(kind, saved)
    buffers = {
        "1d-column": x,
        "1d-row": y,
        "2d": (x + w) / square,
        "2.5d": (x / depth + w) / square,
        "3d": (x + w + y) / square,
    }
    product = 2.0 * m * k * n / ranks
    return Share(
        weights=weights,
        saved_input=saved,
        work_buffer=buffers[kind],
        flops_forward=product,
        flops_backward=2.0 * product,
    )


def received(moves: list[Move], phase: str | None = None) -> Number:
    """Elements that each rank receives in one phase, or in both."""
    return sum((move.elements for move in moves if phase in (None, move.phase)), start=0.0)


def latency_steps(moves: list[Move]) -> Number:
    """Messages that follow one another: 2(P − 1) in 1D, 6(q − 1) + 2(d − 1) in 2.5D, 6(q − 1) in 2D and 3D."""
    return sum((move.steps for move in moves), start=0.0)


def _cube_moves(m: Number, k: Number, n: Number, q: Number, keep: bool, swapped: bool) -> list[Move]:
    # Rank (i, j, l) multiplies X(i, l) by W(l, j): depth is i, row and column are j and l, and the next linear finds
    # its input split as (i, j), so that it has the two the other way round.
    inputs, outputs = ("column", "row") if swapped else ("row", "column")
    x, w, y = m * k / q**2, k * n / q**2, m * n / q**2
    again = [] if keep else ["backward"]
    moves = []
    for phase in ["forward", *again]:
        moves += [
            Move(name="input gather", kind="all-gather", phase=phase, axis=inputs, payload=x, ranks=q),
            Move(name="weight gather", kind="all-gather", phase=phase, axis="depth", payload=w, ranks=q),
        ]
    return [
        *moves,
        Move(name="output scatter", kind="reduce-scatter", phase="forward", axis=outputs, payload=y, ranks=q),
        Move(name="output gradient gather", kind="all-gather", phase="backward", axis=outputs, payload=y, ranks=q),
        Move(name="input gradient scatter", kind="reduce-scatter", phase="backward", axis=inputs, payload=x, ranks=q),
        Move(name="weight gradient scatter", kind="reduce-scatter", phase="backward", axis="depth", payload=w, ranks=q),
    ]
