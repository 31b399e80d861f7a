"""Put off: what a stage keeps from the gradients of a micro-batch's inputs to those of its weights (zero bubble)."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.memory.rank_memory import RankMemory
from estimator.memory.stage_layout import StageKind
from estimator.scenario.arrays import where
from estimator.scenario.breakdown import MemoryKind
from estimator.scenario.units import Number


@dataclass(frozen=True, kw_only=True, slots=True)
class PutOff:
    """A rank's micro-batches whose weights wait for their gradients, while another's inputs get theirs.

    ``waiting``: such micro-batches. ``kept_inputs``, ``all_inputs``: micro-batches whose input gradients are there at
    the end of the fullest such backward, and after the last; no stage lets go of one before the next step.
    """

    waiting: Number
    kept_inputs: Number
    all_inputs: Number


def put_off_bytes(shard: RankMemory, kind: StageKind, chunks: Number) -> tuple[Number, Number]:
    """Bytes of the gradients that one micro-batch's weights wait with: of the rank, and of the chunk with the head.

    Each product and each norm that has weights keeps the gradient of its result (``param_groups`` in
    torch/distributed/pipelining/_backward.py), which all are tensors of their own.
    """
    inside = sum(
        (block.put_off_bytes * count for block, count in zip(shard.blocks, kind.blocks, strict=True)), start=0.0
    )
    of_head = shard.head_put_off_bytes if kind.head else 0.0
    return inside + of_head, inside / chunks + of_head


def with_put_off(
    moments: dict[str, dict[str, Number]],
    shard: RankMemory,
    kind: StageKind,
    put_off: PutOff,
    *,
    chunks: Number,
    activations: Number,
    accumulated: Number,
    ended_bytes: Number,
) -> dict[str, dict[str, Number]]:
    """Return the moments of a stage whose backward goes to its inputs first and retains all that forward kept.

    So activations only grow less where weights get their gradients; by then every put off gradient of a micro-batch is
    there, without any of the weights' own. ``ended_bytes``: temporaries at the end of a block's backward. A block that
    is checkpointed whole runs again for each weight's gradient (torch/utils/checkpoint.py keeps what it recomputes by
    graph task), when the graph of the loss is gone.
    """
    whole, own = put_off_bytes(shard, kind, chunks)
    ends = "first block's attention backward"
    found: dict[str, dict[str, Number]] = {}
    for moment, kinds in moments.items():
        more = put_off.waiting * whole
        inputs = put_off.kept_inputs - 1.0
        changed = dict(kinds)
        if moment == "optimizer step":
            more, inputs = 0.0, put_off.all_inputs
        else:
            changed[MemoryKind.GRADIENTS] = accumulated
        if kind.head and (moment == "loss backward" or "block" in moment):
            # All that the loss keeps stays until the end, when its graph is dropped.
            kept = shard.retained_logits_bytes if moment == "loss backward" else shard.logits_end_bytes
            changed[MemoryKind.LOGITS] = changed[MemoryKind.LOGITS] + kept
        if moment == ends:
            more = more + own
            changed[MemoryKind.ACTIVATIONS] = activations
            changed[MemoryKind.TEMPORARIES] = kinds[MemoryKind.TEMPORARIES] + ended_bytes
        changed[MemoryKind.TEMPORARIES] = changed.get(MemoryKind.TEMPORARIES, 0.0) + more
        sent = changed.get(MemoryKind.COMMUNICATION, 0.0) + inputs * shard.message_bytes
        found[moment] = changed | {MemoryKind.COMMUNICATION: sent}
    inside = own - (shard.head_put_off_bytes if kind.head else 0.0)  # the head's own is done first
    again = sum(
        (block.redone_apart_bytes * count for block, count in zip(shard.blocks, kind.blocks, strict=True)), start=0.0
    )
    found["weights' gradients"] = found[ends] | {
        MemoryKind.LOGITS: 0.0,
        MemoryKind.TEMPORARIES: where(shard.redone_blocks > 0, put_off.waiting * whole + inside + again / chunks, 0.0),
    }
    return found
