"""Gathered: what stands whole on a rank whose parameters are sharded, and the pools of the streams that bring it."""

from __future__ import annotations

from estimator.communication.data import WHOLLY_SHARDED
from estimator.memory.rank_memory import BlockMemory, RankMemory
from estimator.memory.stage_layout import StageKind
from estimator.memory.stage_parameters import Policy, gathers_once, stage_parameters
from estimator.scenario.arrays import maximum, minimum, where
from estimator.scenario.breakdown import MemoryKind
from estimator.scenario.units import Number


def gathered_bytes(
    shard: RankMemory, kind: StageKind, policy: Policy, block: BlockMemory
) -> tuple[Number, Number, Number]:
    """Bytes on a rank under ZeRO-3 of blocks whose parameters are whole, of those outside of blocks, and of gradients.

    FSDP holds the block at work and the next one, of which one may be the largest; without resharding all blocks stay.
    Embedding, final norm and head form the root unit. The gradients are one block's, before they are scattered.
    """
    if policy.sharding not in WHOLLY_SHARDED:
        return 0.0, 0.0, 0.0
    inside, unit, root = _units(shard, kind, policy, block)
    again = policy.sharding == "fsdp" and not gathers_once(shard, kind, policy.sharding)
    width = shard.widths.compute
    return (minimum(unit * 2.0, inside) if again else inside) * width, root * width, unit * width


def _units(shard: RankMemory, kind: StageKind, policy: Policy, block: BlockMemory) -> tuple[Number, Number, Number]:
    """Sharded elements of all blocks, of the largest, and of the root unit."""
    inside: Number = 0.0
    inside_dense: Number = 0.0
    for found, count in zip(shard.blocks, kind.blocks, strict=True):
        inside_dense = inside_dense + count * found.dense_parameters
        # Experts that no other rank holds are not sharded, so that nothing of them is gathered.
        inside = inside + where(policy.expert_ranks > 1, count * found.expert_parameters, 0.0)
    inside = inside + where(policy.data_ranks > 1, inside_dense, 0.0)
    unit = where(policy.data_ranks > 1, block.dense_parameters, 0.0)
    unit = unit + where(policy.expert_ranks > 1, block.expert_parameters, 0.0)
    dense, _, _, _, _ = stage_parameters(shard, kind)
    return inside, minimum(unit, inside), where(policy.data_ranks > 1, dense - inside_dense, 0.0)


Moments = dict[str, dict[str, Number]]


def with_units(
    moments: Moments,
    shard: RankMemory,
    kind: StageKind,
    policy: Policy,
    block: BlockMemory,
    *,
    gradients: Number,
    accumulated: Number,
    passed: Number,
    summed: Number,
) -> Moments:
    """Return the moments of FSDP2's backward, which reduces a unit's gradients when all of them are there.

    So the head's are whole until the root unit's end; a block's are reduced and its parameters resharded, whether or
    not forward has kept them, and what it sent goes only with the next one (``post_backward`` and ``foreach_reduce`` in
    torch/distributed/fsdp/_fully_shard). ``accumulated``: gradients that are there before backward; ``passed``:
    activations from the last block to the first; ``summed``: tensors of which autograd makes the gradient of a table
    that is embedding and head.
    """
    inside, unit, root = _units(shard, kind, policy, block)
    compute, reduced = shard.widths.compute, shard.widths.gradient
    several = policy.data_ranks > 1
    # Of the block at work the network's gradients come first.
    attention = maximum(block.dense_parameters + block.expert_parameters - block.ffn_parameters, 0.0)
    last = maximum(kind.layers - 1.0, 0.0)
    outside = root / maximum(sum(stage_parameters(shard, kind)[:2]), 1.0)
    head = shard.head_parameters * compute if kind.head else 0.0
    again = policy.sharding == "fsdp"

    def so_far(done: Number) -> Number:
        return maximum(accumulated, gradients * (1.0 - outside) * done / maximum(kind.layers, 1.0))

    def at(moment: str, done: Number, further: Number) -> dict[str, Number]:
        kinds = moments[moment]
        own = maximum(unit - attention, 0.0) if "FFN" in moment else unit
        left = maximum(inside - done * unit, unit)
        whole = (minimum(left, 2.0 * unit) if again else left) + root + own
        sent = where(done > 0, unit * reduced, 0.0)
        changed = kinds | {
            MemoryKind.GRADIENTS: so_far(done) + head,
            MemoryKind.ACTIVATIONS: kinds[MemoryKind.ACTIVATIONS] + further * passed / maximum(last, 1.0),
            MemoryKind.COMMUNICATION: whole * compute + sent,
        }
        return {name: where(several, size, kinds.get(name, 0.0)) for name, size in changed.items()}

    found = dict(moments)
    for half in ("FFN", "attention"):
        ends, begins = f"last block's {half} backward", f"first block's {half} backward"
        found[ends] = at(ends, 0.0, 0.0)
        found[f"next to last block's {half} backward"] = at(ends, minimum(1.0, last), -minimum(1.0, last))
        if again:
            # The first block has no other gathered beside it.
            second = maximum(last - 1.0, 0.0)
            found[f"second block's {half} backward"] = at(begins, second, last - second)
        found[begins] = at(begins, last, 0.0)
    before = moments["loss backward"] if kind.head else {}
    of_table = summed * head if shard.tied and kind.head else head + shard.embedding_parameters * compute
    added: Moments = {
        "embedding backward": {
            MemoryKind.GRADIENTS: so_far(kind.layers) + of_table,
            MemoryKind.COMMUNICATION: root * compute + unit * reduced,
        },
        "root's scatter": {
            # They are freed once laid side by side, before what comes back has its place.
            MemoryKind.GRADIENTS: so_far(kind.layers) + root * compute,
            MemoryKind.COMMUNICATION: root * reduced,
        },
    }
    if kind.head:
        added["head's gradient"] = before | {
            MemoryKind.GRADIENTS: before[MemoryKind.GRADIENTS] + head,
            MemoryKind.LOGITS: before[MemoryKind.LOGITS] - shard.logits_peak_bytes + shard.logits_end_bytes,
            MemoryKind.COMMUNICATION: (root + (unit if again else inside)) * compute,
        }
    for moment, kinds in added.items():
        alone = moments.get(moment, {})
        found[moment] = {name: where(several, size, alone.get(name, 0.0)) for name, size in kinds.items()}
    return found


def other_streams(
    shard: RankMemory, kind: StageKind, policy: Policy, block: BlockMemory, gradients: Number
) -> tuple[Number, Number, Number]:
    """Bytes of the pools that FSDP2 gathers and scatters in, and 1 where all ``gradients`` are in the latter, else 0.

    Two units are gathered side by side, each in one flat tensor (``AllGatherState``), and a rank's share of it, cast.
    Scattered is a flat tensor in the gradients' type, for which no smaller ones leave room; what comes of it are the
    sharded gradients (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py). What 12 steps on two H200
    reserved (tests/reference/h200_plans) is within 1.4 % of it in the median, 5 to 30 % more than without it.
    """
    if policy.sharding not in WHOLLY_SHARDED or not shard.pools:
        return 0.0, 0.0, 0.0
    n, several = shard.widths, where(policy.data_ranks > 1, 1.0, 0.0)
    dense, _, _, _, _ = stage_parameters(shard, kind)
    inside = sum(
        (one.dense_parameters * count for one, count in zip(shard.blocks, kind.blocks, strict=True)), start=0.0
    )
    unit = where(policy.data_ranks > 1, block.dense_parameters, 0.0)
    unit = unit + where(policy.expert_ranks > 1, block.expert_parameters, 0.0)
    largest = maximum((dense - inside) * several, unit)
    beside = where(kind.layers > 1, unit, minimum(unit, (dense - inside) * several))
    gathered = largest + beside
    if n.compute != n.parameter:
        gathered = gathered + largest / policy.data_ranks
    apart = 0.0 if gathers_once(shard, kind, policy.sharding) else several
    return gathered * n.compute, gradients * several + largest * n.gradient, apart
