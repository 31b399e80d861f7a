"""Recomputation: forward ops that backward runs again, and what then need not be kept."""

from __future__ import annotations

import numpy as np

from estimator.operations import attention
from estimator.operations.op import Op, again, kernels, packed_tensors, piece_of, unsaved
from estimator.operations.rank_sizes import RankSizes
from estimator.scenario.arrays import where
from estimator.scenario.breakdown import Category
from estimator.scenario.units import Number

CORE_OPS = (
    "attention", "q, k casts", "query scale", "scores", "softmax", "values", "head copies", "ring sums",
    "output of pieces", "gathered copies",
)  # fmt: skip
"""Forward ops that selective recomputation runs again (Korthikanti 2022, arXiv 2205.05198, section 5)."""

BLOCK_END = ("down projection", "ffn residual", "ffn output norm")
EXPERT_END = ("expert combine", "ffn residual", "ffn output norm")
SHARED_END = ("shared down projection", "shared sum", "ffn residual", "ffn output norm")
ROUTED_END = ("expert down projection", "expert unsort", "expert combine")
"""What follows the weighing of experts, where that is part of their activation."""
ATTENTION_END = ("output projection",)
CORE_END = ("values",)
WEIGHT_COPIES = ("weight cast", "weight quantisation")
"""Copies of weights stay from forward to backward."""


def recomputed(d: RankSizes, ops: list[Op], layer: str, *, experts: bool) -> list[Op]:
    """Add the forward ops that backward runs again, and drop what then need not be kept."""
    if d.recompute == "none":
        return ops
    forward = [op for op in ops if op.phase == "forward"]
    backward = [op for op in ops if op.phase == "backward"]
    if d.recompute == "full":
        elements = d.stream_tokens * d.hidden
        end = _not_redone(d, _block_end(d, experts))
        inside = [op for op in forward if not op.name.endswith(WEIGHT_COPIES)]
        redone = [op for op in inside if piece_of(op.name) not in end]
        kept = kernels("block input", layer, "forward", elements=elements, launches=0.0,
                       regions=1.0 / d.recompute_every, packed=_packed(inside) - _packed(redone),
                       saved_bytes=elements * d.widths.residual)  # fmt: skip
        return [kept, *map(unsaved, forward), *map(again, redone), *backward]
    if d.training.traits.keeps_products:
        return _by_op(d, forward, backward, layer, experts=experts)
    if d.model.network == "ffn":
        return ops
    # Selective: the core's inputs and output are kept, its inside is not.
    kept_bytes = attention.shape(d).elements * d.widths.compute
    if d.widths.autocast and d.model.position == "rope":
        # Rotary tables are fp32, and the core casts what comes of them.
        kept_bytes = kept_bytes + d.tokens * (d.query_width + d.key_width) * (4.0 - d.widths.compute)
    end = _not_redone(d, CORE_END)
    inside = [op for op in forward if piece_of(op.name) in CORE_OPS]
    redone = [op for op in inside if op.name not in end]
    kept = kernels("q, k, v, output", layer, "forward", elements=d.tokens, launches=0.0, regions=1.0,
                   packed=_packed(inside) - _packed(redone), saved_bytes=kept_bytes)  # fmt: skip
    outside = [op if piece_of(op.name) not in CORE_OPS else unsaved(op) for op in forward]
    return [kept, *outside, *map(again, redone), *backward]


def _packed(ops: list[Op]) -> Number:
    return sum((packed_tensors(op) * op.count for op in ops), start=0.0)


def _by_op(d: RankSizes, forward: list[Op], backward: list[Op], layer: str, *, experts: bool) -> list[Op]:
    """Keep a block's input and what attention and every second product give, and run all else of it again.

    Kept of the products are the first, third, … in the order in which they run, without the router's and those of
    experts (grouped), which all run again, and attention's own (torchtitan's SelectiveAC). Products of fp8 are no
    exception: it sees the plain ones that scaled tensors stand for (torchao's float8 linears). Scatters of sequence
    parallelism are kept, too. What backward does not need of it, a compiler's partitioner leaves out: the last product.
    """
    end = _not_redone(d, _block_end(d, experts))
    stream = d.stream_tokens * d.hidden
    unused = BLOCK_END[0] if d.fused and d.model.norms_per_layer < 4 else ""
    kept_bytes: Number = stream * d.widths.residual
    if d.tp_kind == "1d":
        scatters = 1.0 if d.fused else 2.0
        kept_bytes = kept_bytes + where(d.stream_tokens < d.tokens, scatters * stream * d.widths.compute, 0.0)
    if any(op.kind == "attention" for op in forward):
        kept_bytes = kept_bytes + d.tokens * (d.core_width * d.widths.compute + 4.0 * d.heads)
    inside = [op for op in forward if not op.name.endswith(WEIGHT_COPIES)]
    redone: list[Op] = []
    products: Number = 0.0
    for op in inside:
        count = op.count
        if op.kind == "attention":  # in one piece or several, whose sum is kept
            continue
        if op.kind == "gemm" and op.name != "router" and not op.name.startswith("expert "):
            kept = count
            if op.category != Category.ATTENTION:
                # a product of a grid runs in steps, whose number a search has for all shapes at once
                kept = (products + count + 1) // 2 - (products + 1) // 2
                products = products + count
            if op.name != unused:
                kept_bytes = kept_bytes + kept * op.batch * op.m * op.n * d.widths.compute
            count = count - kept
        if piece_of(op.name) not in end and np.any((op.count == 0) | (count > 0)):
            redone.append(again(op, count))
    # The region's hooks pack what all of its ops save, whichever run again
    packed = _packed(inside) - sum((op.packed * op.count for op in redone), start=0.0)
    kept_op = kernels("block input, products", layer, "forward", elements=stream, launches=0.0, regions=1.0,
                      packed=packed, saved_bytes=kept_bytes)  # fmt: skip
    return [kept_op, *map(unsaved, forward), *redone, *backward]


def _block_end(d: RankSizes, experts: bool) -> tuple[str, ...]:
    if d.model.network == "attention":
        return ATTENTION_END
    if experts:
        end = SHARED_END if d.model.shared_experts else EXPERT_END
        return (*end, *ROUTED_END) if d.training.traits.weighs_inside_experts else end
    return BLOCK_END


def _not_redone(d: RankSizes, end: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ops after the last kept tensor: PyTorch's checkpoint stops there, Megatron's runs to the end."""
    return () if d.training.traits.redoes_whole_blocks else end
