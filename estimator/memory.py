"""Memory: states, activations, logits, temporaries of one rank, and the largest of the moments that may be the peak."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.arrays import maximum, where
from estimator.breakdown import MEMORY_KINDS
from estimator.networks.dims import Dims
from estimator.ops import Op
from estimator.parallel.data import Shares
from estimator.units import Number


@dataclass(frozen=True, kw_only=True)
class StageMemory:
    """Bytes by kind on one rank of a pipeline stage at that stage's peak, and the moment at which it is reached."""

    stage: int
    layers: int
    in_flight: int
    moment: str
    by_kind: dict[str, float]

    @property
    def peak_bytes(self) -> float:
        """Sum over the kinds."""
        return sum(self.by_kind.values())


def kept_bytes(ops: tuple[Op, ...]) -> Number:
    """Bytes that one execution of these ops keeps for backward, without autocast's copies of the weights."""
    return sum((op.saved_bytes * op.count for op in ops if op.phase == "forward" and not _is_weight_cast(op)), 0.0)


def logits_bytes(d: Dims) -> tuple[Number, Number]:
    """Bytes of logits and loss at the end of forward, and at the peak inside the loss's backward.

    Per logit: fp32 4 then 12 (log-softmax output; its gradient and the logits' gradient), bf16 2 then 6, autocast
    (fp32 log-softmax of 2-byte logits) 6 then 10. Measured with eager PyTorch on one H200 (torch 2.11), see
    tests/estimator/test_memory.py for the CPU check.
    """
    count = d.tokens * d.vocab
    if d.fused:
        return count * d.numbers.compute, count * 2 * d.numbers.compute
    if d.numbers.autocast:
        return count * 6.0, count * 10.0
    return count * d.numbers.compute, count * 3 * d.numbers.compute


def block_transient_bytes(d: Dims) -> Number:
    """Temporaries alive at once inside one block's backward: score gradients (eager attention), or FFN gradients.

    Eager scores hold their gradient, the product with the softmax output and its result: 12 bytes per score in fp32,
    10 in 2-byte precisions; fused attention needs the gradients of the FFN's inner activations instead.
    """
    e = d.numbers.compute
    stream = 2 * d.tokens * d.hidden * d.numbers.residual
    inner = d.tokens * d.ffn * e * (3 if d.model.gated_ffn else 2)
    if d.training.attention != "eager":
        return stream + inner
    scores = d.sequences * d.heads * d.seq_len * d.seq_len
    per_score = (3 * e) if d.fused else (12.0 if e == 4 else 10.0)
    return stream + maximum(inner, scores * per_score)


def stage_memory(
    d: Dims,
    *,
    stage: int,
    layers: int,
    last: bool,
    in_flight: int,
    micro_batches: int,
    layer_ops: tuple[Op, ...],
    whole_layer_bytes: Number,
    head_ops: tuple[Op, ...],
    embedding_parameters: Number,
    parameters: Number,
    linear_parameters: Number,
    shares: Shares,
    dp: int,
    sharding: str,
    gathered_bytes: Number,
    bucket_bytes: float,
    workspace_bytes: float,
) -> StageMemory:
    """Add up one rank's memory of one stage at its peak.

    The peak is the largest of: the loss's backward (all activations, logits, no fresh gradients in the first
    micro-batch), the last block's backward, the first block's backward (all gradients, few activations), and the
    optimizer step (gradients and one multi-tensor temporary).
    """
    n = d.numbers
    states = {
        "parameters": parameters * shares.parameters * n.parameter,
        "optimizer": parameters * shares.optimizer * n.optimizer * (1.0 if d.training.optimizer == "adamw" else 0.0),
        "framework": workspace_bytes,
    }
    gradients = parameters * shares.gradients * n.gradient
    accumulated = gradients if micro_batches > 1 else 0.0
    per_layer = kept_bytes(layer_ops)
    activations = layers * per_layer * in_flight
    head_kept = (kept_bytes(head_ops) if last else 0.0) * (in_flight if last else 0)
    head_kept = head_kept - (_loss_saved(head_ops) * in_flight if last else 0.0)
    end_logits, peak_logits = logits_bytes(d) if last else (0.0, 0.0)
    held_logits = end_logits * max(in_flight - 1, 0)
    casts = linear_parameters * n.compute if n.autocast else 0.0
    again = (whole_layer_bytes - per_layer) if d.recompute != "none" else 0.0
    buckets = gradients if dp > 1 and sharding == "ddp" else (2 * bucket_bytes if dp > 1 else 0.0)
    communication = buckets + gathered_bytes
    transient = block_transient_bytes(d)
    update = parameters * shares.optimizer * n.parameter if not d.fused or d.training.framework == "pytorch-compile" else 0.0
    moments: dict[str, dict[str, Number]] = {
        "loss backward": {
            "gradients": accumulated,
            "activations": activations + head_kept,
            "logits": peak_logits + held_logits,
            "temporaries": casts,
            "communication": communication,
        },
        "last block's backward": {
            "gradients": maximum(accumulated, _after_head(d, gradients, parameters, embedding_parameters, last)),
            "activations": activations + again,
            "logits": held_logits,
            "temporaries": casts + transient,
            "communication": communication,
        },
        "first block's backward": {
            "gradients": gradients,
            "activations": activations - (layers - 1) * per_layer + again,
            "logits": held_logits,
            "temporaries": transient + where(layers > 1, 0.0, casts),
            "communication": communication,
        },
        "optimizer step": {
            "gradients": gradients,
            "temporaries": update,
            "communication": buckets,
        },
    }
    best, most = "", -1.0
    for name, kinds in moments.items():
        total = float(sum(kinds.values(), 0.0))
        if total > most:
            best, most = name, total
    by_kind = {kind: float(states.get(kind, 0.0) + moments[best].get(kind, 0.0)) for kind in MEMORY_KINDS}
    return StageMemory(stage=stage, layers=layers, in_flight=in_flight, moment=best, by_kind=by_kind)


def _after_head(d: Dims, gradients: Number, parameters: Number, embedding: Number, last: bool) -> Number:
    """Gradients that exist when the last block's backward starts: the head's, if this rank has it."""
    if not last:
        return 0.0
    return gradients * (d.vocab * d.hidden / parameters)


def _is_weight_cast(op: Op) -> bool:
    return op.name.endswith("weight cast")


def _loss_saved(head_ops: tuple[Op, ...]) -> Number:
    return sum((op.saved_bytes * op.count for op in head_ops if op.name == "cross-entropy"), 0.0)
