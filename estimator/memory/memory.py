"""Memory: states, activations, logits, temporaries of one rank, and the largest of the moments that may be the peak."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from estimator.communication.data import WHOLLY_SHARDED
from estimator.cost.efficiency import Efficiencies
from estimator.memory.between_stages import between_stages_bytes
from estimator.memory.buckets import bucket_bytes, last_bucket_bytes, parts_bytes, sent_alone
from estimator.memory.gathered import gathered_bytes, other_streams, with_units
from estimator.memory.put_off import PutOff, with_put_off
from estimator.memory.rank_memory import BlockMemory, RankMemory
from estimator.memory.stage_layout import StageKind
from estimator.memory.stage_parameters import Policy, gathers_once, stage_parameters
from estimator.operations.optimizer import REMAINDER_BYTES, UPDATES, WIDENED_BYTES, fuses_update, moment_bytes
from estimator.scenario.arrays import maximum, minimum, picked, where
from estimator.scenario.breakdown import MEMORY_KINDS, MemoryKind
from estimator.scenario.precision import precision_aware
from estimator.scenario.training import SCORES_KEPT, Training
from estimator.scenario.units import Number


@dataclass(frozen=True, kw_only=True, slots=True)
class StageMemory:
    """Bytes on one rank of a pipeline stage: the states, and what comes on top at each moment that may be the peak.

    ``gathering_bytes``, ``scattered_bytes``: what the allocator's pools of other streams grow to, of gathered
    parameters and of sharded gradients. ``apart``: 1 where the gradients of all moments are such. ``scores``: whether
    unfused attention keeps its scores.
    """

    states: dict[str, Number]
    moments: dict[str, dict[str, Number]]
    gathering_bytes: Number = 0.0
    scattered_bytes: Number = 0.0
    apart: Number = 0.0
    scores: bool = False

    @property
    def peak_bytes(self) -> Number:
        """States and the largest moment."""
        return sum(self.states.values()) + self.largest

    @property
    def largest(self) -> Number:
        """Bytes of the fullest moment."""
        found: Number = 0.0
        for kinds in self.moments.values():
            found = maximum(found, sum(kinds.values()))
        return found

    def reserved_bytes(self, e: Efficiencies) -> Number:
        """Bytes that the allocator holds: f · the main stream's fullest moment + the other streams' pools.

        What one stream has freed no other gets (c10/cuda/CUDACachingAllocator.cpp), so that each pool stays as it was
        at its own fullest moment.
        """
        states: Number = sum(self.states.values())
        fullest: Number = 0.0
        main: Number = 0.0
        for moment, kinds in self.moments.items():
            held = states + sum(kinds.values()) - self.apart * kinds.get(MemoryKind.GRADIENTS, 0.0)
            main = where(held > fullest, held * getattr(e, allocator_share(moment, scores=self.scores)), main)
            fullest = maximum(fullest, held)
        return main + self.gathering_bytes + self.scattered_bytes

    def at_peaks(self, count: int) -> list[tuple[str, dict[str, float]]]:
        """Return, for each of ``count`` ranks, the moment of its peak and its bytes by kind."""
        names = list(self.moments)
        totals = [sum(kinds.values()) for kinds in self.moments.values()]
        if count == 1:
            fullest = [max(range(len(names)), key=lambda i: _each(totals[i], 1)[0])]
        else:
            fullest = np.argmax([np.broadcast_to(total, (count,)) for total in totals], axis=0).tolist()
        rows = {moment: self._rows(names[moment], count) for moment in set(fullest)}
        return [(names[moment], rows[moment][rank]) for rank, moment in enumerate(fullest)]

    def _rows(self, moment: str, count: int) -> list[dict[str, float]]:
        """Bytes by kind at a moment, for each of ``count`` ranks."""
        kinds = self.moments[moment]
        columns = [_each(self.states.get(kind, 0.0) + kinds.get(kind, 0.0), count) for kind in MEMORY_KINDS]
        return [dict(zip(MEMORY_KINDS, row, strict=True)) for row in zip(*columns, strict=True)]


def keeps_scores(training: Training) -> bool:
    """Whether scores lie in memory, kernel by kernel."""
    return training.attention in SCORES_KEPT and not training.fused


BLOCK_BACKWARD = tuple(
    f"{which} block's {half} backward"
    for which in ("last", "next to last", "second", "first")
    for half in ("FFN", "attention")
)


def allocator_share(moment: str, *, scores: bool) -> str:
    """Name the efficiency that says what the allocator holds over what it has handed out at a moment.

    Scores have segments of their own, alike in every block, and each leaves its own to the next.
    """
    return "allocator_scores_frac" if scores and moment in BLOCK_BACKWARD else "allocator_frac"


def stage_memory(
    shard: RankMemory,
    kind: StageKind,
    policy: Policy,
    *,
    in_flight: Number,
    micro_batches: Number,
    workspace_bytes: Number,
    head_in_flight: Number | None = None,
    chunks: Number = 1,
    chunks_in_flight: tuple[Number, Number] | None = None,
    put_off: PutOff | None = None,
) -> StageMemory:
    """Add up one rank's memory of one stage; ``head_in_flight``: micro-batches that wait behind the head, if others.

    ``chunks``: into how many stages of its own a rank's layers are cut, each with buffers for what it receives;
    ``chunks_in_flight``: micro-batches that the first and the last of them hold, where they differ.
    ``put_off``: where the gradients of weights are put off.

    Moments: the loss's backward (all activations, logits, no fresh gradients in the first micro-batch), the last
    block's backward, the first block's backward (all gradients, few activations), the exchange of gradients where it
    comes after backward, and the optimizer step (gradients and one multi-tensor temporary). Where embedding and head
    are one table, the embedding's backward; under autocast with checkpoints, the end of forward. Where FSDP gathers
    what is outside of the blocks again, that is a moment, too: the loss's backward had none of it.
    """
    n = shard.widths
    dense, expert, cast, _, _ = stage_parameters(shard, kind)
    parameters = dense + expert
    optimizer_bytes = 0.0 if policy.offload_optimizer else _optimizer_bytes(shard)
    each_owned = dense * policy.dense.optimizer, expert * policy.expert.optimizer
    owned = sum(each_owned)
    gradients = (dense * policy.dense.gradients + expert * policy.expert.gradients) * n.gradient
    if gathers_once(shard, kind, policy.sharding):
        gradients = parameters * n.gradient
    parameters_rest, gradients_rest, owned_rest = _rests(shard, kind, policy)
    gradients = gradients + gradients_rest
    states: dict[str, Number] = {
        MemoryKind.PARAMETERS: (dense * policy.dense.parameters + expert * policy.expert.parameters) * n.parameter
        + parameters_rest,
        MemoryKind.OPTIMIZER: owned * optimizer_bytes + owned_rest * _whole_moments(shard, policy),
        MemoryKind.FRAMEWORK: workspace_bytes,
    }
    layers = kind.layers
    one_batch = sum(
        (block.kept_bytes * count for block, count in zip(shard.blocks, kind.blocks, strict=True)), start=0.0
    )
    block = _fullest(shard.blocks)
    first_held, last_held = chunks_in_flight or (in_flight, in_flight)
    # Turns leave a chunk that is short of blocks another number of micro-batches than the rank's mean.
    fewer = kind.first_short * (first_held - in_flight) + kind.last_short * (last_held - in_flight)
    activations = one_batch * (in_flight - fewer / maximum(layers, 1.0))
    passed = one_batch - block.kept_bytes
    # What goes with one micro-batch while others wait.
    leaves = one_batch
    if policy.offload_activations:
        # One block's activations leave while the next one's are made.
        most = 2.0 * block.kept_bytes
        leaves = minimum(activations, most) - minimum(one_batch * (in_flight - 1.0), most)
        activations = minimum(activations, most)
        passed = where(layers > 1, block.kept_bytes, 0.0)
    masks = shard.mask_bytes * chunks
    activations, leaves = activations + masks * in_flight, leaves + masks
    again = where(shard.recomputed, block.plain_bytes - block.kept_bytes, 0.0)
    at_head = in_flight if head_in_flight is None else head_in_flight
    head_kept = shard.head_kept_bytes * at_head if kind.head else 0.0
    # The loss lets go of its logits where the head's inputs have their gradients.
    at_loss = maximum(at_head - (put_off.waiting if put_off else 0.0), 0.0)
    held_logits = shard.logits_end_bytes * maximum(at_loss - 1, 0) if kind.head else 0.0
    of_pipeline = kind.name != "only"
    # Buffers in which gradients live and travel are there from the start, as are gradients that are only zeroed.
    there = shard.training.traits.in_place_buffers or shard.training.traits.keeps_gradients
    casts_once = casts = cast * n.compute if n.autocast else 0.0
    of_head_cast = shard.head_parameters * n.compute if n.autocast and kind.head else 0.0
    redone = shard.redone_blocks > 0 if n.autocast else False
    if n.autocast and of_pipeline:
        # A stage is called for each micro-batch under an autocast of its own, whose casts backward needs.
        casts = (casts_once - of_head_cast) * in_flight + of_head_cast * at_head
    # Of checkpointed blocks no casts stay: they go with the autocast of the chunk that forward has run.
    kept_casts = where(redone, of_head_cast * at_head, casts)
    of_batch = leaves + (kept_casts + head_kept) / in_flight + (shard.logits_end_bytes if kind.head else 0.0)
    # What backward leaves while that many are in flight: gradients of those that are not; or all of them, with one
    # micro-batch less in flight than there are.
    others = minimum(micro_batches - in_flight, 1.0)
    later = where(micro_batches > 1, gradients - (1.0 - others) * of_batch, 0.0)
    accumulated = gradients if there else maximum(others * gradients, later)
    # Backward of the head lets go of its cast, unless the graph waits for the gradients of weights.
    block_casts = casts if put_off else casts - of_head_cast
    last_casts = where(layers > 1, casts - casts_once, block_casts)
    if n.autocast:
        # Backward of checkpointed blocks casts their weights again, beside those of heads that wait.
        of_redone = minimum(block.cast_parameters * shard.redone_blocks * n.compute, casts_once)
        of_redone = of_redone + of_head_cast * maximum(at_head - 1, 0)
        block_casts, last_casts = where(redone, of_redone, block_casts), where(redone, of_redone, last_casts)
    buckets: Number = 0.0
    if policy.sharding not in WHOLLY_SHARDED and not shard.training.traits.in_place_buffers:
        alone, alone_expert = sent_alone(shard, kind, policy)
        buckets = bucket_bytes(policy, (dense - alone) * n.gradient, (expert - alone_expert) * n.gradient)
    scatters = policy.sharding in ("zero1", "zero2") and shard.training.traits.measurable
    if scatters and policy.sharding == "zero1":
        buckets = parts_bytes(policy, dense * n.gradient, expert * n.gradient)
    unit = _largest(shard.blocks)
    inside, root, scattered = gathered_bytes(shard, kind, policy, unit)
    gathered = inside + root + scattered

    standing = buckets * policy.standing
    coming = (buckets - standing) * policy.beside
    if of_pipeline and not shard.training.traits.frees_between_stages:
        outputs, waiting = between_stages_bytes(
            shard.message_bytes, in_flight=in_flight, micro_batches=micro_batches, chunks=chunks,
            first=kind.embedding, last=kind.head, offloaded=policy.offload_activations,
        )  # fmt: skip
        activations = activations + outputs
        held_logits = held_logits + (shard.handed_logits_bytes * at_loss if kind.head else 0.0)
        standing, buckets = standing + waiting, buckets + waiting
    of_head = gradients * (shard.head_parameters / parameters) if kind.head else 0.0
    of_ffn = gradients * (block.ffn_parameters / parameters)
    # A shared table's gradient waits for the embedding's.
    waits = of_head if shard.tied and kind.embedding else 0.0
    of_sent = of_head - waits
    first = (shard.embedding_parameters if kind.embedding else 0.0) + block.dense_parameters + block.expert_parameters
    before_first = 1.0 - minimum(first / parameters, 1.0)
    each_gradient = maximum(gradients, 1.0)
    moments: dict[str, dict[str, Number]] = {
        "last block's FFN backward": {
            MemoryKind.GRADIENTS: maximum(accumulated, of_head),
            MemoryKind.ACTIVATIONS: activations + again,
            MemoryKind.LOGITS: held_logits,
            MemoryKind.TEMPORARIES: block_casts + block.ffn_bytes,
            MemoryKind.COMMUNICATION: standing + coming * (of_sent / each_gradient) + gathered,
        },
        "last block's attention backward": {
            MemoryKind.GRADIENTS: maximum(accumulated, of_head + of_ffn),
            MemoryKind.ACTIVATIONS: activations + again - block.freed_bytes,
            MemoryKind.LOGITS: held_logits,
            MemoryKind.TEMPORARIES: block_casts + block.attention_bytes,
            MemoryKind.COMMUNICATION: standing + coming * ((of_sent + of_ffn) / each_gradient) + gathered,
        },
        "first block's FFN backward": {
            MemoryKind.GRADIENTS: maximum(accumulated, gradients * before_first + waits),
            MemoryKind.ACTIVATIONS: activations - passed + again,
            MemoryKind.LOGITS: held_logits,
            MemoryKind.TEMPORARIES: block.ffn_bytes + last_casts,
            MemoryKind.COMMUNICATION: standing + coming * before_first + gathered,
        },
        "first block's attention backward": {
            MemoryKind.GRADIENTS: maximum(accumulated, minimum(gradients * before_first + waits + of_ffn, gradients)),
            MemoryKind.ACTIVATIONS: activations - passed + again - block.freed_bytes,
            MemoryKind.LOGITS: held_logits,
            MemoryKind.TEMPORARIES: block.attention_bytes + last_casts,
            MemoryKind.COMMUNICATION: standing + coming + gathered,
        },
        "optimizer step": {
            MemoryKind.GRADIENTS: where(policy.data_ranks > 1, owned * n.gradient, gradients)
            if scatters
            else gradients,
            MemoryKind.TEMPORARIES: 0.0
            if policy.offload_optimizer
            else _update_bytes(shard, kind, policy, *each_owned, owned_rest),
            MemoryKind.COMMUNICATION: standing,
        },
    }
    if policy.sharding == "ddp" and not (isinstance(policy.beside, float) and policy.beside):
        moments["exchange"] = {MemoryKind.GRADIENTS: gradients, MemoryKind.COMMUNICATION: buckets}
    if scatters:
        # A bucket's own gradients are there until they are copied and this rank's part has its place; ZeRO-2 gives back
        # the flat copy before the next, and adds the part to the micro-batches' before.
        last = last_bucket_bytes(shard, kind, policy, dense * n.gradient)
        flat = last * where(micro_batches > 1, 1.0 + policy.dense.gradients, 1.0)
        moments["exchange"] = {
            MemoryKind.GRADIENTS: gradients + last,
            MemoryKind.COMMUNICATION: buckets if policy.sharding == "zero1" else flat,
        }
    # FSDP over one rank holds whole gradients, as autograd makes them.
    whole = where(policy.data_ranks > 1, 0.0, 1.0) if policy.sharding in WHOLLY_SHARDED else 1.0
    apart = not of_pipeline and _sums_apart(shard) and not (isinstance(whole, float) and not whole)
    if apart and shard.tied:
        # Autograd adds the embedding's gradient of a shared table to the head's in a third, before it is the table's;
        # under autocast into the head's, which the cast has made and nobody else holds.
        table, copies = shard.head_parameters * n.gradient, 2.0 if n.autocast else 3.0
        moments["embedding backward"] = {
            MemoryKind.GRADIENTS: gradients
            + whole * table * where(micro_batches > 1, copies, copies - policy.dense.gradients),
            MemoryKind.COMMUNICATION: standing,
        }
    if not (isinstance(redone, bool) and not redone):
        # The loss is made of logits that are still there; a stage makes it outside of the chunk's autocast.
        in_frame = 0.0 if shard.training.fused_loss else shard.handed_logits_bytes
        of_loss = 0.0 if of_pipeline else shard.logits_end_bytes + in_frame
        moments["end of forward"] = {
            MemoryKind.GRADIENTS: accumulated,
            MemoryKind.ACTIVATIONS: activations + head_kept,
            MemoryKind.LOGITS: (of_loss if kind.head else 0.0) + held_logits,
            MemoryKind.TEMPORARIES: where(redone, (casts_once - of_head_cast) / chunks + kept_casts, 0.0),
            MemoryKind.COMMUNICATION: standing,
        }
    if kind.head:
        again_gathered = policy.sharding == "fsdp" and not gathers_once(shard, kind, policy.sharding)
        gathered_at_loss = 0.0 if again_gathered else inside + root
        if again_gathered or (apart and not n.autocast):
            # Of all micro-batches but the first, the head's gradient is a tensor of its own until it is added.
            added = whole * shard.head_parameters * n.gradient if apart and not n.autocast else 0.0
            moments["head backward"] = {
                MemoryKind.GRADIENTS: accumulated + where(micro_batches > 1, added, 0.0),
                MemoryKind.ACTIVATIONS: activations + head_kept,
                MemoryKind.LOGITS: shard.logits_end_bytes + held_logits,
                # What was received, and the tensors that it is laid out as.
                MemoryKind.COMMUNICATION: 2.0 * root if again_gathered else standing,
            }
        loss = {
            MemoryKind.GRADIENTS: accumulated,
            MemoryKind.ACTIVATIONS: activations + head_kept,
            MemoryKind.LOGITS: shard.logits_peak_bytes + held_logits,
            MemoryKind.TEMPORARIES: kept_casts,
            MemoryKind.COMMUNICATION: standing + gathered_at_loss,
        }
        moments = {"loss backward": loss, **moments}
    if policy.sharding in WHOLLY_SHARDED and not of_pipeline:
        summed = (2.0 if n.autocast else 3.0) if _sums_apart(shard) else 1.0
        moments = with_units(
            moments, shard, kind, policy, unit,
            gradients=gradients, accumulated=accumulated, passed=passed, summed=summed,
        )  # fmt: skip
    if put_off:
        moments = with_put_off(
            moments, shard, kind, put_off,
            chunks=chunks, activations=activations + again, accumulated=accumulated,
            ended_bytes=block_casts - last_casts + block.ended_bytes - block.attention_bytes,
        )  # fmt: skip
    gathering, scattered_bytes, of_others = other_streams(shard, kind, policy, unit, owned * n.gradient)
    return StageMemory(
        states=states, moments=moments, gathering_bytes=gathering, scattered_bytes=scattered_bytes, apart=of_others,
        scores=keeps_scores(shard.training),
    )  # fmt: skip


def _sums_apart(shard: RankMemory) -> bool:
    """Whether both gradients of a tied table are tensors that autograd adds, not products into one buffer."""
    return not (shard.training.traits.in_place_buffers or shard.training.fused)


def _each(value: Number, count: int) -> list[float]:
    if isinstance(value, (int, float)):
        return [float(value)] * count
    return np.broadcast_to(value, (count,)).astype(float).tolist()  # type: ignore[no-any-return]


def _fullest(blocks: tuple[BlockMemory, ...]) -> BlockMemory:
    """Return the kind of block whose backward needs most, plan by plan."""
    best = blocks[0]
    for block in blocks[1:]:
        best = picked(block.plain_bytes + block.ffn_bytes > best.plain_bytes + best.ffn_bytes, block, best)
    return best


def _largest(blocks: tuple[BlockMemory, ...]) -> BlockMemory:
    """Return the kind of block that has most parameters, plan by plan."""
    best = blocks[0]
    for block in blocks[1:]:
        more = block.dense_parameters + block.expert_parameters > best.dense_parameters + best.expert_parameters
        best = picked(more, block, best)
    return best


def _rests(shard: RankMemory, kind: StageKind, policy: Policy) -> tuple[Number, Number, Number]:
    """Bytes that the allocator keeps beyond a rank's parameters, their gradients, and a value for each that it updates.

    Of tensors in blocks of their own; shards of ZeRO-3 and FSDP are taken as they are, where there are several.
    """
    dense: Number = shard.embedding_rest_bytes if kind.embedding else 0.0
    if kind.head and not (shard.tied and kind.embedding):
        dense = dense + shard.head_rest_bytes
    expert: Number = 0.0
    for block, count in zip(shard.blocks, kind.blocks, strict=True):
        dense, expert = dense + count * block.dense_rest_bytes, expert + count * block.expert_rest_bytes
    if policy.sharding in WHOLLY_SHARDED:
        dense, expert = where(policy.data_ranks > 1, 0.0, dense), where(policy.expert_ranks > 1, 0.0, expert)
    return (
        dense * policy.dense.parameters + expert * policy.expert.parameters,
        dense * policy.dense.gradients + expert * policy.expert.gradients,
        dense * policy.dense.optimizer + expert * policy.expert.optimizer,
    )


def _whole_moments(shard: RankMemory, policy: Policy) -> float:
    """Moments on the chip that are tensors like their parameters."""
    update = UPDATES[shard.training.optimizer]
    return 0.0 if policy.offload_optimizer or update.moment_bytes else update.moments


def _optimizer_bytes(shard: RankMemory) -> float:
    """Bytes per parameter: the optimizer's moments, and of fp32 master weights what the framework keeps."""
    master = 4.0 if shard.training.traits.master_weights else 0.0
    kept = REMAINDER_BYTES if precision_aware(shard.training) else master
    return kept + moment_bytes(shard.training, (shard.widths.optimizer - master) / 2)


def _update_bytes(
    shard: RankMemory, kind: StageKind, policy: Policy, dense: Number, expert: Number, rest: Number
) -> Number:
    """Temporaries of the optimizer: one value per parameter (multi-tensor), of one tensor, or none (fused).

    Wide copies of narrow moments are made for all that is updated together: experts' parameters, then all others. One
    multi-tensor call takes DTensors of one mesh, or plain tensors: under tensor parallelism, the larger such group.
    """
    if precision_aware(shard.training):
        return maximum(dense, expert) * WIDENED_BYTES
    traits, update = shard.training.traits, UPDATES[shard.training.optimizer]
    parameters = dense + expert
    if fuses_update(shard.training) or not update.temporaries:
        return 0.0
    together = policy.multi_tensor and update.foreach
    if not together:
        return shard.optimizer_tensor * shard.widths.parameter
    if traits.dtensor:
        divided = sum(
            (block.split_parameters * count for block, count in zip(shard.blocks, kind.blocks, strict=True)), start=0.0
        )
        divided = divided * policy.dense.optimizer
        parameters = where(shard.tp > 1, maximum(divided, parameters - divided), parameters)
    return parameters * shard.widths.parameter + rest
