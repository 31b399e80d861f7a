"""Estimate: from a scenario to predicted time, memory and communication; reads like a paper's method section."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from estimator import explain
from estimator.breakdown import CATEGORIES, PHASES, complete
from estimator.cost.host import launch_s
from estimator.cost.roofline import Priced, price
from estimator.efficiency import Efficiencies, Range, efficiencies, ideal
from estimator.hardware import PEAK_FIELD, peak_flops_per_s
from estimator.memory import StageMemory
from estimator.model import model_flops_per_token, parameters
from estimator.networks.dims import dims
from estimator.networks.transformer import network
from estimator.ops import Op
from estimator.problems import InputProblems, Problem
from estimator.scenario import Scenario, scenario_problems
from estimator.stages import Stage, stage_memories, stages
from estimator.step import Collective, Step, step

INTERVAL_GROUPS: dict[str, tuple[str, ...]] = {
    "matrix products": ("gemm_matrix_frac", "gemm_tf32_frac", "gemm_vector_frac", "gemm_unaligned_frac"),
    "attention": ("attention_frac", "attention_flash_frac", "attention_flash1_frac", "attention_vector_frac",
                  "attention_half_length", "attention_backward_frac"),
    "memory": ("memory_frac", "strided_elements_per_unit_cycle", "mixed_elements_per_unit_cycle", "kernel_tail_s",
               "kernel_gap_s",
               "optimizer_tail_s"),
    "host": ("host_forward_s", "host_backward_s", "host_fused_forward_s", "host_fused_backward_s",
             "host_megatron_forward_s", "host_megatron_backward_s", "host_tensor_s",
             "host_step_s", "host_collective_s"),
    "communication": ("link_frac", "network_frac", "collective_start_s", "collective_rank_s", "contention_frac"),
}  # fmt: skip
"""Efficiencies that err together; the interval adds the groups' effects in quadrature."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Memory of the fullest stage's rank, and every stage's."""

    peak_bytes: float
    reserved_bytes: float
    capacity_bytes: float
    fits: bool
    moment: str
    by_kind: dict[str, float]
    stages: tuple[dict[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class Roofs:
    """Peaks of the chip that the roofline draws."""

    memory_bytes_per_s: float
    flops_per_s: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A prediction; ``phases_s`` and ``breakdown_s`` each add to ``step_time_s``."""

    step_time_s: float
    interval_s: tuple[float, float]
    phases_s: dict[str, float]
    host_wait_by_phase_s: dict[str, float]
    breakdown_s: dict[str, float]
    tokens_per_s: float
    tokens_per_s_per_chip: float
    mfu: float
    hfu: float
    memory: Memory
    ops: tuple[OpCost, ...]
    collectives: tuple[Collective, ...]
    limits: str
    assumptions: tuple[str, ...]
    problems: tuple[Problem, ...]
    parameters: int
    model_flops: float
    roofs: Roofs
    micro_batches: int
    chips: int
    efficiencies: str


def estimate(scenario: Scenario, calibration: Efficiencies | None = None) -> Estimate:
    """Predict one training step; raise InputProblems where the scenario is impossible.

    ``calibration`` replaces the efficiencies of the chip's family.
    """
    problems = scenario_problems(scenario)
    if problems:
        raise InputProblems(problems)
    scenario = explain.effective(scenario)
    e = calibration or efficiencies(scenario.cluster.chip.efficiency)
    if scenario.training.framework == "ideal":
        e = ideal(e)

    ops = network(dims(scenario))
    layout = stages(scenario, ops)
    timing = step(scenario, layout, e)
    low, high = _interval(scenario, layout, timing.seconds, e)

    memories = stage_memories(scenario, layout, e)
    fullest = max(memories, key=lambda stage: stage.peak_bytes)
    capacity = scenario.cluster.chip.memory_bytes
    reserved = fullest.peak_bytes * e.allocator_frac

    tokens = float(scenario.tokens)
    chips = scenario.cluster.chips
    peak = _reference_peak(scenario)
    model_flops = model_flops_per_token(scenario.model, scenario.training.seq_len) * tokens
    executed = _executed_flops(scenario, layout, e)
    cost = _op_costs(scenario, layout[timing.pace], e)
    memory = Memory(
        peak_bytes=fullest.peak_bytes,
        reserved_bytes=reserved,
        capacity_bytes=capacity,
        fits=reserved <= capacity,
        moment=fullest.moment,
        by_kind=fullest.by_kind,
        stages=tuple(_stage_json(stage) for stage in memories),
    )
    return Estimate(
        step_time_s=timing.seconds,
        interval_s=(low, high),
        phases_s=complete(timing.phases_s, PHASES),
        host_wait_by_phase_s=timing.host_wait_by_phase_s,
        breakdown_s=complete(timing.breakdown_s, CATEGORIES),
        tokens_per_s=tokens / timing.seconds,
        tokens_per_s_per_chip=tokens / timing.seconds / chips,
        mfu=model_flops / (timing.seconds * chips * peak),
        hfu=executed / (timing.seconds * chips * peak),
        memory=memory,
        ops=cost,
        collectives=timing.collectives,
        limits=explain.limits(scenario, timing, memory.peak_bytes, reserved, capacity),
        assumptions=explain.assumptions(scenario, e),
        problems=explain.memory_problems(scenario, fullest, reserved, capacity),
        parameters=parameters(scenario.model, scenario.training.seq_len),
        model_flops=model_flops,
        roofs=Roofs(
            memory_bytes_per_s=scenario.cluster.chip.memory_bytes_per_s,
            flops_per_s={
                name.removesuffix("_flops_per_s"): getattr(scenario.cluster.chip, name)
                for name in dict.fromkeys(PEAK_FIELD.values())
                if getattr(scenario.cluster.chip, name) > 0
            },
        ),
        micro_batches=scenario.micro_batches,
        chips=chips,
        efficiencies=e.name,
    )


def _reference_peak(scenario: Scenario) -> float:
    return peak_flops_per_s(scenario.cluster.chip, scenario.training.precision)


def _interval(scenario: Scenario, layout: list[Stage], seconds: float, e: Efficiencies) -> tuple[float, float]:
    """Give the 80 % interval: each group of efficiencies at its pessimistic and optimistic end, in quadrature."""
    below = above = 0.0
    for names in INTERVAL_GROUPS.values():
        slow = step(scenario, layout, _moved(e, names, faster=False)).seconds
        fast = step(scenario, layout, _moved(e, names, faster=True)).seconds
        above += max(0.0, slow - seconds) ** 2
        below += max(0.0, seconds - fast) ** 2
    return max(seconds - below**0.5, 0.0), seconds + above**0.5


def _moved(e: Efficiencies, names: tuple[str, ...], *, faster: bool) -> Efficiencies:
    changed: dict[str, float] = {}
    for name in names:
        found: Range = e.ranges[name]
        more_is_faster = (name.endswith("_frac") and name != "contention_frac") or name.endswith("_cycle")
        changed[name] = found.high if more_is_faster == faster else found.low
    return replace(e, **changed)  # type: ignore[arg-type]


def _executed_flops(scenario: Scenario, layout: list[Stage], e: Efficiencies) -> float:
    """FLOPs that all chips execute in a step, recomputation and the full attention square included."""
    ranks_per_stage = scenario.plan.dp * scenario.plan.tp
    total = 0.0
    for stage in layout:
        per_micro_batch = sum(
            float(op.flops * op.count) * times
            for op, times in stage.executions()
            if op.category in ("matmul", "attention") and op.kind != "kernels"
        )
        total += per_micro_batch * scenario.micro_batches * ranks_per_stage
    return total


def _op_costs(scenario: Scenario, stage: Stage, e: Efficiencies) -> tuple[OpCost, ...]:
    chip = scenario.cluster.chip
    rows = [
        _op_cost(price(op, chip, e), times * scenario.micro_batches, launch_s(scenario.training, op.phase, e))
        for op, times in stage.executions()
        if float(op.launches) > 0
    ]
    rows += [_op_cost(price(op, chip, e), 1.0, 0.0) for op in stage.once]
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


def _stage_json(stage: StageMemory) -> dict[str, Any]:
    return {
        "stage": stage.stage,
        "layers": stage.layers,
        "in_flight": stage.in_flight,
        "moment": stage.moment,
        "peak_bytes": stage.peak_bytes,
        "by_kind": stage.by_kind,
    }


__all__ = ["Estimate", "Step", "estimate"]
