"""Shapes of a grid of ranks: which tensor parallel degrees make one, and which models and micro-batches fit on it."""

from __future__ import annotations

import math
from typing import Any

from estimator.problems import Problem
from estimator.units import Number

SHAPES = {"2d": "q²", "2.5d": "tp_depth·q²", "3d": "q³"}


def token_parts(kind: str, side: Number, depth: Number = 1) -> Number:
    """Parts into which the tokens are split between linears: P in 1D (sequence split), q, d·q and q² on the grids."""
    return {"2d": side, "2.5d": depth * side, "3d": side * side}.get(kind, side)


def grid_of(tp_kind: str, tp: Number, depth: Number = 1) -> Number:
    """Side q of the grid: √tp in 2D, √(tp/depth) in 2.5D, ∛tp in 3D, rounded to a whole number; 1 in 1D."""
    if tp_kind == "1d":
        return 1
    side = {"2d": tp, "2.5d": tp / depth, "3d": tp}[tp_kind] ** (1 / 3 if tp_kind == "3d" else 1 / 2)
    return round(side) if isinstance(side, (int, float)) else side.round()


def grid_fits(tp_kind: str, tp: Number, depth: Number = 1) -> Any:
    """Whether ``tp`` is exactly q², depth·q² or q³; element by element for arrays."""
    if tp_kind == "1d":
        return (depth == 1) & (tp >= 1)
    q = grid_of(tp_kind, tp, depth)
    if tp_kind == "2.5d":
        return depth * q * q == tp
    return (q ** (3 if tp_kind == "3d" else 2) == tp) & (depth == 1)


def grid_problems(
    tp_kind: str,
    tp: int,
    depth: int,
    *,
    micro_batch: int | None = None,
    seq_len: int | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    hidden: int | None = None,
    ffn: int | None = None,
) -> list[Problem]:
    """List why ``tp`` ranks make no grid of this kind, or why the model or the micro-batch cannot be laid out on it."""
    if not grid_fits(tp_kind, tp, depth):
        return [_shape_problem(tp_kind, tp, depth)]
    if tp_kind == "1d" or tp == 1:
        return []
    q = int(grid_of(tp_kind, tp, depth))
    found = []
    width_parts = q * q if tp_kind == "3d" else q
    for name, value, parts in (("heads", heads, q), ("hidden", hidden, width_parts), ("ffn", ffn, width_parts)):
        if value is not None and value % parts:
            found.append(
                _side_problem(tp_kind, q, depth, f"{parts} parts of the grid do not divide {name} = {value}", value)
            )
    if kv_heads is not None and kv_heads % q and q % kv_heads:
        message = f"q = {q} and {kv_heads} key/value heads do not divide one another"
        found.append(_side_problem(tp_kind, q, depth, message, kv_heads))
    parts = int(token_parts(tp_kind, q, depth))
    if micro_batch is not None and micro_batch % parts and parts % micro_batch:
        below = max(b for b in range(1, micro_batch) if parts % b == 0)
        found.append(
            Problem(
                field="plan.micro_batch",
                message=f"{micro_batch} sequences and the grid's {parts} row parts do not divide one another",
                remedy=f"Choose micro_batch {below} or {math.ceil(micro_batch / parts) * parts}.",
            )
        )
    elif micro_batch is not None and seq_len is not None and micro_batch < parts and seq_len % (parts // micro_batch):
        found.append(
            Problem(
                field="training.seq_len",
                message=f"{parts // micro_batch} row parts of the grid do not divide a sequence of {seq_len}",
                remedy=f"Choose a multiple of {parts // micro_batch}, or micro_batch {parts}.",
            )
        )
    return found


def _shape_problem(tp_kind: str, tp: int, depth: int) -> Problem:
    if tp_kind != "2.5d" and depth != 1:
        return Problem(
            field="plan.tp_depth",
            message=f"tp_depth = {depth} has no meaning for tp_kind {tp_kind}",
            remedy="Set tp_depth to 1, or tp_kind to 2.5d.",
        )
    depths = [d for d in range(1, tp) if tp % d == 0 and math.isqrt(tp // d) ** 2 == tp // d]
    if tp_kind == "2.5d" and depths:
        return Problem(
            field="plan.tp_depth",
            message=f"tp = {tp} is not tp_depth·q² with tp_depth = {depth}",
            remedy=f"Choose tp_depth {_either(depths)}.",
        )
    power, scale = (3, 1) if tp_kind == "3d" else (2, depth if tp_kind == "2.5d" else 1)
    low = max(q for q in range(1, tp + 2) if q == 1 or scale * q**power <= tp)
    near = sorted({scale * low**power, scale * (low + 1) ** power})
    return Problem(
        field="plan.tp",
        message=f"tp = {tp} is not {SHAPES[tp_kind]}, as tp_kind {tp_kind} needs",
        remedy=f"Choose tp {_either(near)}.",
    )


def _side_problem(tp_kind: str, q: int, depth: int, message: str, value: int) -> Problem:
    def ranks(side: int) -> int:
        return {"2d": side**2, "2.5d": depth * side**2, "3d": side**3}[tp_kind]

    fits = [side for side in range(1, q) if value % (side * side if tp_kind == "3d" else side) == 0]
    remedy = f"The next smaller grid that fits has tp = {ranks(max(fits))} (q = {max(fits)})."
    return Problem(field="plan.tp", message=message, remedy=remedy)


def _either(values: list[int]) -> str:
    return " or ".join(str(value) for value in values)
