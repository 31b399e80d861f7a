"""In line: the collectives that one micro-batch causes inside compute, by part of the network."""

from __future__ import annotations

from estimator.communication.context import context_messages
from estimator.communication.expert import expert_messages
from estimator.communication.grid import grid_block_messages
from estimator.communication.message import Message
from estimator.communication.tensor import tensor_messages, vocabulary_messages
from estimator.operations.rank_sizes import RankSizes
from estimator.operations.transformer import BlockOps
from estimator.scenario.arrays import is_single, maximum
from estimator.scenario.units import Number

AXES_IN_LINE = ("tp", "cp", "ep", "expert_tp")
"""Axes whose collectives a micro-batch waits for; those of the others run beside micro-batches, or between them."""


def block_messages(d: RankSizes, block: BlockOps, *, sequence_parallel: bool) -> list[Message]:
    """List what one block sends: over tensor, context and expert parallel ranks."""
    experts = not _zero(block.parameters.expert_tensors)
    found = [] if is_single(d.tp) else _tensor(d, sequence_parallel=sequence_parallel, dense_ffn=not experts)
    if not is_single(d.cp) and d.model.network != "ffn":
        found += _context(d)
    if experts:
        sizes = {"ep": d.ep, "expert_tp": d.expert_tp}
        found += [message for message in expert_messages(d) if not is_single(sizes[message.group])]
    return found


def edge_messages(d: RankSizes, *, sequence_parallel: bool) -> tuple[list[Message], list[Message]]:
    """List what the embedding and the head send."""
    if is_single(d.tp) or d.model.network != "transformer":
        return [], []
    first, last = vocabulary_messages(d, sequence_parallel=sequence_parallel)
    return first, last if d.model.head else []


def _tensor(d: RankSizes, *, sequence_parallel: bool, dense_ffn: bool) -> list[Message]:
    attention, ffn = d.model.network != "ffn", d.model.network != "attention"
    if d.tp_kind != "1d":
        return _grid(d, attention=attention, ffn=ffn)
    return tensor_messages(
        d,
        sequence_parallel=sequence_parallel,
        attention=attention,
        ffn=ffn and (dense_ffn or d.model.shared_experts > 0),
    )


def _grid(d: RankSizes, *, attention: bool, ffn: bool) -> list[Message]:
    model, side = d.model, d.grid_side
    row_ranks = d.tp / side
    kv_width = maximum(model.kv / side, 1.0) * side * model.dim
    return grid_block_messages(
        tp_kind=d.tp_kind,
        q=side,
        depth=d.tp / (side * side),
        rows=d.tokens * row_ranks,
        hidden=model.hidden,
        qkv_width=model.query_width + 2 * kv_width,
        query_width=model.query_width,
        ffn_in_width=(2 if model.gated_ffn else 1) * model.ffn,
        ffn=model.ffn,
        element_bytes=d.widths.compute,
        keep=False,
        micro_batch=d.sequences * row_ranks,
        attention=attention,
        feed_forward=ffn,
        bias=model.bias,
        statistics=0 if model.network != "transformer" else 2 if model.norm == "layer" else 1,
        recompute=d.recompute == "full",
    )


def _context(d: RankSizes) -> list[Message]:
    model = d.model
    # Latent attention makes keys and values for every query head before they travel, plain rings repeat theirs.
    waits = d.cp_kind == "ring" and not d.fused
    # One kernel takes heads of one width, to which plain rings pad.
    value_dim = model.dim if waits else model.v_head_dim or model.dim
    kv: Number = model.heads / d.tp if model.kv_lora_rank or waits else maximum(model.kv / d.tp, 1.0)
    if d.cp_kind == "ulysses":
        kv = maximum(kv, d.cp)
    return context_messages(
        cp_kind=d.cp_kind,
        cp=d.cp,
        tokens=d.tokens,
        query_width=model.query_width / d.tp,
        key_width=kv * model.dim,
        value_width=kv * value_dim,
        output_width=model.heads / d.tp * value_dim,
        element_bytes=d.widths.compute,
        recompute=d.recompute == "full",
        waits=waits,
    )


def _zero(count: Number) -> bool:
    return isinstance(count, (int, float)) and count == 0
