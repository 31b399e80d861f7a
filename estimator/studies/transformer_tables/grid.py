"""Rows of 2D, 2.5D and 3D tensor parallelism, which the reference leaves empty: what one rank of the grid does."""

from __future__ import annotations

from dataclasses import replace

from estimator.communication.grid import (
    bias_moves,
    key_value_moves,
    latency_steps,
    linear_moves,
    norm_moves,
    share,
)
from estimator.communication.message import Message, received_bytes
from estimator.studies.transformer_tables import rows as formulas
from estimator.studies.transformer_tables.inputs import Inputs
from estimator.studies.transformer_tables.rows import Exchange, Row, Words

STATISTIC_BYTES = 4.0
"""A norm's mean and variance travel in fp32."""


def mlp_rows(i: Inputs, words: Words) -> list[Row]:
    """Return the rows of the MLP on a grid."""
    elements = i.tokens / i.m
    return [
        _norm("layer_norm_2", i, words),
        _linear("fc1", i, i.e, i.f, bias=True),
        formulas.activation(words, elements * i.f),
        formulas.dropout("dpr1", words, elements * i.f),
        _linear("fc2", i, i.f, i.e, bias=True, swapped=True),
        formulas.dropout("dpr2", words, elements * i.e),
    ]


def attention_rows(i: Inputs, words: Words) -> list[Row]:
    """Return the rows of self-attention on a grid."""
    side, parts = i.side, i.parts
    q = i.e // i.h
    # Rows of the grid hold whole sequences, or parts of one whose keys and values are gathered.
    sharing = max(parts / i.b, 1.0)
    core = {"b": i.b / parts, "l": i.l, "h": i.h / side}
    moves = key_value_moves(i.tp_kind, i.tokens, 2 * i.e, side=side, depth=i.tp_depth, micro_batch=i.b)
    scores, values = formulas.logits(words, q=q, **core), formulas.attend(words, q=q, **core)
    keys_bytes = scores.other_bytes * (sharing - 1)
    scores = replace(scores, other_bytes=scores.other_bytes + keys_bytes, buffer_bytes=scores.buffer_bytes + keys_bytes)
    values = replace(values, other_bytes=values.other_bytes + keys_bytes, buffer_bytes=values.buffer_bytes + keys_bytes)
    return [
        _norm("layer_norm_1", i, words),
        _linear("qkv_proj", i, i.e, 3 * i.e, bias=False),
        _exchanging(scores, moves, i, i.element_bytes),
        formulas.softmax(words, **core),
        formulas.dropout("dropout_softmax", words, i.b / parts * i.l * i.l * i.h / side),
        values,
        _linear("v_proj", i, i.e, i.e, bias=True, swapped=True),
        formulas.dropout("dropout", words, i.tokens * i.e / i.m),
    ]


def _linear(layer: str, i: Inputs, inputs: int, outputs: int, *, bias: bool, swapped: bool = False) -> Row:
    """Return a linear on the grid: each rank multiplies the gathered X by the gathered W of its row and column."""
    t, side, s = i.tokens, i.side, i.element_bytes
    cube = i.tp_kind == "3d"
    own = share(i.tp_kind, t, inputs, outputs, side=side, depth=i.tp_depth)
    rows = t / (side if cube else i.parts)
    inner = inputs / side if cube else inputs
    x, w, y = rows * inner * s, inner * outputs / side * s, rows * outputs / side * s
    weights = float(own.weights) * s
    row = Row(
        layer=layer,
        matrix=True,
        flops_fwd=float(own.flops_forward),
        flops_bwd=float(own.flops_backward),
        in_bytes=x,
        other_bytes=w - weights,
        out_bytes=y,
        buffer_bytes=float(own.saved_input) * s,
        weights_bytes=weights + (outputs / side**2 * s if bias else 0.0),
        gradient_bytes=x + y,
        reread_bytes=x + w - weights,
    )
    moves = linear_moves(i.tp_kind, t, inputs, outputs, side=side, depth=i.tp_depth, swapped=swapped)
    if bias:
        moves = moves + bias_moves(i.tp_kind, outputs, side=side, depth=i.tp_depth, swapped=swapped)
    return _exchanging(row, moves, i, s)


def _norm(layer: str, i: Inputs, words: Words) -> Row:
    side = i.side
    row = formulas.layer_norm(layer, words, tokens=i.tokens * side / i.m, width=i.e / side)
    return _exchanging(row, norm_moves(i.tp_kind, i.tokens, side=side, depth=i.tp_depth), i, STATISTIC_BYTES)


def _exchanging(row: Row, moves: list[Message], i: Inputs, width_bytes: float) -> Row:
    """Write a row's collectives; neighbours are 1 chip apart along a grid's row, q along a column, q² in depth."""
    side = i.side
    apart = {"grid_row": 1, "grid_column": side, "grid_depth": side * side}
    found: dict[str, list[Exchange]] = {"forward": [], "backward": []}
    for move in moves:
        ranks = 1 if move.ranks is None else int(move.ranks)
        if ranks > 1:
            found[move.phase].append(
                Exchange(
                    type=move.kind.replace("-", ""),
                    bytes=float(received_bytes(move, ranks)) * width_bytes,
                    size=ranks,
                    span=ranks * apart[move.group],
                    steps=float(latency_steps([move])),
                )
            )
    return replace(row, forward=tuple(found["forward"]), backward=tuple(found["backward"]))
