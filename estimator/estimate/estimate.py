"""Estimate: from a scenario to predicted time, memory and communication; reads like a paper's method section."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from estimator.cost.device_time import Work, with_weights_apart
from estimator.cost.efficiency import Calibrated
from estimator.cost.host import runs_again_apart
from estimator.estimate import explain
from estimator.estimate.assemble import Rank, assembled
from estimator.estimate.interval import interval_s, uneven
from estimator.estimate.recomputing import recomputing
from estimator.estimate.report import (
    Collective,
    MemoryOfStage,
    OpCost,
    collectives_of,
    op_costs,
    phases_and_breakdown,
    stage_memories,
)
from estimator.estimate.residual import (
    allocator_range,
    kind_of,
    known_of_host,
    memory_interval,
    memory_kind_of,
    out_of_memory_frac,
    widened,
)
from estimator.memory.stage_layout import StageKind
from estimator.scenario.breakdown import Phase
from estimator.scenario.hardware import PEAK_FIELD, Chip, peak_flops_per_s
from estimator.scenario.parameters import model_flops_per_token, parameters
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import Scenario, scenario_problems
from estimator.schedule.step import Setting, weights_apart


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Memory of the fullest stage's rank, and every stage's.

    ``interval_bytes``: the 80 % interval of the peak.
    ``curve``: (seconds, bytes held from there on) over the step of an op list; empty for a scenario.
    ``out_of_memory_frac``: the risk that the step needs more than there is.
    """

    peak_bytes: float
    reserved_bytes: float
    capacity_bytes: float
    fits: bool
    moment: str
    by_kind: dict[str, float]
    stages: tuple[MemoryOfStage, ...]
    curve: tuple[tuple[float, float], ...] = ()
    interval_bytes: tuple[float, float] = (0.0, 0.0)
    out_of_memory_frac: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Roofs:
    """Peaks of the chip that the roofline draws."""

    memory_bytes_per_s: float
    flops_per_s: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class ModuleCost:
    """Kernels of one module of a program, without those inside it: seconds by phase, launches, FLOPs and bytes.

    Of a collective, and of kernels on other streams, the seconds that nothing hides.
    """

    path: str
    phases_s: dict[str, float]
    seconds: float
    launches: float
    flops: float
    bytes: float


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A prediction; ``phases_s`` and ``breakdown_s`` each add to ``step_time_s``.

    ``mfu``: model FLOPs per second over the chips' dense peak, by PaLM's convention (arXiv 2204.02311, appendix B): the
    full attention square though half of it is masked, nothing recomputed. ``hfu``: FLOPs that the chips execute, over
    the same peak: of the square what the kernel computes (half, if it skips masked tiles), recomputation, scores that
    fused attention multiplies again in backward, ranks that repeat one another's work. It may lie below ``mfu``.
    ``binds``: the category that binds: the host where it paces the micro-batches, else the largest of the breakdown.
    ``kind``: the kind of plan whose known errors ``interval_s`` has (estimate/residual.py).
    Of an op list ``tokens_per_s`` is 0 where it does not say how many there are, and ``modules`` are its modules.
    """

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
    modules: tuple[ModuleCost, ...] = ()
    kind: str = ""
    binds: str = ""


def estimate(
    scenario: Scenario, calibration: Calibrated | None = None, *, interval: bool = True, explained: bool = True
) -> Estimate:
    """Predict one training step; raise InputProblems where the scenario is impossible.

    ``calibration`` replaces the efficiencies of the chip's family. Without ``interval`` both of its ends are the
    estimate itself; without ``explained`` ops, collectives, limits, assumptions and problems of memory, which take as
    long as the rest, are left empty.
    """
    problems = scenario_problems(scenario)
    if problems:
        raise InputProblems(problems)
    given, found = scenario, assembled(scenario, calibration)
    scenario, e, rank, setting, timing = found.scenario, found.e, found.rank, found.setting, found.timing
    seconds = float(timing.seconds)
    kind = kind_of(scenario, timing.one.host_share, known=known_of_host(e, scenario.cluster.chip))
    low, high, most_bytes = seconds, seconds, 0.0
    if interval and not e.lower_bound:
        low, high = interval_s(rank, setting, int(timing.critical_stage), e)
        if (other := uneven(scenario)) is not None:
            full = assembled(other, calibration)
            later_s = max(float(full.timing.seconds) - seconds, 0.0)
            most_bytes = max(stage.peak_bytes for stage in stage_memories(full.setting, e))
            high = seconds + math.hypot(high - seconds, later_s)
        low, high = widened(seconds, (low, high), kind)
    shown = _shown(rank, setting, setting.kinds[int(timing.critical_stage)])
    phases, breakdown = phases_and_breakdown(timing, shown, setting)
    launched = explain.launching(timing, e, float(setting.micro_batches))

    stages = stage_memories(setting, e)
    fullest = max(stages, key=lambda stage: stage.peak_bytes)
    capacity = scenario.cluster.rank_chip.memory_bytes
    reserved = max(stage.reserved_bytes for stage in stages)
    memory_kind = memory_kind_of(scenario)
    memory = Memory(
        peak_bytes=fullest.peak_bytes,
        reserved_bytes=reserved,
        capacity_bytes=capacity,
        fits=reserved <= capacity,
        moment=fullest.moment,
        by_kind=fullest.by_kind,
        stages=stages,
        interval_bytes=memory_interval(fullest.peak_bytes, memory_kind, most_bytes),
        out_of_memory_frac=out_of_memory_frac(
            reserved, capacity, memory_kind, allocator_range(scenario, fullest.moment, e)
        ),
    )

    tokens = float(scenario.tokens)
    chips = scenario.cluster.chips
    peak = peak_flops_per_s(scenario.cluster.rank_chip, scenario.training.precision)
    model_flops = model_flops_per_token(scenario.model, scenario.training.seq_len) * tokens
    ops: tuple[OpCost, ...] = ()
    collectives: tuple[Collective, ...] = ()
    assumptions: tuple[str, ...] = ()
    of_memory: tuple[Problem, ...] = ()
    limits = ""
    if explained:
        again = recomputing(scenario, rank, setting.kinds[int(timing.critical_stage)], e)
        ops = op_costs(shown, setting, setting.kinds[int(timing.critical_stage)], e)
        collectives = collectives_of(timing, found.lines, setting)
        limits = explain.limits(seconds, breakdown, collectives, memory.peak_bytes, reserved, capacity, launched)
        assumptions = (
            *explain.fallen_back(given, scenario),
            *explain.assumptions(scenario, e, timing.one, float(found.rank.clock_frac), again),
            *explain.passed_over_words(scenario.cluster.chip, calibration),
        )
        of_memory = explain.memory_problems(scenario, fullest, reserved, capacity, e)
    return Estimate(
        step_time_s=seconds,
        # Its variants are priced as arrays, whose last digit may differ.
        interval_s=(min(low, seconds), max(high, seconds)),
        phases_s=phases,
        host_wait_by_phase_s={
            Phase.FORWARD: float(timing.wait_start_s + timing.wait_forward_s),
            Phase.BACKWARD: float(timing.wait_backward_s),
            Phase.OPTIMIZER: float(timing.wait_optimizer_s),
        },
        breakdown_s=breakdown,
        tokens_per_s=tokens / seconds,
        tokens_per_s_per_chip=tokens / seconds / chips,
        mfu=model_flops / (seconds * chips * peak),
        hfu=_executed_flops(scenario, rank, shown) / (seconds * chips * peak),
        memory=memory,
        ops=ops,
        collectives=collectives,
        limits=limits,
        assumptions=assumptions,
        problems=of_memory,
        parameters=parameters(scenario.model, scenario.training.seq_len),
        model_flops=model_flops,
        roofs=roofs_of(scenario.cluster.rank_chip),
        micro_batches=scenario.micro_batches,
        chips=chips,
        efficiencies=e.name,
        kind=kind,
        binds=explain.binding(breakdown, launched)[0],
    )


def roofs_of(chip: Chip) -> Roofs:
    """Return the peaks that a chip has."""
    return Roofs(
        memory_bytes_per_s=chip.memory_bytes_per_s,
        flops_per_s={
            name.removesuffix("_flops_per_s"): getattr(chip, name)
            for name in dict.fromkeys(PEAK_FIELD.values())
            if getattr(chip, name) > 0
        },
    )


def _shown(rank: Rank, setting: Setting, kind: StageKind) -> Rank:
    """The rank with all that its blocks run on a kind of stage."""
    if not runs_again_apart(setting.plan, setting.training):
        return rank
    share = float(weights_apart(setting, kind))
    return replace(rank, blocks=tuple(with_weights_apart(work, share) for work in rank.blocks))


def _executed_flops(scenario: Scenario, rank: Rank, shown: Rank) -> float:
    """FLOPs of products and attention that all chips execute in a step; the first stage's weights run nothing again."""
    split = 1.0 - 1.0 / scenario.plan.pp
    total = sum(
        (_product_flops(work) + split * (_product_flops(more) - _product_flops(work))) * block.layers
        for work, more, block in zip(rank.blocks, shown.blocks, rank.ops.blocks, strict=True)
    )
    total += _product_flops(rank.head)
    return total * scenario.micro_batches * scenario.plan.dp * scenario.plan.cp * scenario.plan.tp


def _product_flops(work: Work) -> float:
    return sum(float(one.executed_flops * one.op.count) for one in work.priced if one.op.kind != "kernels")
