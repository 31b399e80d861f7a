"""Memory: states, activations, logits, temporaries of one rank, and the largest of the moments that may be the peak."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.arrays import maximum, where
from estimator.breakdown import MEMORY_KINDS
from estimator.networks.dims import MASTER_WEIGHT_FRAMEWORKS, Dims
from estimator.ops import Op
from estimator.parallel.data import Shares
from estimator.units import Number

FUSED_OPTIMIZER_FRAMEWORKS = ("megatron", "xla", "ideal")


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
    (fp32 log-softmax of 2-byte logits) 6 then 10; Megatron 4 (in place) then 8. Measured with eager
    PyTorch on one H200 (torch 2.11), see
    tests/estimator/test_memory.py for the CPU check.
    """
    count = d.tokens * d.vocab
    if d.training.framework == "megatron":
        return count * 4.0, count * 8.0
    if d.fused:
        return count * d.numbers.compute, count * 2 * d.numbers.compute
    if d.numbers.autocast:
        return count * 6.0, count * 10.0
    return count * d.numbers.compute, count * 3 * d.numbers.compute


@dataclass(frozen=True, kw_only=True)
class BlockMoments:
    """Bytes alive inside one block's backward beyond what the block kept, at its two fullest moments.

    ``ffn``: the gradients of the FFN's inner activations exist. ``attention``: the FFN's activations are gone
    (``freed`` of what was kept), the gradients of its weights and of the score matrix exist. ``kept`` is what the whole
    block keeps, none recomputed.
    """

    kept: Number
    ffn: Number
    attention: Number
    freed: Number
    ffn_parameters: Number


def block_moments(d: Dims, ops: tuple[Op, ...]) -> BlockMoments:
    """Walk one block's backward: which gradients live beside what forward kept.

    Eager attention's backward holds the scores' gradient and the softmax's result: 8 bytes per score in fp32; 2-byte
    precisions hold both in fp32 but have dropped the 2-byte copy of the weights: 6. One fused kernel's backward: 2·e.
    """
    e = d.numbers.compute
    forward = [op for op in ops if op.phase == "forward"]
    border = [op.name for op in forward].index("attention residual")
    after_attention = kept_bytes(tuple(forward[border:]))
    stream = 2 * d.tokens * d.hidden * d.numbers.residual
    inner = d.tokens * d.ffn * e * (2 if d.model.gated_ffn else 1)
    heads = 3 * d.tokens * d.query_width * e
    if d.training.attention == "eager":
        scores = d.sequences * d.heads * d.seq_len * d.seq_len
        heads = maximum(heads, scores * (2 * e if d.fused else (8.0 if e == 4 else 6.0)))
    return BlockMoments(
        kept=kept_bytes(tuple(forward)),
        ffn=stream + inner,
        attention=stream + heads,
        freed=after_attention,
        ffn_parameters=(3 if d.model.gated_ffn else 2) * d.hidden * d.ffn,
    )


def stage_memory(
    d: Dims,
    *,
    stage: int,
    layers: int,
    last: bool,
    in_flight: int,
    micro_batches: int,
    layer_ops: tuple[Op, ...],
    moments_of_block: BlockMoments,
    head_ops: tuple[Op, ...],
    parameters: Number,
    linear_parameters: Number,
    first_parameters: Number,
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
        "optimizer": parameters * shares.optimizer * _optimizer_bytes(d),
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
    inside = moments_of_block
    again = (inside.kept - per_layer) if d.recompute != "none" else 0.0
    buckets = gradients if dp > 1 and sharding == "ddp" else (2 * bucket_bytes if dp > 1 else 0.0)
    communication = buckets + gathered_bytes
    of_head = gradients * (d.vocab * d.hidden / parameters) if last else 0.0
    of_ffn = gradients * (inside.ffn_parameters / parameters)
    update = _update_bytes(d, parameters * shares.optimizer)
    moments: dict[str, dict[str, Number]] = {
        "loss backward": {
            "gradients": accumulated,
            "activations": activations + head_kept,
            "logits": peak_logits + held_logits,
            "temporaries": casts,
            "communication": communication,
        },
        "last block's FFN backward": {
            "gradients": maximum(accumulated, of_head),
            "activations": activations + again,
            "logits": held_logits,
            "temporaries": casts + inside.ffn,
            "communication": communication,
        },
        "last block's attention backward": {
            "gradients": maximum(accumulated, of_head + of_ffn),
            "activations": activations + again - inside.freed,
            "logits": held_logits,
            "temporaries": casts + inside.attention,
            "communication": communication,
        },
        "first block's FFN backward": {
            "gradients": maximum(accumulated, gradients * (1.0 - first_parameters / parameters)),
            "activations": activations - (layers - 1) * per_layer + again,
            "logits": held_logits,
            "temporaries": inside.ffn + where(layers > 1, 0.0, casts),
            "communication": communication,
        },
        "first block's attention backward": {
            "gradients": gradients,
            "activations": activations - (layers - 1) * per_layer + again - inside.freed,
            "logits": held_logits,
            "temporaries": inside.attention + where(layers > 1, 0.0, casts),
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


def _optimizer_bytes(d: Dims) -> float:
    """Bytes per parameter: Adam's two moments, and fp32 master weights where the framework keeps them."""
    master = 4.0 if d.training.framework in MASTER_WEIGHT_FRAMEWORKS else 0.0
    return d.numbers.optimizer if d.training.optimizer == "adamw" else master


def _update_bytes(d: Dims, parameters: Number) -> Number:
    """Temporaries of the optimizer: one value per parameter (multi-tensor), of one tensor, or none (fused)."""
    if d.training.framework in FUSED_OPTIMIZER_FRAMEWORKS or d.training.optimizer == "sgd":
        return 0.0
    largest = d.hidden * maximum(d.vocab, d.ffn)
    return (parameters if d.multi_tensor else largest) * d.numbers.parameter


def _is_weight_cast(op: Op) -> bool:
    return op.name.endswith("weight cast")


def _loss_saved(head_ops: tuple[Op, ...]) -> Number:
    return sum((op.saved_bytes * op.count for op in head_ops if op.name == "cross-entropy"), 0.0)
