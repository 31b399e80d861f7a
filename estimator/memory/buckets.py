"""Buckets: flat tensors in which gradients travel between the ranks that hold the same parameters."""

from __future__ import annotations

from estimator.memory.rank_memory import RankMemory
from estimator.memory.stage_layout import StageKind
from estimator.memory.stage_parameters import Policy, large_tensors
from estimator.scenario.arrays import maximum, minimum, where
from estimator.scenario.units import Number


def sent_alone(shard: RankMemory, kind: StageKind, policy: Policy) -> tuple[Number, Number]:
    """Elements of dense and expert gradients that fill a bucket alone and are sent as they are, without a copy.

    So do buckets of one tensor where ranks share more than data; DistributedDataParallel copies all.
    """
    if policy.sharding != "ddp" or policy.ddp_mode != "bucketed":
        return 0.0, 0.0
    own, expert = (
        sum((where(each * shard.widths.gradient >= policy.bucket_bytes, each * count, 0.0) for each, count in found),
            start=0.0)
        for found in large_tensors(shard, kind)
    )  # fmt: skip
    return own * (1.0 - policy.standing), expert * (1.0 - policy.standing)


def bucket_bytes(policy: Policy, dense: Number, expert: Number) -> Number:
    """Bytes of flat buffers in which gradients travel, of those parameters that other ranks hold too."""
    shared = where(policy.data_ranks > 1, dense, 0.0) + where(policy.expert_ranks > 1, expert, 0.0)
    if policy.sharding != "ddp":
        return where(shared > 0, 2 * policy.bucket_bytes, 0.0)
    return 0.0 if policy.ddp_mode == "naive" else shared


def parts_bytes(policy: Policy, dense: Number, expert: Number) -> Number:
    """Bytes of this rank's parts of all flat gradients, which stay whole beside them until backward is done."""
    own = where(policy.data_ranks > 1, dense * policy.dense.optimizer, 0.0)
    return own + where(policy.expert_ranks > 1, expert * policy.expert.optimizer, 0.0)


def last_bucket_bytes(shard: RankMemory, kind: StageKind, policy: Policy, dense: Number) -> Number:
    """Bytes of the gradients that backward makes last: the embedding's, alone where it is larger than a bucket."""
    table = shard.embedding_parameters * shard.widths.gradient if kind.embedding else 0.0
    return where(policy.data_ranks > 1, minimum(maximum(table, policy.bucket_bytes), dense), 0.0)
