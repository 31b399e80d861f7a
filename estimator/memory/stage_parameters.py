"""Stage's parameters: which of them a rank of a stage has, and what data parallel ranks and the host take off them."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.communication.data import WHOLLY_SHARDED, StateShares
from estimator.memory.rank_memory import RankMemory
from estimator.memory.stage_layout import StageKind
from estimator.scenario.units import Number

Large = tuple[Number, Number]


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What data parallel ranks and the host take off a rank's memory.

    ``standing``: 1 where buckets of gradients are there from the start, as DistributedDataParallel's, 0 where they are
    made of gradients as these come; ``beside``: 1 where they travel beside backward, 0 after it.
    """

    sharding: str
    data_ranks: Number
    expert_ranks: Number
    dense: StateShares
    expert: StateShares
    bucket_bytes: Number
    standing: Number
    beside: Number
    ddp_mode: str
    offload_optimizer: bool
    offload_activations: bool
    multi_tensor: bool


def stage_parameters(shard: RankMemory, kind: StageKind) -> tuple[Number, Number, Number, Number, Number]:
    """Return a rank's dense and expert parameters on a stage, those that autocast copies, and tensors of both kinds.

    A tied head on another stage than the embedding keeps its own copy of the table.
    """
    dense: Number = shard.embedding_parameters if kind.embedding else 0.0
    expert: Number = 0.0
    cast: Number = 0.0
    tensors: Number = 1.0 if kind.embedding else 0.0
    expert_tensors: Number = 0.0
    for block, count in zip(shard.blocks, kind.blocks, strict=True):
        dense = dense + count * block.dense_parameters
        expert = expert + count * block.expert_parameters
        cast = cast + count * block.cast_parameters
        tensors = tensors + count * block.tensors
        expert_tensors = expert_tensors + count * block.expert_tensors
    if kind.head:
        dense = dense + shard.norm_parameters
        if not (shard.tied and kind.embedding):
            dense = dense + shard.head_parameters
        cast = cast + shard.head_parameters
        tensors = tensors + 2
    return dense, expert, cast, tensors, expert_tensors


def large_tensors(shard: RankMemory, kind: StageKind) -> tuple[list[Large], list[Large]]:
    """Elements and number of a rank's large parameter tensors on a stage, dense ones and routed experts'."""
    dense: list[Large] = [(shard.embedding_parameters, 1.0)] if kind.embedding else []
    expert: list[Large] = []
    for (own, routed), count in zip(shard.matrices, kind.blocks, strict=True):
        dense += [(elements, count * each) for elements, each in own]
        expert += [(elements, count * each) for elements, each in routed]
    if kind.head and not (shard.tied and kind.embedding):
        dense.append((shard.head_parameters, 1.0))
    return dense, expert


def gathers_once(shard: RankMemory, kind: StageKind, sharding: str) -> bool:
    """Whether a pipeline's stage gathers sharded parameters once in a step, and keeps gradients whole till its end."""
    return sharding in WHOLLY_SHARDED and kind.name != "only" and shard.training.traits.gathers_once
