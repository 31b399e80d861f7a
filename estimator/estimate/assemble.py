"""Rank: a scenario turned into the numbers that a step is put together from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from estimator.communication.data import shares
from estimator.communication.in_line import InLine, Message, block_messages, edge_messages, hidden, priced
from estimator.communication.placement import Degrees, Groups, groups_of
from estimator.cost.device_time import Work, attention_s, device_s, work_of
from estimator.cost.efficiency import Efficiencies
from estimator.memory.memory import Policy
from estimator.memory.rank_memory import Shard, shard_of
from estimator.memory.stage_layout import stage_kinds
from estimator.operations.rank_sizes import Dims, dims
from estimator.operations.transformer import NetworkOps, network
from estimator.scenario.hardware import Chip, Cluster
from estimator.scenario.plan import Plan
from estimator.scenario.scenario import Scenario
from estimator.scenario.training import Training
from estimator.scenario.units import Number
from estimator.schedule.micro_batch import Scale, part_of
from estimator.schedule.step import Parts, Setting

FOLDED = ("zero-bubble-v",)
"""Schedules that run the last chunk on the first rank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rank:
    """Ops of one rank and their work; what is left is to place, to pipeline and to update."""

    d: Dims
    ops: NetworkOps
    shard: Shard
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
    chip = scenario.cluster.chip
    return build(dims(scenario, **arrays), chip, e, plan.sequence_parallel, plan.recompute_every)


def _rank(d: Dims, chip: Chip, e: Efficiencies, sequence_parallel: bool, recompute_every: int) -> Rank:
    ops = network(d)
    embedding_sends, head_sends = edge_messages(d, sequence_parallel=sequence_parallel)
    return Rank(
        d=d,
        ops=ops,
        shard=shard_of(d, ops, recompute_every),
        blocks=tuple(work_of(block.ops, chip, e) for block in ops.blocks),
        embedding=work_of(ops.embedding, chip, e),
        head=work_of(ops.head, chip, e),
        block_messages=tuple(block_messages(d, block, sequence_parallel=sequence_parallel) for block in ops.blocks),
        embedding_messages=embedding_sends,
        head_messages=head_sends,
    )


_rank_once = lru_cache(maxsize=64)(_rank)
"""Most changes of a plan leave a rank's own sizes as they are: data and pipeline degrees, sharding, schedule, batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lines:
    """Collectives in line, by part of the network."""

    blocks: tuple[list[InLine], ...]
    embedding: list[InLine]
    head: list[InLine]


def lines_of(rank: Rank, cluster: Cluster, groups: Groups, e: Efficiencies) -> Lines:
    """Price the collectives inside a micro-batch."""

    def lines(messages: Sequence[Message], work: Work) -> list[InLine]:
        found = priced(messages, groups, cluster, e, attention_s(work))
        return hidden(found, device_s(work)) if e.lower_bound else found

    return Lines(
        blocks=tuple(lines(messages, work) for messages, work in zip(rank.block_messages, rank.blocks, strict=True)),
        embedding=lines(rank.embedding_messages, rank.embedding),
        head=lines(rank.head_messages, rank.head),
    )


def parts_of(rank: Rank, lines: Lines, training: Training, e: Efficiencies, scale: Scale | None = None) -> Parts:
    """Add up every part of the network; ``scale`` multiplies the device seconds of each component."""
    return Parts(
        blocks=tuple(
            part_of(work, found, training, e, scale) for work, found in zip(rank.blocks, lines.blocks, strict=True)
        ),
        embedding=part_of(rank.embedding, lines.embedding, training, e, scale),
        head=part_of(rank.head, lines.head, training, e, scale),
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
    shard: Shard, groups: Groups, degrees: Degrees, plan: Plan, training: Training, cluster: Cluster, *,
    stages: Number, virtual_stages: Number, micro_batches: Number,
) -> Setting:  # fmt: skip
    """Lay blocks out over the stages, and state over data parallel ranks and the host."""
    folded = plan.schedule in FOLDED
    chunks = 2 if folded else virtual_stages
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
            ddp_mode=plan.ddp_mode,
            offload_optimizer=plan.offload in ("optimizer", "both"),
            offload_activations=plan.offload in ("activations", "both"),
            multi_tensor=cluster.chip.kind != "cpu",
        ),
        plan=plan,
        training=training,
        cluster=cluster,
        stages=stages,
        virtual_stages=chunks,
        micro_batches=micro_batches,
    )
