"""Blocks on a grid of ranks: what the linears, norms and attention of one block exchange in 2D, 2.5D and 3D."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.arrays import maximum, minimum, where
from estimator.parallel.grid_linear import Move, linear_moves
from estimator.parallel.grid_shape import token_parts
from estimator.units import Number


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
