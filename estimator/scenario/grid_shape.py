"""Shapes of a grid of ranks: which tensor parallel degrees make one, and which models and micro-batches fit on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from estimator.scenario.problems import Problem, either
from estimator.scenario.units import Number

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
    """List why ``tp`` ranks make no grid of this kind, or why the model or the micro-batch cannot be laid out on it.

    Degrees and depths named as remedies fit the model too, as far as its sizes are given.
    """
    sizes = Sizes(heads=heads, kv_heads=kv_heads, hidden=hidden, ffn=ffn, micro_batch=micro_batch, seq_len=seq_len)
    if not grid_fits(tp_kind, tp, depth):
        return [_shape_problem(tp_kind, tp, depth, sizes)]
    if tp_kind == "1d" or tp == 1:
        return []
    q = int(grid_of(tp_kind, tp, depth))
    found = [
        Problem(field="plan.tp", message=message, remedy=_smaller(tp_kind, q, depth, sizes))
        for message in _misfits(tp_kind, q, sizes)
    ]
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """What the sides of a grid must divide; None where it is not known."""

    heads: int | None
    kv_heads: int | None
    hidden: int | None
    ffn: int | None
    micro_batch: int | None
    seq_len: int | None


def _misfits(tp_kind: str, q: int, sizes: Sizes) -> list[str]:
    """Say which sizes a grid of side q does not divide."""
    width_parts = q * q if tp_kind == "3d" else q
    divisions = (("heads", sizes.heads, q), ("hidden", sizes.hidden, width_parts), ("ffn", sizes.ffn, width_parts))
    found = [
        f"{parts} parts of the grid do not divide {name} = {value}"
        for name, value, parts in divisions
        if value is not None and value % parts
    ]
    if sizes.kv_heads is not None and sizes.kv_heads % q and q % sizes.kv_heads:
        found.append(f"q = {q} and {sizes.kv_heads} key/value heads do not divide one another")
    return found


def _shape_problem(tp_kind: str, tp: int, depth: int, sizes: Sizes) -> Problem:
    if tp_kind != "2.5d" and depth != 1:
        ways = ["tp_depth to 1"] if _fits(tp_kind, tp, 1, sizes) else []
        ways += ["tp_kind to 2.5d"] if _fits("2.5d", tp, depth, sizes) else []
        ways = ways or [f"tp_depth to 1 and tp to {either(_near(tp_kind, tp, 1, sizes))}"]
        return Problem(
            field="plan.tp_depth",
            message=f"tp_depth = {depth} has no meaning for tp_kind {tp_kind}",
            remedy=f"Set {', or '.join(ways)}.",
        )
    # A depth of tp would leave a grid of one rank in each layer.
    depths = [d for d in range(1, max(tp, 2)) if _fits("2.5d", tp, d, sizes)] if tp_kind == "2.5d" else []
    if depths:
        depths = [d for d in depths if _splits_tokens("2.5d", tp, d, sizes)] or depths
        return Problem(
            field="plan.tp_depth",
            message=f"tp = {tp} is not tp_depth·q² with tp_depth = {depth}",
            remedy=f"Choose tp_depth {either(depths)}.",
        )
    return Problem(
        field="plan.tp",
        message=f"tp = {tp} is not {SHAPES[tp_kind]}, as tp_kind {tp_kind} needs",
        remedy=f"Choose tp {either(_near(tp_kind, tp, depth, sizes))}.",
    )


def _fits(tp_kind: str, tp: int, depth: int, sizes: Sizes) -> bool:
    if not grid_fits(tp_kind, tp, depth):
        return False
    return tp_kind == "1d" or not _misfits(tp_kind, int(grid_of(tp_kind, tp, depth)), sizes)


def _splits_tokens(tp_kind: str, tp: int, depth: int, sizes: Sizes) -> bool:
    parts = int(token_parts(tp_kind, int(grid_of(tp_kind, tp, depth)), depth))
    batch = sizes.micro_batch or parts
    rows = parts // math.gcd(parts, batch)
    return (batch % parts == 0 or parts % batch == 0) and (sizes.seq_len or rows) % rows == 0


def _near(tp_kind: str, tp: int, depth: int, sizes: Sizes) -> list[int]:
    """The nearest degrees below and above ``tp`` that make a grid of this depth which the model fits on."""
    low = max(q for q in range(1, tp + 2) if q == 1 or _ranks(tp_kind, q, depth) <= tp)
    widest = max(low + 1, sizes.heads or 0)
    below = next(q for q in range(low, 0, -1) if not _misfits(tp_kind, q, sizes))
    above = next((q for q in range(low + 1, widest + 1) if not _misfits(tp_kind, q, sizes)), below)
    return sorted({_ranks(tp_kind, below, depth), _ranks(tp_kind, above, depth)})


def _smaller(tp_kind: str, q: int, depth: int, sizes: Sizes) -> str:
    side = next(side for side in range(q - 1, 0, -1) if not _misfits(tp_kind, side, sizes))
    if side == 1:
        return f"Set tp to {depth}, or tp_kind to 1d."
    return f"The next smaller grid that fits has tp = {_ranks(tp_kind, side, depth)} (q = {side})."


def _ranks(tp_kind: str, side: int, depth: int) -> int:
    return {"2d": side**2, "2.5d": depth * side**2, "3d": side**3}[tp_kind]
