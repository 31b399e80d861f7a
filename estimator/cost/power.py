"""Power: the clock that a chip keeps where its products draw more than it may."""

from __future__ import annotations

from collections.abc import Iterable

from estimator.cost.efficiency import Efficiencies
from estimator.cost.price import Priced
from estimator.scenario.arrays import maximum, minimum
from estimator.scenario.breakdown import Category
from estimator.scenario.hardware import Chip
from estimator.scenario.units import Number

ROUNDS = 10
"""Of the fixed point, each of which leaves less than half of what was missing."""


def clock_frac(work: Iterable[tuple[Priced, Number]], chip: Chip, e: Efficiencies) -> Number:
    """Clock of products over the full one while this work, each of it so often, goes on and on.

    P = idle + (Σ J_flop·FLOPs·f² + Σ J_byte·bytes) / T is at most the limit, as switching takes C·V² and V falls with f
    (Mudge 2001, IEEE Computer 34(4)); T = T₁ + T_products·(1/f - 1). Bytes are those that memory can have moved
    meanwhile: what caches keep is not among them. Copies from and to the host run beside kernels, or none runs beside
    them: their time is not of this work. 1 where the chip's power is not known, and for a lower bound.
    """
    if not e.power_limit_w:
        return 1.0
    joules = {"tf32": e.tf32_flop_j, "fp32": e.fp32_flop_j}
    bytes_per_s = e.memory_frac * chip.memory_bytes_per_s
    switched_j: Number = 0.0
    moved_j: Number = 0.0
    seconds: Number = 0.0
    products_s: Number = 0.0
    for one, often in work:
        op = one.op
        if op.kind == "transfer":
            continue
        each_s = one.seconds * often
        seconds = seconds + each_s
        if op.kind != "kernels":
            switched_j = switched_j + op.flops * often * joules.get(op.precision, e.matrix_flop_j)
            if op.kind == "gemm" and op.category == Category.MATMUL:
                products_s = products_s + each_s
        moved_j = moved_j + e.byte_j * minimum(op.bytes * often, bytes_per_s * each_s)
    room_w = e.power_limit_w - e.idle_w
    clock: Number = 1.0
    for _ in range(ROUNDS):
        lasts_s = seconds + products_s * (1.0 / clock - 1.0)
        clock = minimum(1.0, (maximum(room_w * lasts_s - moved_j, 0.0) / maximum(switched_j, 1e-30)) ** 0.5)
        clock = maximum(clock, LEAST)
    return clock


LEAST = 0.6
"""Below it, memory alone would draw what the chip may."""
