"""Element-wise kernels: lists of norms, activations, softmax and casts, as eager PyTorch or fused kernels run them.

Counts are kernels and bytes per element, read off the operations that autograd records (eager) or the least that one
fused kernel must move (fused). ``stream`` bytes move in contiguous kernels; ``strided`` and ``mixed`` count the passes
that are limited by elements: broadcasts, upcasts, concatenations, operands of two types.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from estimator.operations.op import Op, kernels
from estimator.operations.rank_sizes import RankSizes
from estimator.scenario.arrays import where
from estimator.scenario.breakdown import Category
from estimator.scenario.units import Number


@dataclass(frozen=True, kw_only=True)
class KernelCost:
    """Cost per element of one logical operation in one phase; ``saved`` bytes per element stay for backward.

    ``reduced``: what of ``stream`` kernels move that go over each row more than once; ``column``: that sum over rows.
    """

    stream: Number = 0.0
    reduced: Number = 0.0
    column: Number = 0.0
    strided: Number = 0.0
    mixed: Number = 0.0
    slow_bytes: Number = 0.0
    launches: float = 1.0
    saved: float = 0.0
    flops: float = 0.0


def rms_norm(d: RankSizes, bytes_in: float) -> tuple[KernelCost, KernelCost]:
    """RMSNorm over its input, forward and backward: y = w · x / sqrt(mean(x²) + eps)."""
    e = bytes_in
    if d.fused:
        return KernelCost(stream=2 * e, flops=4, saved=e), KernelCost(stream=5 * e, launches=2, flops=8)
    if e == 2:
        # Upcast, square, mean, + eps, rsqrt, scale, downcast, weight: eight kernels, three of them slow.
        forward = KernelCost(stream=18, strided=3, slow_bytes=20, launches=8, saved=6, flops=4)
        # Backward: weight · g, x · g and its sum; upcast; · x and its sum, · rsqrt; three on the small tensors; the
        # mean's share expanded; the square's x¹ as a copy, doubled, · share; both added; downcast.
        return forward, KernelCost(stream=70, column=e, strided=4, slow_bytes=24, launches=16, flops=8)
    forward = KernelCost(stream=12, strided=2, slow_bytes=16, launches=6, saved=8, flops=4)
    return forward, KernelCost(stream=72, column=e, strided=3, slow_bytes=20, launches=14, flops=8)


def layer_norm(d: RankSizes, bytes_in: float) -> tuple[KernelCost, KernelCost]:
    """LayerNorm over its input, one kernel forward, two backward (input; weight and bias)."""
    e = bytes_in
    # Fused frameworks bring kernels of their own, which keep a row on the chip.
    reduced = 0 if d.fused else e
    forward = KernelCost(stream=2 * e, reduced=2 * reduced, flops=7, saved=e)
    return forward, KernelCost(stream=5 * e, reduced=3 * reduced, column=2 * reduced, launches=2, flops=12)


def norm(d: RankSizes, bytes_in: float) -> tuple[KernelCost, KernelCost]:
    """The model's norm."""
    return rms_norm(d, bytes_in) if d.model.norm == "rms" else layer_norm(d, bytes_in)


def rope(d: RankSizes) -> tuple[KernelCost, KernelCost]:
    """Rotary positions of queries and keys: x·cos + rotate_half(x)·sin, two tensors."""
    e = d.widths.compute
    if d.fused:
        return KernelCost(stream=2 * e, launches=2, flops=3), KernelCost(stream=2 * e, launches=2, flops=3)
    if d.widths.autocast:
        # Tables are fp32 as the hidden states are, so both products mix types and q, k turn fp32. Backward casts the
        # gradient of each product back.
        forward = KernelCost(strided=1.5, mixed=3, slow_bytes=30, launches=10, flops=3)
        return forward, KernelCost(stream=16, strided=5.5, slow_bytes=34, launches=22, flops=3)
    # x·cos, −x of a half, both halves joined, ·sin, sum. Backward: two products, −g of a half, zeros and a copy for
    # each half, two sums.
    forward = KernelCost(strided=3.5, mixed=1, slow_bytes=10 * e, launches=10, flops=3)
    return forward, KernelCost(stream=2 * e, strided=5.5, slow_bytes=13 * e, launches=18, flops=3)


def activation(d: RankSizes) -> tuple[KernelCost, KernelCost]:
    """The non-linearity of the feed-forward network per element of its inner width.

    Gated: act(gate) · up. What is kept includes the input of the following projection.
    """
    e = d.widths.compute
    # Under fp8 the projection keeps a narrower copy of its own instead.
    product = 0.0 if d.widths.quantised else e
    if d.model.gated_ffn:
        if d.fused:
            return KernelCost(stream=3 * e, flops=6, saved=2 * e + product), KernelCost(stream=5 * e, flops=10)
        forward = KernelCost(stream=5 * e, launches=2, flops=6, saved=3 * e + product)
        return forward, KernelCost(stream=9 * e, launches=3, flops=10)
    if d.fused or d.model.activation != "gelu-tanh":
        return KernelCost(stream=2 * e, flops=8, saved=e + product), KernelCost(stream=3 * e, flops=12)
    # tanh GELU written out: x³, ·0.044715, +x, ·√(2/π), tanh, +1, 0.5·x, product.
    if d.widths.autocast:
        forward = KernelCost(stream=44, mixed=2, strided=1, slow_bytes=26, launches=9, flops=8, saved=16)
        return forward, KernelCost(stream=102, mixed=1, slow_bytes=10, launches=14, flops=14)
    forward = KernelCost(stream=18 * e, launches=8, flops=8, saved=4 * e + product)
    return forward, KernelCost(stream=28 * e, launches=11, flops=14)


def split_activation(d: RankSizes) -> tuple[KernelCost, KernelCost]:
    """The gated activation where gate and up are halves of one product's rows, in kernels of their own.

    act(gate), · up; backward: up's and act(gate)'s products with the gradient, act's gradient, both halves joined. What
    reads or writes a half is strided.
    """
    e = d.widths.compute
    forward = KernelCost(strided=2, slow_bytes=5 * e, launches=2, flops=6, saved=4 * e)
    return forward, KernelCost(stream=7 * e, strided=2, slow_bytes=6 * e, launches=4, flops=10)


def residual(d: RankSizes) -> tuple[KernelCost, KernelCost]:
    """Adding a block's output to the stream, after dropout; backward adds the two gradients that meet there."""
    n = d.widths
    if n.autocast:
        # Backward casts the gradient of what came in 16 bits, then adds.
        both = KernelCost(mixed=1, slow_bytes=10, flops=1), KernelCost(stream=18, launches=2, flops=1)
    else:
        both = KernelCost(stream=3 * n.residual, flops=1), KernelCost(stream=3 * n.residual, flops=1)
    return _dropped(d, both, width=n.compute, keeps_output=False)


def softmax(d: RankSizes) -> tuple[KernelCost, KernelCost]:
    """Scale, mask, softmax and dropout of the score matrix, per score."""
    n = d.widths
    # Where dropout follows, what it leaves is cast and kept, not the cast of what it takes.
    cast = 0 if d.training.dropout else 2
    if d.fused:
        e = n.compute
        both = KernelCost(stream=2 * e, flops=8, saved=e), KernelCost(stream=3 * e, flops=6)
    elif n.compute == 4:
        # Scale, mask (broadcast over heads), softmax; backward multiplies by the output first.
        forward = KernelCost(stream=16, reduced=8, strided=1, slow_bytes=8, launches=3, flops=8, saved=4)
        both = forward, KernelCost(stream=32, reduced=12, launches=3, flops=6)
    elif n.autocast:
        forward = KernelCost(stream=4 + 8 + 6, reduced=8, mixed=1, slow_bytes=6, launches=4, flops=8, saved=4 + cast)
        both = forward, KernelCost(stream=24 + 6 + 4, reduced=12, strided=1, slow_bytes=6, launches=5, flops=6)
    else:
        forward = KernelCost(stream=4 + 8 + 6, reduced=8, strided=2, slow_bytes=10, launches=5, flops=8, saved=4 + cast)
        both = forward, KernelCost(stream=24 + 6 + 4, reduced=12, strided=1, slow_bytes=6, launches=5, flops=6)
    if d.training.traits.softmax_keeps_input:
        both = replace(both[0], saved=both[0].saved + 4), both[1]
    return _dropped(d, both, width=n.compute, keeps_output=True)


def _dropped(
    d: RankSizes, both: tuple[KernelCost, KernelCost], *, width: float, keeps_output: bool
) -> tuple[KernelCost, KernelCost]:
    """Add dropout: a mask of one byte per element is written and kept, and what it leaves if that feeds a product."""
    if d.training.dropout == 0:
        return both
    forward, backward = both
    extra = 0 if d.fused and not keeps_output else 1
    moved = 2 * width * extra + 1
    saved = 1 + (width if keeps_output else 0)
    return (
        replace(forward, stream=forward.stream + moved, saved=forward.saved + saved, launches=forward.launches + extra),
        replace(backward, stream=backward.stream + moved, launches=backward.launches + extra),
    )


PERSISTENT_ROW_BYTES = 49_024
"""A softmax row up to this size stays in shared memory: one pass instead of three. PyTorch's choice on CUDA devices:
sharedMemPerBlock, 48 KiB without asking for more, less the warps' 128 bytes (aten/src/ATen/native/cuda/SoftMax.cu)."""


def softmax_reads(row_bytes: Number) -> tuple[Number, Number]:
    """How many tensors softmax and its gradient read, forward and backward, by the size of a row.

    A row that does not stay on the chip is read for its maximum, its sum and its result; in backward the gradient is
    read for its sum, then gradient and output (aten/src/ATen/native/cuda/SoftMax.cu; on H200 in bf16 2.0 ms each for
    8 192 rows of 128 256, 0.79 for 4 096 of 102 400, 0.25 for 4 096 of 32 000).
    """
    stays = row_bytes <= PERSISTENT_ROW_BYTES
    return where(stays, 1.0, 3.0), where(stays, 2.0, 3.0)


def cross_entropy(d: RankSizes) -> tuple[KernelCost, KernelCost]:
    """Log-softmax and negative log-likelihood per logit; ``saved`` is what backward needs of it."""
    n = d.widths
    e = n.compute
    if d.training.traits.vocab_parallel_loss:
        # Vocabulary-parallel: upcast, maximum, subtract, exp, sum, divide, all in fp32; then scale and downcast.
        return KernelCost(stream=6 + 4 + 8 + 8 + 4 + 8, launches=9, flops=5, saved=4), KernelCost(
            stream=8 + 6, launches=4, flops=3
        )
    if d.fused:
        return KernelCost(stream=2 * n.compute, launches=3, flops=5, saved=n.compute), KernelCost(
            stream=2 * n.compute, flops=3
        )
    reads, again = softmax_reads(d.vocab * e)
    # Backward: a gradient of zeros, one number of each row in it, and the gradient of log-softmax.
    if n.autocast:
        # Log-softmax stays in 16 bits, the loss is taken of an fp32 copy of it, and its gradient is cast back.
        forward = KernelCost(stream=(reads + 1) * e, strided=1, slow_bytes=6, launches=3, flops=5, saved=4)
        return forward, KernelCost(stream=4 + 6 + (again + 1) * e, launches=4, flops=3)
    forward = KernelCost(stream=(reads + 1) * e, launches=2, flops=5, saved=e)
    backward = KernelCost(stream=e + (again + 1) * e, launches=3, flops=3)
    return forward, backward


FEW_INDICES = 3072
"""Up to so many tokens the gradient of an embedding is summed in one kernel, beyond them they are sorted first."""

SORTED_LAUNCHES, SORTED_PASSES = 20.0, 3.0
"""Kernels of a sorted embedding gradient (a radix sort of tokens and places, a count of what is unique, prefix sums),
and how often its sums walk the tokens' gradients at the pace of mixed types (profile of H200, torch 2.11)."""


def pair(
    name: str,
    layer: str,
    elements: Number,
    forward: KernelCost,
    backward: KernelCost,
    category: str = Category.ELEMENTWISE,
    times: Number = 1.0,
) -> list[Op]:
    """Turn a piece's two phases into ops over ``elements``, launched ``times`` as often (once per expert)."""
    return [
        kernels(name, layer, "forward", elements=elements, stream=forward.stream, reduced=forward.reduced,
                strided=forward.strided, mixed=forward.mixed, slow_bytes=forward.slow_bytes,
                launches=forward.launches * times, saved_bytes=forward.saved * elements,
                flops_per_element=forward.flops, category=category),
        kernels(f"{name} gradient", layer, "backward", elements=elements, stream=backward.stream,
                reduced=backward.reduced, column=backward.column, strided=backward.strided, mixed=backward.mixed,
                slow_bytes=backward.slow_bytes, launches=backward.launches * times,
                saved_bytes=backward.saved * elements, flops_per_element=backward.flops, category=category),
    ]  # fmt: skip
