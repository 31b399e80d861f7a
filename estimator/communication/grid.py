"""Linears on a grid of ranks: what 1D, 2D (SUMMA), 2.5D (Tesseract) and 3D tensor parallelism move, keep and compute.

One linear is Y[M, N] = X[M, K]·W[K, N]. Rows of the grid hold the ranks that share tokens, columns those that share
features, depth (2.5D, 3D) splits the tokens once more. Everything is counted in elements per rank: messages have one
byte for each, until ``grid_block_messages`` gives them their width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from estimator.communication.message import Message, received_bytes
from estimator.cost.collectives import TRAFFIC
from estimator.scenario.arrays import maximum, minimum, where
from estimator.scenario.grid_shape import token_parts
from estimator.scenario.units import Number


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearShare:
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
) -> list[Message]:
    """Return the collectives of one linear, forward and backward.

    Kinds: 1d-column and 1d-row (Shoeybi 2019, arXiv 1909.08053, with the sequence split of Korthikanti 2022, arXiv
    2205.05198), 2d (Xu 2021, arXiv 2104.05343), 2.5d (Wang 2021, arXiv 2105.14500), 3d (Bian 2021, arXiv 2105.14450).
    ``side`` is the degree of 1D and q of the others. ``keep`` (1D column, 3D): the gathered operands stay for backward
    instead of being gathered again. ``swapped`` (3D): every other linear, where rows and columns change their roles.
    """
    if kind == "1d-column":
        moves = [
            _message("input gather", "all-gather", "forward", "row", m * k, side),
            _message("input gradient scatter", "reduce-scatter", "backward", "row", m * k, side),
        ]
        if not keep:
            moves.append(_message("input gather", "all-gather", "backward", "row", m * k, side))
        return moves
    if kind == "1d-row":
        return [
            _message("output scatter", "reduce-scatter", "forward", "row", m * n, side),
            _message("output gradient gather", "all-gather", "backward", "row", m * n, side),
        ]
    if kind == "3d":
        return _cube_moves(m, k, n, side, keep, swapped)
    return summa_moves(m, k, n, columns=side, rows=side, depth=depth if kind == "2.5d" else 1)


def summa_moves(m: Number, k: Number, n: Number, *, columns: Number, rows: Number, depth: Number = 1) -> list[Message]:
    """Return the collectives of SUMMA on ``rows`` × ``columns`` ranks, ``depth`` times over (Tesseract).

    Forward, X panels move along rows and W panels along columns: MK/(d·rows)·(c − 1)/c + KN/columns·(r − 1)/r elements.
    Backward is twice that: dX = dY·Wᵀ needs W panels and sums dX over rows, dW = Xᵀ·dY needs X panels and sums dW over
    columns. The d copies of W then sum dW over depth. Panels are counted as gathers; sent by store-and-forward
    broadcasts they take as long as q times these volumes. van de Geijn 1997, SUMMA; arXiv 2104.05343, section 3.
    """
    x, w = m * k / (depth * rows), k * n / columns
    return [
        _message("input panels", "all-gather", "forward", "row", x, columns),
        _message("weight panels", "all-gather", "forward", "column", w, rows),
        _message("weight panels", "all-gather", "backward", "column", w, rows),
        _message("input gradient sums", "reduce-scatter", "backward", "row", x, columns),
        _message("input panels", "all-gather", "backward", "row", x, columns),
        _message("weight gradient sums", "reduce-scatter", "backward", "column", w, rows),
        _message("weight gradient over replicas", "all-reduce", "backward", "depth", w / rows, depth),
    ]


def share(
    kind: str, m: Number, k: Number, n: Number, *, side: Number, depth: Number = 1, keep: bool = True
) -> LinearShare:
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
    return LinearShare(
        weights=weights,
        saved_input=saved,
        work_buffer=buffers[kind],
        flops_forward=product,
        flops_backward=2.0 * product,
    )


def received(moves: list[Message], phase: str | None = None) -> Number:
    """Elements that each rank receives in one phase, or in both: factor · payload · (n − 1)/n."""
    return sum((received_bytes(move, _ranks(move)) for move in moves if phase in (None, move.phase)), start=0.0)


def latency_steps(moves: list[Message]) -> Number:
    """Messages that follow one another: 2(P − 1) in 1D, 6(q − 1) + 2(d − 1) in 2.5D, 6(q − 1) in 2D and 3D."""
    return sum((TRAFFIC[move.kind] * (_ranks(move) - 1) for move in moves), start=0.0)


def _cube_moves(m: Number, k: Number, n: Number, q: Number, keep: bool, swapped: bool) -> list[Message]:
    # Rank (i, j, l) multiplies X(i, l) by W(l, j): depth is i, row and column are j and l, and the next linear finds
    # its input split as (i, j), so that it has the two the other way round.
    inputs, outputs = ("column", "row") if swapped else ("row", "column")
    x, w, y = m * k / q**2, k * n / q**2, m * n / q**2
    again = [] if keep else ["backward"]
    moves = []
    for phase in ["forward", *again]:
        moves += [
            _message("input gather", "all-gather", phase, inputs, x, q),
            _message("weight gather", "all-gather", phase, "depth", w, q),
        ]
    return [
        *moves,
        _message("output scatter", "reduce-scatter", "forward", outputs, y, q),
        _message("output gradient gather", "all-gather", "backward", outputs, y, q),
        _message("input gradient scatter", "reduce-scatter", "backward", inputs, x, q),
        _message("weight gradient scatter", "reduce-scatter", "backward", "depth", w, q),
    ]


def grid_block_messages(
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
) -> list[Message]:
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
    found: list[Message] = []

    def add(part: str, moves: list[Message], width_bytes: Number, *, last: bool = False) -> None:
        for move in moves:
            sent = replace(
                move,
                name=f"{part} {move.name}",
                payload_bytes=move.payload_bytes * width_bytes,
                # An array has groups of one rank too.
                count=where(_ranks(move) > 1, 1.0, 0.0),
            )
            found.append(sent)
            repeated = not last or (tp_kind == "3d" and keep and move.kind == "all-gather")
            if recompute and move.phase == "forward" and repeated:
                found.append(replace(sent, name=f"{part} again, {move.name}", phase="backward"))

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
    return [m for m in found if not (isinstance(m.ranks, (int, float)) and m.ranks <= 1)]


def bias_moves(kind: str, n: Number, *, side: Number, depth: Number = 1, swapped: bool = False) -> list[Message]:
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
        _message("bias gather", "all-gather", "forward", axis, part, side),
        _message("bias gradient sums", "reduce-scatter", "backward", axis, part, side),
        _message("bias gradient over replicas", "all-reduce", "backward", other, own, copies),
    ]


def norm_moves(
    kind: str, m: Number, *, side: Number, depth: Number = 1, statistics: int = 2, swapped: bool = False
) -> list[Message]:
    """Return the all-reduce, each way, of a norm's ``statistics`` per token where a token's features are split.

    2·s·M/(row parts)·(q − 1)/q elements each way; s = 2 for LayerNorm, 1 for RMSNorm. None in 1D, whose sequence split
    leaves tokens whole. ``swapped`` as in ``linear_moves``, of the linear that follows.
    """
    if kind.startswith("1d"):
        return []
    axis = "column" if kind == "3d" and not swapped else "row"
    payload = statistics * m / token_parts(kind, side, depth)
    return [_message("norm statistics", "all-reduce", phase, axis, payload, side) for phase in ("forward", "backward")]


def key_value_moves(
    tp_kind: str, rows: Number, width: Number, *, side: Number, depth: Number, micro_batch: Number, keep: bool = True
) -> list[Message]:
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
        _message(name, kind, phase, axis, payload, ranks)
        for name, kind, phase in phases
        for axis, ranks, payload in gathers
    ]


def _message(name: str, kind: str, phase: str, axis: str, payload: Number, ranks: Number) -> Message:
    """A collective over ``ranks`` neighbours along one axis of the grid: row, column or depth."""
    return Message(
        name=name, kind=kind, axis="tp", group=f"grid_{axis}", phase=phase, payload_bytes=payload, ranks=ranks,
        host=ranks,
    )  # fmt: skip


def _ranks(message: Message) -> Number:
    assert message.ranks is not None, message
    return message.ranks
