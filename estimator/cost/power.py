"""Power: the clock that a chip keeps where its products draw more than it may."""

from __future__ import annotations

from collections.abc import Iterable

from estimator.cost.efficiency import Efficiencies
from estimator.cost.price import VECTOR, Priced
from estimator.scenario.arrays import maximum, minimum, where
from estimator.scenario.hardware import Chip
from estimator.scenario.precision import QUANTISED
from estimator.scenario.units import Number

ROUNDS = 8
"""Of Newton's method from the full clock down to a cubic's largest root: each squares what is missing."""


def clock_frac(work: Iterable[tuple[Priced, Number]], chip: Chip, e: Efficiencies) -> Number:
    """Clock of products over the full one while this work, each of it so often, goes on and on.

    P = idle + (Σ J_flop·FLOPs·f² + Σ J_byte·bytes + Σ J_gelu·GELUs) / T is at most the limit, as switching takes C·V²
    and V falls with f (Mudge 2001, IEEE Computer 34(4)); T = T₁ + c·T_units·(1/f - 1), T_units what products, fused
    attention and kernels that elements bind take: of it a share c follows the clock, the rest waits for memory and its
    caches, whose clock stays (loops on an H100 and two H200: h100_power.json, h200_power.json and h200_power_turns.json
    of tests/reference). Bytes are those that memory can have moved meanwhile: what caches keep is not among them.
    Copies from and to the host run beside kernels, or none runs beside them: their time is not of this work. A FLOP of
    narrower operands than 16 bits takes as much less (assumed: of 32 and 16 bits a product takes 3.7 and 1.1 pJ, a sum
    0.9 and 0.4; Horowitz 2014, ISSCC, Computing's energy problem; fp8 loops on an H200: 0.53 of bf16's). 1 where the
    chip's power is not known, and for a lower bound.
    """
    if not e.power_limit_w:
        return 1.0
    joules = {"tf32": e.tf32_flop_j, "fp32": e.fp32_flop_j}
    joules |= {name: e.matrix_flop_j * operand_bytes / 2.0 for name, operand_bytes in QUANTISED.items()}
    bytes_per_s = e.memory_frac * chip.memory_bytes_per_s
    switched_j: Number = 0.0
    other_j: Number = 0.0
    seconds: Number = 0.0
    clocked_s: Number = 0.0
    for one, often in work:
        op = one.op
        if op.kind == "transfer":
            continue
        each_s = one.seconds * often
        seconds = seconds + each_s
        if op.kind == "kernels":
            other_j = other_j + e.gelu_j * op.gelus * often
        elif op.kind == "attention":
            each_j = e.fp32_flop_j if op.precision in VECTOR else e.attention_flop_j
            switched_j = switched_j + op.flops * op.visible_frac * often * each_j
        else:
            switched_j = switched_j + op.flops * often * joules.get(op.precision, e.matrix_flop_j)
        clocked_s = clocked_s + e.clocked_frac * one.units_s * often
        other_j = other_j + e.byte_j * minimum(op.bytes * often, bytes_per_s * each_s)
    # What P·T is above the limit at clock f, over the joules switched at the full one, times f: f³ + slope·f - pull.
    room_w, draws = e.power_limit_w - e.idle_w, switched_j > 0
    switched_j = where(draws, switched_j, 1.0)
    pull = room_w * clocked_s / switched_j
    slope = maximum((other_j - room_w * (seconds - clocked_s)) / switched_j, pull - 1.0)
    clock: Number = 1.0
    for _ in range(ROUNDS):
        clock = clock - (clock**3 + slope * clock - pull) / (3.0 * clock**2 + slope)
    return where(draws, maximum(clock, LEAST), 1.0)


LEAST = 0.6
"""Assumed: the law was read off 0.76 of the full clock and more (tests/reference/h200_drawn: 1500 of 1980 MHz)."""
