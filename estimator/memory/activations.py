"""Activations: what forward keeps for backward, what the loss needs, what else lives inside one block's backward."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.operations.op import Op, norms_of
from estimator.operations.rank_sizes import RankSizes
from estimator.operations.transformer import BlockOps
from estimator.scenario.arrays import maximum, where
from estimator.scenario.training import SCORES_KEPT
from estimator.scenario.units import Number


def kept_bytes(ops: tuple[Op, ...]) -> Number:
    """Bytes that one execution of these ops keeps for backward, without autocast's copies of the weights."""
    return sum((op.saved_bytes * op.count for op in ops if op.phase == "forward" and not _is_weight_cast(op)), 0.0)


def loss_bytes(head_ops: tuple[Op, ...]) -> Number:
    """Bytes that the loss keeps; they are counted as logits, not as activations."""
    return sum((op.saved_bytes * op.count for op in head_ops if op.name == "cross-entropy"), 0.0)


def handed_logits_bytes(d: RankSizes) -> Number:
    """Bytes of logits that a pipeline's last stage hands to its schedule, which holds them until their backward."""
    return 0.0 if d.training.traits.frees_between_stages else d.tokens * d.vocab * d.widths.compute


def logits_bytes(d: RankSizes) -> tuple[Number, Number]:
    """Bytes of logits and loss at the end of forward, and at the peak inside the loss's backward.

    Per logit: fp32 4 then 12 (log-softmax output; its gradient and the logits' gradient), bf16 2 then 6, autocast
    (fp32 log-softmax of 2-byte logits) 6 then 10, measured with eager PyTorch on one H200 (torch 2.11), see
    tests/estimator/operations/test_against_torch.py for the CPU check; of upcast logits 4 (the loss keeps log-softmax's
    output, the program its logits no longer) then 12, as fp32's, or 16 where ranks split them (the output's exponential
    and its sum with the gradient are tensors of their own, torch/distributed/tensor/parallel/loss.py); Megatron 4
    (softmax in place) then 6 (its gradient in place, cast to 2; megatron/core/tensor_parallel/cross_entropy.py).
    """
    count = d.tokens * d.vocab
    if d.training.traits.vocab_parallel_loss:
        return count * 4.0, count * 6.0
    if d.training.fused_loss:
        return count * d.widths.compute, count * 2 * d.widths.compute
    if d.training.traits.upcasts_logits:
        return count * 4.0, count * where(d.tp > 1, 16.0, 12.0)
    if d.widths.autocast:
        return count * 6.0, count * 10.0
    return count * d.widths.compute, count * 3 * d.widths.compute


def retained_logits_bytes(d: RankSizes) -> Number:
    """Bytes that the peak of ``logits_bytes`` has more where the graph is retained: autocast's copy of 2-byte logits.

    The loss keeps 6 bytes per logit; plain backward has let go of 2 of them when its gradients (4 and 2) are fullest.
    """
    traits = d.training.traits
    plain = d.widths.autocast and not (traits.vocab_parallel_loss or d.training.fused_loss or traits.upcasts_logits)
    return d.tokens * d.vocab * 2.0 if plain else 0.0


def mask_bytes(d: RankSizes) -> Number:
    """Bytes of what is added to the scores, of one forward, where backward has it: checkpoints and fused kernels do.

    The causal mask is as wide as the stream, for ALiBi one for each head (``score_bias`` in runners/model). Torch's
    math path makes its own causal one and, as eager attention, adds what it is given without keeping it.
    """
    alibi = d.model.position == "alibi"
    given = alibi or d.training.attention == "eager"
    kept = given and (d.recompute != "none" or d.training.attention not in SCORES_KEPT)
    if not (kept and d.training.traits.measurable) or d.model.network == "ffn":
        return 0.0
    rows = where(d.cp > 1, {"all-gather": 1 / d.cp, "ring": 0.0}.get(d.cp_kind, 1.0), 1.0) * d.seq_len
    return rows * d.seq_len * (d.model.heads if alibi else 1) * d.widths.residual


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockMoments:
    """Bytes alive inside one block's backward beyond what the block kept, at its two fullest moments.

    ``ffn``: the gradients of the FFN's inner activations exist. ``attention``: the FFN's activations are gone
    (``freed`` of what was kept), the gradients of its weights and of the score matrix exist. ``kept`` is what the whole
    block keeps, none recomputed. ``put_off``: gradients of the results of its products and norms that have weights.
    ``ended``: what others live at the end.
    """

    kept: Number
    ended: Number
    put_off: Number
    ffn: Number
    attention: Number
    freed: Number


def block_moments(d: RankSizes, block: BlockOps) -> BlockMoments:
    """Walk one block's backward: which gradients live beside what forward kept.

    Eager attention's backward holds the scores' gradient, its product with the softmax's output and the result: 12
    bytes per score in fp32; 2-byte precisions hold all three in fp32 but have dropped the 2-byte copy of the weights:
    10. One fused kernel's backward: 2·e. A ring's holds a piece's, 12 bytes for each score.
    """
    e = d.widths.compute
    forward = [op for op in block.plain if op.phase == "forward"]
    names = [op.name for op in forward]
    # A network of one half only has no border: all of it is FFN, or all of it is attention.
    border = names.index("attention residual") if "attention residual" in names else 0
    freed = kept_bytes(tuple(forward[border:])) if d.model.network != "attention" else 0.0
    stream = 2 * d.tokens * d.hidden_width * d.widths.residual
    heads: Number = 0.0
    if d.model.network != "ffn":
        heads = 3 * d.tokens * d.query_width * e
        if d.training.attention in SCORES_KEPT:
            heads = maximum(heads, d.scores * (2 * e if d.fused else (12.0 if e == 4 else 10.0)))
        if d.rings_by_kernel:
            pieces = maximum(3 * d.tokens * d.query_width * e, 12.0 * d.scores / d.cp)
            heads = where(d.cp > 1, pieces, heads)
    return BlockMoments(
        kept=kept_bytes(tuple(forward)),
        ended=stream + heads - 3 * d.tokens * d.query_width * e if d.model.network != "ffn" else stream,
        put_off=result_bytes(d, block.plain) + _norms_bytes(d),
        ffn=stream + block.ffn_gradient_bytes,
        attention=stream + heads,
        freed=freed,
    )


def result_bytes(d: RankSizes, ops: tuple[Op, ...]) -> Number:
    """Bytes of the results of products that have weights: a weight's gradient is (inputs × rows)·(rows × outputs)."""
    elements = sum((op.k * op.n * op.batch * op.count for op in ops if op.weight and op.kind == "gemm"), start=0.0)
    return elements * d.widths.compute


DOWN = ("down projection", "shared down projection", "expert down projection")
"""Products whose input is kept as the activation's result."""


def redone_apart_bytes(d: RankSizes, ops: tuple[Op, ...]) -> Number:
    """Bytes that stay of a block which runs again for each weight's gradient, until its graph is dropped.

    As often as it has products and norms with weights, all that it keeps, but for inputs of products: autograd lets
    go of them, in every copy, as it is through with the product.
    """
    forward = [op for op in ops if op.phase == "forward"]
    weighted = sum((op.count for op in ops if op.weight and op.kind == "gemm"), start=0.0)
    weighted += sum((norms_of(op) * op.count for op in forward), start=0.0)
    inputs = sum((op.saved_bytes * op.count for op in forward if op.kind == "gemm"), start=0.0)
    activated = sum((op.m * op.k * op.batch * op.count for op in forward if op.name in DOWN), start=0.0)
    inputs += activated * d.widths.compute
    return weighted * maximum(kept_bytes(tuple(forward)) - inputs, 0.0)


def norm_bytes(d: RankSizes) -> Number:
    """Bytes of the result of one norm of the stream, which autocast leaves as wide as its weights."""
    return d.stream_tokens * d.hidden * (d.widths.residual if d.widths.autocast else d.widths.compute)


def _norms_bytes(d: RankSizes) -> Number:
    width = d.widths.residual if d.widths.autocast else d.widths.compute
    heads = d.tokens * (d.query_width + d.key_width) * width if d.model.qk_norm else 0.0
    latents = d.stream_tokens * (d.model.q_lora_rank + d.model.kv_lora_rank) * width
    return norm_bytes(d) * (d.model.norms_per_layer if d.model.network == "transformer" else 0) + heads + latents


def _is_weight_cast(op: Op) -> bool:
    return op.name.endswith("weight cast")
