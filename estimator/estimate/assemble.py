"""Assemble: the one way of a scenario through the rooms, from the ops of a rank to the seconds of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from estimator.communication.data import shares
from estimator.communication.in_line import block_messages, edge_messages
from estimator.communication.message import Message, PricedMessage, priced_in_line
from estimator.communication.placement import Degrees, Groups, groups_of
from estimator.cost.device_time import Work, attention_s, device_s, in_steps, products_s, work_of
from estimator.cost.efficiency import Calibrated, Efficiencies, efficiencies_for, ideal
from estimator.cost.power import clock_frac
from estimator.cost.price import price
from estimator.cost.slowest_chip import of_slowest
from estimator.memory.rank_memory import RankMemory, rank_memory_of
from estimator.memory.stage_layout import stage_kinds
from estimator.memory.stage_parameters import Policy
from estimator.operations.optimizer import optimizer
from estimator.operations.rank_sizes import RankSizes, rank_sizes
from estimator.operations.transformer import NetworkOps, network
from estimator.scenario.arrays import where
from estimator.scenario.hardware import Chip, Cluster
from estimator.scenario.plan import FOLDED, Plan
from estimator.scenario.scenario import Scenario
from estimator.scenario.training import MATH, Training
from estimator.scenario.units import Number
from estimator.schedule.micro_batch import Part, Scale, part_of, with_messages
from estimator.schedule.step import Parts, Setting, Step, stage_passes, step


@dataclass(frozen=True, kw_only=True, slots=True)
class Assembled:
    """A scenario as its framework runs it, and what each room makes of it."""

    scenario: Scenario
    e: Efficiencies
    rank: Rank
    setting: Setting
    lines: Lines
    timing: Step


def assembled(scenario: Scenario, calibration: Calibrated | None = None) -> Assembled:
    """Take a legal scenario through the rooms.

    operations and cost: the ops of one rank, priced. communication and memory: groups placed, blocks laid out over
    stages, state over ranks. schedule: parts with their collectives in line, stages, the step.
    """
    scenario = effective(scenario)
    e = efficiencies_of(scenario, calibration)
    rank = rank_of(scenario, e)
    setting = setting_of(scenario, rank)
    lines, timing = timed(rank, setting, e)
    return Assembled(scenario=scenario, e=e, rank=rank, setting=setting, lines=lines, timing=timing)


def timed(
    rank: Rank, setting: Setting, e: Efficiencies, *, scale: Scale | None = None, critical_stage: int | None = None
) -> tuple[Lines, Step]:
    """Price the collectives of a rank in their groups and time its step.

    ``scale`` multiplies each component's device time; ``critical_stage`` names the slowest stage where it is known.
    """
    lines = lines_of(rank, setting.cluster, setting.groups, e)
    parts = parts_in_line(parts_of(rank, setting.training, e, scale), lines)
    return lines, step(setting, stage_passes(setting, parts, e), e, critical_stage)


def is_refused_flash(training: Training) -> bool:
    """Whether FlashAttention is asked for in 32 bits, which no kernel of it takes; a lower bound runs no kernel."""
    wide = training.precision in ("fp32", "tf32")
    return wide and training.attention in ("flash", "flash1") and not training.traits.lower_bound


def effective(scenario: Scenario) -> Scenario:
    """Return the scenario as the framework will run it, where it silently falls back.

    FlashAttention takes 16 bits alone (Dao 2023, arXiv 2307.08691: fp16 and bf16): in fp32 and tf32
    scaled_dot_product_attention takes its memory-efficient kernel. Eager PyTorch has no fused fp32 attention for
    grouped key/value heads: it then takes its math path, which keeps the scores (seen with torch 2.11 on H200).
    """
    training = scenario.training
    if is_refused_flash(training):
        training = replace(training, attention="sdpa")
        scenario = replace(scenario, training=training)
    grouped = scenario.model.kv != scenario.model.heads
    if grouped and training.attention == "sdpa" and training.precision in ("fp32", "tf32") and not training.fused:
        return replace(scenario, training=replace(training, attention=MATH))
    return scenario


def efficiencies_of(scenario: Scenario, calibration: Calibrated | None) -> Efficiencies:
    """Return the calibration, or the chip family's efficiencies, of its slowest chip; a lower bound has shares of 1."""
    cluster = scenario.cluster
    e = of_slowest(efficiencies_for(cluster.chip, calibration), cluster.chips, cluster.chips_per_node)
    return ideal(e) if scenario.training.traits.lower_bound else e


@dataclass(frozen=True, kw_only=True, slots=True)
class Rank:
    """Ops of one rank and their work; what is left is to place, to pipeline and to update.

    ``clock_frac``: of the full clock, at which its products run.
    """

    d: RankSizes
    ops: NetworkOps
    shard: RankMemory
    clock_frac: Number
    blocks: tuple[Work, ...]
    embedding: Work
    head: Work
    block_messages: tuple[Sequence[Message], ...]
    embedding_messages: Sequence[Message]
    head_messages: Sequence[Message]


def rank_of(scenario: Scenario, e: Efficiencies, **arrays: Any) -> Rank:
    """Build a rank's ops and price them; ``arrays`` may replace tp, cp, ep, expert_tp, micro_batch by arrays."""
    plan = scenario.plan
    build = _rank if arrays else _rank_once
    chip = scenario.cluster.rank_chip
    return build(rank_sizes(scenario, **arrays), chip, e, plan.sequence_parallel, plan.recompute_every)


def _rank(d: RankSizes, chip: Chip, e: Efficiencies, sequence_parallel: bool, recompute_every: int) -> Rank:
    ops = network(d)
    embedding_sends, head_sends = edge_messages(d, sequence_parallel=sequence_parallel)
    edges = work_of(ops.embedding, chip, e), work_of(ops.head, chip, e)
    works = (*(work_of(block.ops, chip, e) for block in ops.blocks), *edges)
    shard = rank_memory_of(d, ops, recompute_every)
    clock = _clock_frac(d, ops, shard, works, chip, e)
    *blocks, embedding, head = in_steps(works, e, clock)
    return Rank(
        clock_frac=clock,
        d=d,
        ops=ops,
        shard=shard,
        blocks=tuple(blocks),
        embedding=embedding,
        head=head,
        block_messages=tuple(block_messages(d, block, sequence_parallel=sequence_parallel) for block in ops.blocks),
        embedding_messages=embedding_sends,
        head_messages=head_sends,
    )


def _clock_frac(
    d: RankSizes, ops: NetworkOps, shard: RankMemory, works: Sequence[Work], chip: Chip, e: Efficiencies
) -> Number:
    """Clock while the whole network is gone through forward and backward, and its parameters are updated."""
    if not e.power_limit_w:
        return 1.0
    often = (*(float(block.layers) for block in ops.blocks), 1.0, 1.0)
    every = [(one, one.op.count * n) for work, n in zip(works, often, strict=True) for one in work.priced]
    own: Number = shard.embedding_parameters + (0.0 if shard.tied else shard.head_parameters)
    for block in ops.blocks:
        held = block.parameters
        own = own + block.layers * (held.split + held.whole + held.expert)
    update = optimizer(d.training, d.widths, own, 1.0, multi_tensor=d.multi_tensor)
    return clock_frac([*every, *((price(op, chip, e), op.count) for op in update)], chip, e)


_rank_once = lru_cache(maxsize=64)(_rank)
"""Most changes of a plan leave a rank's own sizes as they are: data and pipeline degrees, sharding, schedule, batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lines:
    """Collectives in line, by part of the network."""

    blocks: tuple[list[PricedMessage], ...]
    embedding: list[PricedMessage]
    head: list[PricedMessage]


def lines_of(rank: Rank, cluster: Cluster, groups: Groups, e: Efficiencies) -> Lines:
    """Price the collectives inside a micro-batch."""

    def lines(messages: Sequence[Message], work: Work) -> list[PricedMessage]:
        return priced_in_line(messages, groups, cluster, e, attention_s=attention_s(work), device_s=device_s(work),
                              products_s=products_s(work))  # fmt: skip

    return Lines(
        blocks=tuple(lines(messages, work) for messages, work in zip(rank.block_messages, rank.blocks, strict=True)),
        embedding=lines(rank.embedding_messages, rank.embedding),
        head=lines(rank.head_messages, rank.head),
    )


def parts_of(rank: Rank, training: Training, e: Efficiencies, scale: Scale | None = None) -> Parts:
    """Add up every part of the network, without messages in line; ``scale`` multiplies each component's device time."""

    def part(work: Work, messages: Sequence[Message]) -> Part:
        return part_of(work, messages, training, e, scale, rank.d.model.norm_tensors)

    return Parts(
        blocks=tuple(map(part, rank.blocks, rank.block_messages)),
        embedding=part(rank.embedding, rank.embedding_messages),
        head=part(rank.head, rank.head_messages),
    )


def parts_in_line(parts: Parts, lines: Lines) -> Parts:
    """Put every part's messages in line with its compute."""
    return Parts(
        blocks=tuple(map(with_messages, parts.blocks, lines.blocks)),
        embedding=with_messages(parts.embedding, lines.embedding),
        head=with_messages(parts.head, lines.head),
    )


def setting_of(scenario: Scenario, rank: Rank) -> Setting:
    """Put one scenario's layout, groups and policies together."""
    plan, d = scenario.plan, rank.d
    degrees = Degrees(
        tp=d.tp,
        cp=d.cp,
        dp=plan.dp,
        pp=plan.pp,
        ep=d.ep,
        expert_tp=d.expert_tp,
        shard=plan.shard_ranks or plan.dp * plan.cp,
        grid_side=d.grid_side,
    )
    return setting(
        rank.shard,
        groups_of(degrees, plan.placement, scenario.cluster.chips_per_node),
        degrees,
        plan,
        scenario.training,
        scenario.cluster,
        stages=plan.pp,
        virtual_stages=plan.virtual_stages,
        micro_batches=scenario.micro_batches,
    )


def setting(
    shard: RankMemory, groups: Groups, degrees: Degrees, plan: Plan, training: Training, cluster: Cluster, *,
    stages: Number, virtual_stages: Number, micro_batches: Number,
) -> Setting:  # fmt: skip
    """Lay blocks out over the stages, and state over data parallel ranks and the host."""
    folded = plan.schedule in FOLDED
    chunks = 2 if folded else virtual_stages
    bucketed = plan.ddp_mode == "bucketed" and plan.overlap
    return Setting(
        shard=shard,
        kinds=stage_kinds(shard.layers, shard.leading, stages=stages, virtual_stages=chunks, folded=folded),
        groups=groups,
        policy=Policy(
            sharding=plan.sharding,
            data_ranks=degrees.data,
            expert_ranks=degrees.expert_data,
            dense=shares(plan.sharding, degrees.shard),
            expert=shares(plan.sharding, degrees.expert_data),
            bucket_bytes=plan.bucket_bytes,
            # What is more than data parallel exchanges gradients by itself, a pipeline after its last backward.
            standing=where(degrees.tp * degrees.cp * degrees.ep * stages == 1.0, 1.0, 0.0)
            if bucketed and plan.sharding == "ddp"
            else 0.0,
            beside=where(stages == 1.0, 1.0, 0.0) if bucketed else 0.0,
            ddp_mode=plan.ddp_mode,
            offload_optimizer=plan.offload in ("optimizer", "both"),
            offload_activations=plan.offload in ("activations", "both"),
            multi_tensor=training.updates_together(cpu=cluster.chip.kind == "cpu"),
        ),
        plan=plan,
        training=training,
        cluster=cluster,
        stages=stages,
        virtual_stages=chunks,
        micro_batches=micro_batches,
    )
