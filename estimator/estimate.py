"""Estimate: from a scenario to predicted time, memory and communication; reads like a paper's method section."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from estimator import explain
from estimator.breakdown import CATEGORIES, PHASES, complete
from estimator.communication import Collective
from estimator.efficiency import Efficiencies, efficiencies, ideal
from estimator.hardware import PEAK_FIELD, peak_flops_per_s
from estimator.interval import interval_s
from estimator.memory import StageMemory
from estimator.model import model_flops_per_token, parameters
from estimator.networks.dims import dims
from estimator.networks.transformer import network
from estimator.op_cost import OpCost, op_costs
from estimator.problems import InputProblems, Problem
from estimator.scenario import Scenario, scenario_problems
from estimator.stages import Stage, stage_memories, stages
from estimator.step import Step, step


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


def estimate(scenario: Scenario, calibration: Efficiencies | None = None, *, interval: bool = True) -> Estimate:
    """Predict one training step; raise InputProblems where the scenario is impossible.

    ``calibration`` replaces the efficiencies of the chip's family. Without ``interval``, which prices the step ten more
    times, both of its ends are the estimate itself: for searches.
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
    low, high = timing.seconds, timing.seconds
    if interval:
        low, high = interval_s(scenario, layout, timing.seconds, e)

    memories = stage_memories(scenario, layout, e)
    fullest = max(memories, key=lambda stage: stage.peak_bytes)
    capacity = scenario.cluster.chip.memory_bytes
    reserved = fullest.peak_bytes * e.allocator_frac

    tokens = float(scenario.tokens)
    chips = scenario.cluster.chips
    peak = _reference_peak(scenario)
    model_flops = model_flops_per_token(scenario.model, scenario.training.seq_len) * tokens
    executed = _executed_flops(scenario, layout, e)
    cost = op_costs(scenario, layout[timing.pace], e)
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
