"""Op cost: every op of the pace-setting stage with its time, traffic and what binds it, as tables show it."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.cost.host import launch_s
from estimator.cost.roofline import Priced, price
from estimator.efficiency import Efficiencies
from estimator.layout import StageKind
from estimator.ops import Op
from estimator.rank import Rank
from estimator.step import Setting, once_per_step


@dataclass(kw_only=True, slots=True)
class OpCost:
    """One op of one rank of the pace-setting stage: totals over a step."""

    name: str
    layer: str
    phase: str
    category: str
    shape: str
    count: float
    flops: float
    bytes: float
    launches: float
    saved_bytes: float
    seconds: float
    bound: str
    intensity_flops_per_byte: float
    precision: str
    recomputed: bool


def op_costs(rank: Rank, setting: Setting, kind: StageKind, e: Efficiencies) -> tuple[OpCost, ...]:
    """Return totals over a step for every op that one rank of a kind of stage runs; the first stage's optimizer."""
    chip, training, m = setting.cluster.chip, setting.training, float(setting.micro_batches)
    found = [(work.priced, float(times)) for work, times in zip(rank.blocks, kind.blocks, strict=True) if times > 0]
    found += [(rank.embedding.priced, 1.0)] if kind.embedding else []
    found += [(rank.head.priced, 1.0)] if kind.head else []
    launch = {phase: launch_s(training, phase, e) for phase in ("forward", "backward")}
    rows = [
        _op_cost(one, times * m, launch[one.op.phase])
        for priced, times in found
        for one in priced
        if one.op.launches > 0
    ]
    if not setting.policy.offload_optimizer:
        once, _ = once_per_step(setting, setting.kinds[0])
        rows += [_op_cost(price(op, chip, e), 1.0, 0.0) for op in once]
    return tuple(rows)


def _op_cost(priced: Priced, times: float, host_s: float) -> OpCost:
    op = priced.op
    count = float(op.count) * times
    seconds = float(priced.seconds)
    bound = "launch" if float(op.launches) * host_s > seconds else priced.bound
    flops, moved = float(priced.executed_flops), float(op.bytes)
    return OpCost(
        name=op.name,
        layer=op.layer,
        phase=op.phase,
        category=op.category,
        shape=_shape(op),
        count=count,
        flops=flops * count,
        bytes=moved * count,
        launches=float(op.launches) * count,
        saved_bytes=float(op.saved_bytes) * count,
        seconds=seconds * count,
        bound=bound,
        intensity_flops_per_byte=flops / moved if moved else 0.0,
        precision=op.precision,
        recomputed=op.recomputed,
    )


def _shape(op: Op) -> str:
    if op.kind == "kernels":
        return ""
    product = f"{float(op.m):.0f} × {float(op.n):.0f} × {float(op.k):.0f}"
    return product if float(op.batch) == 1 else f"{float(op.batch):.0f} × ({product})"
