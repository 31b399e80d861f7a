"""Rank memory: what one rank holds, keeps and sends for one micro-batch, whatever the pipeline and the data ranks."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.memory.activations import (
    block_moments,
    handed_logits_bytes,
    kept_bytes,
    logits_bytes,
    loss_bytes,
    mask_bytes,
    norm_bytes,
    redone_apart_bytes,
    result_bytes,
    retained_logits_bytes,
)
from estimator.memory.allocator import rest_bytes
from estimator.operations.rank_parameters import Matrices, matrices_of
from estimator.operations.rank_sizes import RankSizes
from estimator.operations.transformer import BlockOps, NetworkOps
from estimator.scenario.arrays import maximum
from estimator.scenario.parameters import embedding_parameters, final_norm_parameters
from estimator.scenario.precision import ByteWidths
from estimator.scenario.training import Training
from estimator.scenario.units import Number


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockMemory:
    """One block on one rank: parameters by how they are divided, and bytes kept for and alive in its backward.

    ``put_off_bytes``: gradients that its weights wait with, where backward goes to inputs first;
    ``redone_apart_bytes``: what stays where it then runs again for each of them.

    ``split_parameters``: of the dense ones, those divided over tensor parallel ranks. ``dense_rest_bytes``,
    ``expert_rest_bytes``: what the allocator keeps beyond its large parameter tensors.
    """

    dense_parameters: Number
    split_parameters: Number
    expert_parameters: Number
    cast_parameters: Number
    tensors: Number
    expert_tensors: Number
    kept_bytes: Number
    plain_bytes: Number
    ffn_bytes: Number
    attention_bytes: Number
    freed_bytes: Number
    ended_bytes: Number
    put_off_bytes: Number
    redone_apart_bytes: Number
    ffn_parameters: Number
    dense_rest_bytes: Number
    expert_rest_bytes: Number


@dataclass(frozen=True, kw_only=True, slots=True)
class RankMemory:
    """All kinds of blocks, the embedding and the head; sizes may be arrays over many plans.

    ``redone_blocks``: how many blocks run again at once under full recomputation, else 0. ``pools``: whether PyTorch's
    allocator keeps a pool for each stream, of which FSDP2 has some of its own. ``matrices``: elements and number of
    each kind of block's large parameter tensors, dense and routed experts'.
    """

    blocks: tuple[BlockMemory, ...]
    layers: tuple[int, ...]
    leading: tuple[bool, ...]
    embedding_parameters: Number
    head_parameters: Number
    norm_parameters: Number
    head_kept_bytes: Number
    head_put_off_bytes: Number
    logits_end_bytes: Number
    logits_peak_bytes: Number
    retained_logits_bytes: Number
    handed_logits_bytes: Number
    message_bytes: Number
    mask_bytes: Number
    optimizer_tensor: Number
    embedding_rest_bytes: Number
    head_rest_bytes: Number
    tied: bool
    recomputed: bool | Number
    redone_blocks: Number
    matrices: tuple[Matrices, ...]
    pools: bool
    tp: Number
    widths: ByteWidths
    training: Training


def rank_memory_of(d: RankSizes, ops: NetworkOps, recompute_every: Number = 1) -> RankMemory:
    """Collect the numbers; with full recomputation only every ``recompute_every``-th block keeps its input."""
    model = d.model
    vocab_tp: Number = d.tp if d.training.traits.vocab_parallel else 1
    if d.tp_kind != "1d":
        vocab_tp = d.grid_side ** (3 if d.tp_kind == "3d" else 2)
    every = recompute_every if d.recompute == "full" else 1
    end, peak = logits_bytes(d)
    transformer = model.network == "transformer"
    vocabulary = transformer and model.head
    return RankMemory(
        blocks=tuple(_block_shard(d, block, every) for block in ops.blocks),
        layers=tuple(block.layers for block in ops.blocks),
        leading=tuple(block.leading for block in ops.blocks),
        embedding_parameters=embedding_parameters(model, d.training.seq_len) / vocab_tp if transformer else 0.0,
        head_parameters=model.vocab * model.hidden / vocab_tp if vocabulary else 0.0,
        norm_parameters=final_norm_parameters(model) if transformer else 0.0,
        head_kept_bytes=kept_bytes(ops.head) - loss_bytes(ops.head),
        head_put_off_bytes=result_bytes(d, ops.head) + norm_bytes(d) if transformer else 0.0,
        logits_end_bytes=end if vocabulary else 0.0,
        logits_peak_bytes=peak if vocabulary else 0.0,
        retained_logits_bytes=retained_logits_bytes(d) if vocabulary else 0.0,
        handed_logits_bytes=handed_logits_bytes(d) if vocabulary else 0.0,
        message_bytes=d.stream_tokens * d.hidden * d.widths.residual,
        mask_bytes=mask_bytes(d),
        optimizer_tensor=d.hidden * maximum(d.vocab, d.ffn),
        embedding_rest_bytes=table_rest_bytes(d),
        head_rest_bytes=table_rest_bytes(d) if model.head else 0.0,
        tied=model.tied_embedding and model.head,
        recomputed=d.recompute != "none",
        redone_blocks=every if d.recompute == "full" else 0.0,
        matrices=tuple(matrices_of(d, experts=block.experts) for block in ops.blocks),
        pools=d.caching_allocator and d.training.traits.dtensor,
        tp=d.tp,
        widths=d.widths,
        training=d.training,
    )


def _block_shard(d: RankSizes, block: BlockOps, every: Number) -> BlockMemory:
    parameters = block.parameters
    inside = block_moments(d, block)
    kept = kept_bytes(block.ops) / every
    dense_rest, expert_rest = block_rest_bytes(d, experts=block.experts)
    return BlockMemory(
        dense_parameters=parameters.split + parameters.whole,
        split_parameters=parameters.split,
        expert_parameters=parameters.expert,
        cast_parameters=parameters.cast,
        tensors=parameters.tensors,
        expert_tensors=parameters.expert_tensors,
        kept_bytes=kept,
        # While a checkpoint's blocks run again, all of them keep what they need for backward.
        plain_bytes=inside.kept * every,
        ffn_bytes=inside.ffn,
        attention_bytes=inside.attention,
        freed_bytes=inside.freed,
        ended_bytes=inside.ended,
        put_off_bytes=inside.put_off,
        redone_apart_bytes=0.0 if d.training.compile else redone_apart_bytes(d, block.plain) * every,
        ffn_parameters=block.ffn_parameters,
        dense_rest_bytes=dense_rest,
        expert_rest_bytes=expert_rest,
    )


def block_rest_bytes(d: RankSizes, *, experts: bool) -> tuple[Number, Number]:
    """Bytes that the allocator keeps beyond a block's dense weights, and beyond its experts'."""
    if not _in_segments(d):
        return 0.0, 0.0
    width = d.widths.parameter
    dense, routed = (
        sum((count * rest_bytes(elements * width) for elements, count in found), start=0.0)
        for found in matrices_of(d, experts=experts)
    )
    return dense, routed


def table_rest_bytes(d: RankSizes) -> Number:
    """The same beyond the embedding's table, or the head's."""
    if not _in_segments(d) or d.model.network != "transformer":
        return 0.0
    return rest_bytes(d.vocab * d.hidden * d.widths.parameter)


def _in_segments(d: RankSizes) -> bool:
    """Whether each large parameter has a segment of the caching allocator, not a place in a buffer."""
    return d.caching_allocator and not d.training.traits.in_place_buffers
