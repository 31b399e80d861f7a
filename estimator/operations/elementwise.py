"""Element-wise kernels: lists of norms, activations, softmax and casts, as eager PyTorch or fused kernels run them.

Counts are kernels and bytes per element, read off the operations that autograd records (eager) or the least that one
fused kernel must move (fused). ``stream`` bytes move in contiguous kernels; ``strided`` and ``mixed`` count the passes
that are limited by elements: broadcasts, upcasts, concatenations, operands of two types.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from estimator.operations.op import Chained, Op, kernels, parted
from estimator.operations.rank_sizes import RankSizes
from estimator.operations.torch_kernels import (
    GELUS,
    LAYER_NORM_ROWS,
    MASK_NARROW,
    MASKED_GELUS,
    MIXED_ALIKE,
    NORM_GRADIENT_ROWS,
    SOFTMAX_GELUS,
    gelus_of_rows,
    mask_added,
    norm_reads,
    norm_rows,
    norm_walk,
    softmax_again,
    softmax_reads,
    sum_rows,
)
from estimator.scenario.arrays import where
from estimator.scenario.aten_cost import CAUSAL_FRAC
from estimator.scenario.breakdown import Category
from estimator.scenario.training import MATH
from estimator.scenario.units import Number


@dataclass(frozen=True, kw_only=True)
class KernelCost:
    """Cost per element of one logical operation in one phase; ``saved`` bytes per element stay for backward.

    ``reduced``: what of ``stream`` norms move, and softmax goes over again; ``column``: that sum over rows;
    ``rows``: rows that norms take, as ``norm_rows`` counts them; ``walked``: elements that ``walkers`` blocks walk for
    the gradient of a norm's weights; ``gelus``: what is computed, in GELUs; ``chained``: bytes per element of each
    tensor that has just been written, and kernels that read one. ``then``: the name and cost of what runs behind in
    the same phase, where it is bound by something else.
    """

    stream: Number = 0.0
    reduced: Number = 0.0
    column: Number = 0.0
    strided: Number = 0.0
    mixed: Number = 0.0
    slow_bytes: Number = 0.0
    rows: Number = 0.0
    walked: Number = 0.0
    walkers: Number = 1.0
    gelus: Number = 0.0
    chained: Chained = ()
    then: tuple[str, KernelCost] | None = None
    launches: Number = 1.0
    saved: float = 0.0
    flops: float = 0.0


def shared(cost: KernelCost, *shares: Number) -> KernelCost:
    """The cost of what is done to several tensors by kernels of their own; ``shares`` of the elements are of each."""
    each = tuple((size * share, readers) for share in shares for size, readers in cost.chained)
    return replace(cost, chained=each)


def rms_norm(d: RankSizes, bytes_in: float, width: Number) -> tuple[KernelCost, KernelCost]:
    """RMSNorm over rows of ``width``, forward and backward: y = w · x / sqrt(mean(x²) + eps)."""
    e, rows = bytes_in, sum_rows(1.0, width) / width
    if d.fused:
        return KernelCost(stream=2 * e, flops=4, saved=e), KernelCost(stream=5 * e, launches=2, flops=8)
    if e == 2:
        # Upcast, square, mean, + eps, rsqrt, scale, downcast, weight: eight kernels, three of them slow.
        forward = KernelCost(
            stream=18, strided=3, slow_bytes=20, rows=rows, chained=((4, 3),), launches=8, saved=6, flops=4
        )
        # Backward: weight · g, x · g and its sum; upcast; · x and its sum, · rsqrt; three on the small tensors; the
        # mean's share expanded; the square's x¹ as a copy, doubled, · share; both added; downcast.
        return forward, KernelCost(
            stream=70, column=e, strided=4, slow_bytes=24, rows=rows, chained=((4, 7), (2, 1)), launches=16, flops=8
        )
    forward = KernelCost(
        stream=12, strided=2, slow_bytes=16, rows=rows, chained=((4, 2),), launches=6, saved=8, flops=4
    )
    return forward, KernelCost(
        stream=72, column=e, strided=3, slow_bytes=20, rows=rows, chained=((4, 7),), launches=14, flops=8
    )


def layer_norm(d: RankSizes, bytes_in: float, width: Number) -> tuple[KernelCost, KernelCost]:
    """LayerNorm over rows of ``width``, one kernel forward, two backward (input; weight and bias)."""
    e = bytes_in
    if d.fused:  # Fused frameworks bring kernels of their own, which keep a row on the chip.
        return KernelCost(stream=2 * e, flops=7, saved=e), KernelCost(stream=5 * e, launches=2, flops=12)
    moved, back = 2 * e, (2 * norm_reads(2 * width * e) + 1) * e
    rows = norm_rows(1.0, width, LAYER_NORM_ROWS) / width
    forward = KernelCost(stream=moved, reduced=moved, rows=rows, chained=((e, 1),), flops=7, saved=e)
    walked, walkers = norm_walk(d.stream_tokens, width)
    walked = walked / (d.stream_tokens * width)
    weights = KernelCost(stream=2 * e, flops=4, gelus=1.0, walked=walked, walkers=walkers)
    rows = norm_rows(1.0, width, NORM_GRADIENT_ROWS) / width
    return forward, KernelCost(
        stream=back, reduced=back, rows=rows, chained=((e, 1),), flops=8, then=("weights", weights)
    )


def norm(d: RankSizes, bytes_in: float, width: Number) -> tuple[KernelCost, KernelCost]:
    """The model's norm."""
    return rms_norm(d, bytes_in, width) if d.model.norm == "rms" else layer_norm(d, bytes_in, width)


ROPE_VIEWS = 4.0, 0.0
"""Ops around rotary positions that launch nothing, forward and backward: halves of q and k."""


def rope(d: RankSizes) -> tuple[KernelCost, KernelCost]:
    """Rotary positions of queries and keys: x·cos + rotate_half(x)·sin, two tensors."""
    e = d.widths.compute
    if d.fused:
        both = KernelCost(stream=2 * e, launches=2, flops=3)
        return both, both
    if d.widths.autocast:
        # Tables are fp32 as the hidden states are, so both products mix types and q, k turn fp32. Backward casts the
        # gradient of each product back.
        forward = KernelCost(strided=1.5, mixed=3, slow_bytes=30, launches=10, flops=3)
        # Behind norms of queries and keys, which turn them fp32 already, none is cast.
        cast: Chained = () if d.model.qk_norm else ((4, 2),)
        return forward, KernelCost(stream=16, strided=5.5, slow_bytes=34, chained=cast, launches=22, flops=3)
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
        gelus, back = _gelus(d)
        behind = KernelCost(stream=3 * e, chained=((e, 1),))
        forward = KernelCost(
            stream=2 * e, flops=6, saved=3 * e + product, gelus=gelus, chained=((e, 1),), then=("product", behind)
        )
        behind = KernelCost(stream=6 * e, chained=((e, 2),), launches=2)
        return forward, KernelCost(stream=3 * e, flops=10, gelus=back, chained=((e, 1),), then=("product", behind))
    if d.fused or d.model.activation != "gelu-tanh":
        gelus, back = _gelus(d)
        read: Chained = () if d.fused else ((e, 1),)
        return KernelCost(stream=2 * e, flops=8, saved=e + product, gelus=gelus, chained=read), KernelCost(
            stream=3 * e, flops=12, gelus=back, chained=read
        )
    # tanh GELU written out: x³, ·0.044715, +x, ·√(2/π), tanh, +1, 0.5·x, product.
    if d.widths.autocast:
        forward = KernelCost(
            stream=44,
            mixed=2 * MIXED_ALIKE,
            strided=1,
            slow_bytes=26,
            chained=((4, 5), (2, 1)),
            launches=9,
            flops=8,
            saved=16,
        )
        return forward, KernelCost(
            stream=102, mixed=MIXED_ALIKE, slow_bytes=10, chained=((4, 10), (2, 3)), launches=14, flops=14
        )
    tanh = KernelCost(stream=2 * e, gelus=GELUS["tanh"], chained=((e, 1),))
    forward = KernelCost(
        stream=16 * e, chained=((e, 7),), launches=7, flops=8, saved=4 * e + product, then=("tanh", tanh)
    )
    return forward, KernelCost(stream=28 * e, chained=((e, 11),), launches=11, flops=14)


def _gelus(d: RankSizes) -> tuple[float, float]:
    """GELUs for each element of the activation, forward and backward, where kernels of its own compute it."""
    kind = d.model.activation.replace("-", "_")
    return (0.0, 0.0) if d.fused else (GELUS.get(kind, 0.0), GELUS.get(f"{kind}_backward", 0.0))


def split_activation(d: RankSizes) -> tuple[KernelCost, KernelCost]:
    """The gated activation where gate and up are halves of one product's rows, in kernels of their own.

    act(gate), · up; backward: up's and act(gate)'s products with the gradient, act's gradient, both halves joined. What
    reads or writes a half is strided.
    """
    e = d.widths.compute
    forward = KernelCost(strided=2, slow_bytes=5 * e, launches=2, flops=6, saved=4 * e)
    return forward, KernelCost(stream=7 * e, strided=2, slow_bytes=6 * e, chained=((e, 1),), launches=4, flops=10)


def residual(d: RankSizes) -> tuple[KernelCost, KernelCost]:
    """Adding a block's output to the stream, after dropout; backward adds the two gradients that meet there."""
    n = d.widths
    if n.autocast:
        # Backward casts the gradient of what came in 16 bits, then adds.
        both = (
            KernelCost(mixed=MIXED_ALIKE, slow_bytes=10, flops=1),
            KernelCost(stream=18, chained=((4, 2),), launches=2, flops=1),
        )
    else:
        one = KernelCost(stream=3 * n.residual, chained=() if d.fused else ((n.residual, 1),), flops=1)
        both = one, one
    return _dropped(d, both, width=n.compute, keeps_output=False)


def softmax(d: RankSizes, keys: Number) -> tuple[KernelCost, KernelCost]:
    """Scale, mask, softmax over rows of ``keys`` and dropout of the score matrix, per score."""
    n = d.widths
    again, again_back = softmax_again(keys)
    added = mask_added(keys * keys * (4.0 if n.autocast else n.compute))
    # Where dropout follows, what it leaves is cast and kept, not the cast of what it takes.
    cast = 0 if d.training.dropout and not d.model.clamped_scores else 2
    # Of 16 bits, under autocast as without.
    backward = KernelCost(
        stream=24 + 6 + 4,
        reduced=4 * again_back,
        strided=1,
        slow_bytes=6,
        chained=((4, 3), (2, 1)),
        launches=5,
        flops=6,
    )
    if d.fused:
        e = n.compute
        both = (
            KernelCost(stream=2 * e, flops=8, saved=e),
            KernelCost(stream=3 * e, flops=6),
        )
    elif d.training.attention == MATH:
        # A mask made and added in place, softmax, which rows are masked whole, zeros in those; no scale of its own.
        forward = KernelCost(
            stream=8 + 5 + 1, strided=added + 1, slow_bytes=16, chained=((4, 1),), launches=7, flops=8, saved=4
        )
        both = forward, KernelCost(stream=24, reduced=4 * again_back, chained=((4, 2),), launches=2, flops=6)
    elif n.compute == 4:
        # Scale, mask (broadcast over heads), softmax; backward multiplies by the output first.
        forward = KernelCost(stream=16, strided=added, slow_bytes=8, chained=((4, 1),), launches=3, flops=8, saved=4)
        both = forward, KernelCost(stream=32, reduced=4 * again_back, chained=((4, 3),), launches=3, flops=6)
    elif n.autocast:
        forward = KernelCost(
            stream=4 + 8 + 6,
            mixed=added,
            slow_bytes=6,
            chained=((4, 1), (2, 1)),
            launches=4,
            flops=8,
            saved=4 + cast,
        )
        both = forward, backward
    else:
        forward = KernelCost(
            stream=4 + 8 + 6,
            strided=MASK_NARROW * added + 1,
            slow_bytes=10,
            chained=((4, 1), (2, 1)),
            launches=5,
            flops=8,
            saved=4 + cast,
        )
        both = forward, backward
    if not d.fused:
        masked = 1.0 - CAUSAL_FRAC
        whole, gelus = both[0], gelus_of_rows(keys, SOFTMAX_GELUS) + MASKED_GELUS * masked
        others = replace(whole, stream=whole.stream - 8, launches=whole.launches - 1, saved=0, flops=0)
        own = KernelCost(
            stream=8,
            reduced=4 * again,
            chained=((4, 1),),
            flops=whole.flops,
            saved=whole.saved,
            gelus=gelus,
        )
        both = replace(own, then=("scale and mask", others)), both[1]
    if d.training.traits.softmax_keeps_input:
        both = replace(both[0], saved=both[0].saved + 4), both[1]
    if d.model.clamped_scores and not d.fused:
        return _clamped_scores(both, n.compute)
    return _dropped(d, both, width=n.compute, keeps_output=True)


def _clamped_scores(both: tuple[KernelCost, KernelCost], e: float) -> tuple[KernelCost, KernelCost]:
    """A maximum with the least number where others scale, whose input is kept; no dropout behind.

    Its gradient halves itself for what is equal, compares twice, chooses and fills, in five kernels that move
    8·e + 8 bytes a score, where a scale's is one of 2·e (maximum of PyTorch's tools/autograd/derivatives.yaml).
    """
    forward, backward = both
    return replace(forward, saved=forward.saved + e), replace(
        backward,
        stream=backward.stream - 2 * e + 8 * e + 8,
        launches=backward.launches + 4,
        chained=(*backward.chained, (e, 2.0), (1.0, 2.0)),
    )


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
    chained: Chained = () if d.fused else ((width, 1),)
    return (
        replace(
            forward,
            stream=forward.stream + moved,
            saved=forward.saved + saved,
            launches=forward.launches + extra,
            chained=forward.chained + chained,
        ),
        replace(
            backward,
            stream=backward.stream + moved,
            launches=backward.launches + extra,
            chained=backward.chained + chained,
        ),
    )


def cross_entropy(d: RankSizes) -> tuple[KernelCost, KernelCost]:
    """Log-softmax and negative log-likelihood per logit; ``saved`` is what backward needs of it."""
    n = d.widths
    e = n.compute
    if d.training.traits.vocab_parallel_loss:
        # Vocabulary-parallel: upcast, maximum, subtract, exp, sum, divide, all in fp32; then scale and downcast.
        return KernelCost(stream=6 + 4 + 8 + 8 + 4 + 8, launches=9, flops=5, saved=4), KernelCost(
            stream=8 + 6, launches=4, flops=3
        )
    if d.training.fused_loss:
        return KernelCost(stream=2 * n.compute, launches=3, flops=5, saved=n.compute), KernelCost(
            stream=2 * n.compute, flops=3
        )
    wide = d.training.traits.upcasts_logits and e < 4
    e = 4.0 if wide else e
    reads, again = softmax_reads(d.vocab * e)
    own = KernelCost(stream=(reads + 1) * e, flops=5, gelus=gelus_of_rows(d.vocab, SOFTMAX_GELUS), chained=((e, 1),))
    # Backward: a gradient of zeros, one number of each row in it, and the gradient of log-softmax.
    if wide:
        # An fp32 copy of the logits before all else; its gradient is cast back.
        copy = KernelCost(strided=1, slow_bytes=n.compute + 4)
        # Of split logits maximum, difference, exponential, sum and difference are kernels of their own, in backward
        # exponential, sum and product (torch/distributed/tensor/parallel/loss.py).
        moved, moved_back = (where(d.tp > 1, 8 * e, whole) for whole in (own.stream, (again + 2) * e))
        back = KernelCost(stream=moved_back + 4 + n.compute, chained=((e, 2),), launches=4, flops=3)
        return replace(own, stream=moved, launches=2, saved=e, then=("upcast", copy)), back
    if n.autocast:
        # Log-softmax stays in 16 bits, the loss is taken of an fp32 copy of it, and its gradient is cast back.
        behind = KernelCost(strided=1, slow_bytes=6, launches=2)
        return replace(own, saved=4, then=("loss", behind)), KernelCost(
            stream=4 + 6 + (again + 1) * e, chained=((4, 1), (e, 1)), launches=4, flops=3
        )
    backward = KernelCost(stream=e + (again + 1) * e, chained=((e, 1),), launches=3, flops=3)
    return replace(own, launches=2, saved=e), backward


def pair(
    name: str,
    layer: str,
    elements: Number,
    forward: KernelCost,
    backward: KernelCost,
    category: str = Category.ELEMENTWISE,
    times: Number = 1.0,
    views: tuple[float, float] = (0.0, 0.0),
) -> list[Op]:
    """Turn a piece's two phases into ops over ``elements``, launched ``times`` as often (once per expert).

    ``views``: ops around it that launch nothing, forward and backward.
    """
    pieces: list[tuple[str, str, KernelCost, float]] = []
    both = (name, "forward", forward, views[0]), (f"{name} gradient", "backward", backward, views[1])
    for called, phase, cost, around in both:
        pieces.append((called, phase, cost, around))
        if cost.then:
            pieces.append((f"{called}: {cost.then[0]}", phase, cost.then[1], 0.0))
    return [
        kernels(called, layer, phase, elements=elements, stream=cost.stream, reduced=cost.reduced, column=cost.column,
                strided=cost.strided, mixed=cost.mixed, slow_bytes=cost.slow_bytes, rows=cost.rows, walked=cost.walked,
                walkers=cost.walkers, gelus=cost.gelus, launches=cost.launches * times, views=around * times,
                chained=parted(cost.chained, times),
                saved_bytes=cost.saved * elements, flops_per_element=cost.flops, category=category)
        for called, phase, cost, around in pieces
    ]  # fmt: skip
