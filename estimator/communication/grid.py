"""Linears on a grid of ranks: what 1D, 2D (SUMMA), 2.5D (Tesseract) and 3D tensor parallelism move, keep and compute.

One linear is Y[M, N] = X[M, K]·W[K, N]; everything here is counted in elements per rank. Rows of the grid hold the
ranks that share tokens, columns those that share features, depth (2.5D, 3D) splits the tokens once more.
"""

from __future__ import annotations

from dataclasses import dataclass

from estimator.cost.collectives import TRAFFIC
from estimator.scenario.arrays import maximum, minimum, where
from estimator.scenario.grid_shape import token_parts
from estimator.scenario.units import Number


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

    Kinds: 1d-column and 1d-row (Shoeybi 2019, arXiv 1909.08053, with the sequence split of Korthikanti 2022, arXiv
    2205.05198), 2d (Xu 2021, arXiv 2104.05343), 2.5d (Wang 2021, arXiv 2105.14500), 3d (Bian 2021, arXiv 2105.14450).
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


@dataclass(frozen=True, kw_only=True, slots=True)
class GridExchange:
    """One collective of a block on a grid: ``axis`` row, column or depth, ``inner`` chips between its neighbours.

    ``inner``: 1 along a row, q along a column, q² through depth. ``count`` executions per micro-batch, 0 where an
    array has a group of one rank.
    """

    name: str
    kind: str
    phase: str
    axis: str
    ranks: Number
    inner: Number
    payload_bytes: Number
    count: Number


def block_grid_exchanges(
    *,
    tp_kind: str,
    q: Number,
    depth: Number,
    rows: Number,
    hidden: Number,
    qkv_width: Number,
    query_width: Number,
    ffn_in_width: Number,
    ffn: Number,
    element_bytes: Number,
    keep: bool = True,
    micro_batch: Number = 1,
    attention: bool = True,
    feed_forward: bool = True,
    bias: bool = False,
    statistics: int = 2,
    recompute: bool = False,
) -> list[GridExchange]:
    """Return all collectives of one transformer block and micro-batch on a grid; widths and ``rows`` are undivided.

    ``qkv_width`` counts copies of key and value heads where those are fewer than q; ``ffn_in_width`` is 2·ffn when
    gated. ``keep``: 3D keeps its gathered operands for backward, and row parts keep gathered keys and values.
    ``statistics`` per token of each norm (fp32): 2 for LayerNorm, 1 for RMSNorm, 0 for no norms. ``recompute``: full
    recomputation, which repeats forward's exchanges up to the input of the block's last linear.
    """
    pairs = []
    if attention:
        pairs.append(("qkv", hidden, qkv_width, "attention output", query_width))
    if feed_forward:
        pairs.append(("ffn in", hidden, ffn_in_width, "ffn out", ffn))
    found: list[GridExchange] = []

    def add(part: str, moves: list[Move], width_bytes: Number, *, last: bool = False) -> None:
        for move in moves:
            found.append(_exchange(part, move, q, width_bytes))
            repeated = not last or (tp_kind == "3d" and keep and move.kind == "all-gather")
            if recompute and move.phase == "forward" and repeated:
                found.append(_exchange(f"{part} again,", move, q, width_bytes, phase="backward"))

    for index, (first, width, inner_width, second, back) in enumerate(pairs):
        ends = index == len(pairs) - 1
        if statistics:
            add(first, norm_moves(tp_kind, rows, side=q, depth=depth, statistics=statistics), 4.0)
        add(first, linear_moves(tp_kind, rows, width, inner_width, side=q, depth=depth, keep=keep), element_bytes)
        if first == "qkv":
            kv = key_value_moves(
                tp_kind, rows, qkv_width - query_width, side=q, depth=depth, micro_batch=micro_batch, keep=keep
            )
            add("attention", kv, element_bytes)
        add(
            second,
            linear_moves(tp_kind, rows, back, width, side=q, depth=depth, keep=keep, swapped=True),
            element_bytes,
            last=ends,
        )
        if bias:
            add(first, bias_moves(tp_kind, inner_width, side=q, depth=depth), element_bytes)
            add(second, bias_moves(tp_kind, width, side=q, depth=depth, swapped=True), element_bytes, last=ends)
    return [x for x in found if not (isinstance(x.ranks, (int, float)) and x.ranks <= 1)]


def bias_moves(kind: str, n: Number, *, side: Number, depth: Number = 1, swapped: bool = False) -> list[Move]:
    """Return the collectives of a bias of N: each rank keeps 1/q² of it; gathered forward, summed backward.

    As many elements as broadcasting N/q from one row of the grid costs a rank on average. 1D needs none: a column
    linear splits its bias, a row linear has the whole.
    """
    if kind.startswith("1d"):
        return []
    axis, other, copies = "column", "depth", depth if kind == "2.5d" else 1
    if kind == "3d":
        axis, other, copies = "depth", "row" if swapped else "column", side
    part, own = n / side, n / (side * side)
    return [
        Move(name="bias gather", kind="all-gather", phase="forward", axis=axis, payload=part, ranks=side),
        Move(name="bias gradient sums", kind="reduce-scatter", phase="backward", axis=axis, payload=part, ranks=side),
        Move(name="bias gradient copies", kind="all-reduce", phase="backward", axis=other, payload=own, ranks=copies),
    ]


def norm_moves(
    kind: str, m: Number, *, side: Number, depth: Number = 1, statistics: int = 2, swapped: bool = False
) -> list[Move]:
    """Return the all-reduce, each way, of a norm's ``statistics`` per token where a token's features are split.

    2·s·M/(row parts)·(q − 1)/q elements each way; s = 2 for LayerNorm, 1 for RMSNorm. None in 1D, whose sequence split
    leaves tokens whole. ``swapped`` as in ``linear_moves``, of the linear that follows.
    """
    if kind.startswith("1d"):
        return []
    axis = "column" if kind == "3d" and not swapped else "row"
    payload = statistics * m / token_parts(kind, side, depth)
    return [
        Move(name="norm statistics", kind="all-reduce", phase=phase, axis=axis, payload=payload, ranks=side)
        for phase in ("forward", "backward")
    ]


def key_value_moves(
    tp_kind: str, rows: Number, width: Number, *, side: Number, depth: Number, micro_batch: Number, keep: bool = True
) -> list[Move]:
    """Return what gathers keys and values (``width`` together) where a grid has more row parts than sequences.

    With p row parts and b < p sequences, p/b parts share a sequence: each receives (p/b − 1)/(p/b)·rows/b·width/q
    elements, and scatters as many gradients back; b = 1 in 2D: 2·(q − 1)/q²·b·l·e for two widths of e. None where
    b ≥ p: rows then hold whole sequences, and columns whole heads. Parts of a sequence are neighbours in a column
    first, then through depth.
    """
    parts = token_parts(tp_kind, side, depth)
    sharing = maximum(parts / micro_batch, 1.0)
    in_column = minimum(sharing, side)
    through_depth = sharing / in_column
    tensor = rows / parts * sharing * width / side
    gathers = (("column", in_column, tensor / through_depth), ("depth", through_depth, tensor))
    phases = [
        ("key, value gather", "all-gather", "forward"),
        ("key, value gradient scatter", "reduce-scatter", "backward"),
    ]
    if not keep:
        phases.append(("key, value gather", "all-gather", "backward"))
    return [
        Move(name=name, kind=kind, phase=phase, axis=axis, payload=payload, ranks=ranks)
        for name, kind, phase in phases
        for axis, ranks, payload in gathers
    ]


def _exchange(part: str, move: Move, q: Number, width_bytes: Number, phase: str = "") -> GridExchange:
    return GridExchange(
        name=f"{part} {move.name}",
        kind=move.kind,
        phase=phase or move.phase,
        axis=move.axis,
        ranks=move.ranks,
        inner={"row": 1, "column": q, "depth": q * q}[move.axis],
        payload_bytes=move.payload * width_bytes,
        count=where(move.ranks > 1, 1.0, 0.0),
    )
