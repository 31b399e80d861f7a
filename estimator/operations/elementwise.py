"""Element-wise kernels: lists of norms, activations, softmax and casts, as eager PyTorch or fused kernels run them.

Counts are kernels and bytes per element, read off the operations that autograd records (eager) or the least that one
fused kernel must move (fused). ``stream`` bytes move in contiguous kernels; ``strided`` and ``mixed`` count the passes
that are limited by elements: broadcasts, upcasts, concatenations, operands of two types.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from estimator.operations.op import WALKER_THREADS, Chained, Op, kernels, parted
from estimator.operations.rank_sizes import RankSizes
from estimator.scenario.arrays import maximum, minimum, where
from estimator.scenario.breakdown import Category
from estimator.scenario.units import Number

GELUS = {"gelu": 1.0, "gelu_backward": 1.34, "gelu_tanh": 0.87, "gelu_tanh_backward": 1.15, "silu": 0.78,
         "silu_backward": 1.1, "sigmoid": 0.8, "tanh": 0.77, "erf": 0.94, "log": 0.94, "log2": 0.94, "sin": 0.88,
         "cos": 0.9, "sqrt": 0.86, "softplus": 1.46}  # fmt: skip
"""Instructions for each element, as many as a GELU has for its one (of 16 bits, by its error function): what limits a
kernel of 16 bits where memory is fast. Measured by themselves on H200, 67 M elements of bf16 each, after a kernel that
wrote them (torch 2.11)."""

LAYER_NORM_ROWS, RMS_NORM_ROWS, NORM_GRADIENT_ROWS = (1.0, 1800.0), (0.37, 3300.0), (0.55, math.inf)
"""What a block does for a row beside moving its bytes, as a part of what a layer norm does for a short one, and the
length of a row that doubles it. H200, rows of 256 to 4096, bf16 and fp32: layer norm 270 clocks of an SM and 0.15 for
each element, RMS norm 100 + 0.03, the gradient of their input 150, a sum or mean of a row 45."""

SUM_ROWS, WARP = 0.17, 32
"""The same of a sum along a row, for which a warp goes through its addresses and its exchange however few numbers it
has: rows of 64 as those of 256 (fp32 alone on H200, 0.04 to 7 M rows: 45 clocks of an SM); rows shorter than its lanes
share it (aten/src/ATen/native/cuda/Reduce.cuh, ``set_block_dimension``)."""

JOINED_WALK, DIMENSION_WALK = 4, 0.17
"""Dimensions that do not join which the rate of strided elements has in it, and what each more adds to an element, in
those: a division and an offset for each operand (aten/src/ATen/cuda/detail/OffsetCalculator.cuh). Broadcast products
of 44 to 453 M fp32 alone on H200 (torch 2.11): 3.48 ps an element of five, 3.95 of six, where 2.94 is the rate."""

RMS_NORM_TILE = 0.8
"""A tile of the gradient of an RMS norm's weights, in those of a layer norm, which has a bias beside."""

TILE_ROWS, TILE_COLUMNS = 256, 32
"""Rows and columns of the tile of a norm's weights' gradient; a block goes down its columns tile after tile
(aten/src/ATen/native/cuda/layer_norm_kernel.cu)."""

PARTED_ROWS = 65_536
"""Beyond so many rows, more blocks than one go down a column, and their sums are added."""

HELD_BYTES, PASSED_BYTES = 8_192, 24_576
"""What a block reads of a row comes from the chip when it reads it again, up to the first; from memory, from the
second on: sixteen blocks share the 256 KiB of an SM of H100 and H200."""


def norm_rows(rows: Number, width: Number, kind: tuple[float, float]) -> Number:
    """Rows that a norm's kernel takes one at a time, in layer norms of short rows."""
    share, doubled = kind
    return rows * share * (1.0 + width / doubled)


def sum_rows(rows: Number, width: Number) -> Number:
    """Rows that a sum along each takes, in layer norms of short rows."""
    return rows * SUM_ROWS * minimum(width / WARP, 1.0)


TURNED = 2.5
"""Strided elements that one costs of an operand whose neighbours in the walk lie in sectors of their own, which the
last-level cache has to give: sums of a transposed tensor and another, 30 million of bf16, take 228 µs on an H100 and
copies of it 220, where strided ones take 88 (tests/reference/h100_programs/eleventh_one/whisper-704-7l.json)."""


def walked_dimensions(dimensions: int) -> float:
    """What an element takes that is found over so many dimensions, in strided elements: 1 + 0.17 · (those beyond 4)."""
    return 1.0 + DIMENSION_WALK * max(dimensions - JOINED_WALK, 0)


def norm_reads(row_bytes: Number) -> Number:
    """How often the gradient of a norm's input reads a row from memory, which it goes over twice."""
    return 1.0 + minimum(maximum((row_bytes - HELD_BYTES) / (PASSED_BYTES - HELD_BYTES), 0.0), 1.0)


def norm_walk(rows: Number, width: Number, tile: float = 1.0) -> tuple[Number, Number]:
    """Elements that blocks walk, and blocks, for the gradient of a norm's weights: a load for each tile of a column."""
    walkers = maximum(width / TILE_COLUMNS, 1.0)
    return where(rows <= PARTED_ROWS, tile * rows / TILE_ROWS, 0.0) * WALKER_THREADS * walkers, walkers


@dataclass(frozen=True, kw_only=True)
class KernelCost:
    """Cost per element of one logical operation in one phase; ``saved`` bytes per element stay for backward.

    ``reduced``: what of ``stream`` kernels move that go over each row more than once; ``column``: that sum over rows;
    ``rows``: rows that norms take, as ``norm_rows`` counts them; ``walked``: elements that ``walkers`` blocks walk for
    the gradient of a norm's weights; ``gelus``: what is computed, in GELUs; ``chained``: bytes per
    element of each tensor that has just been written, and kernels that read one. ``then``: the name and cost of what
    runs behind in the same phase, where it is bound by something else.
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
    launches: float = 1.0
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
            stream=44, mixed=2, strided=1, slow_bytes=26, chained=((4, 5), (2, 1)), launches=9, flops=8, saved=16
        )
        return forward, KernelCost(stream=102, mixed=1, slow_bytes=10, chained=((4, 10), (2, 3)), launches=14, flops=14)
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
            KernelCost(mixed=1, slow_bytes=10, flops=1),
            KernelCost(stream=18, chained=((4, 2),), launches=2, flops=1),
        )
    else:
        one = KernelCost(stream=3 * n.residual, chained=() if d.fused else ((n.residual, 1),), flops=1)
        both = one, one
    return _dropped(d, both, width=n.compute, keeps_output=False)


def softmax(d: RankSizes, keys: Number) -> tuple[KernelCost, KernelCost]:
    """Scale, mask, softmax over rows of ``keys`` and dropout of the score matrix, per score."""
    n = d.widths
    # Where dropout follows, what it leaves is cast and kept, not the cast of what it takes.
    cast = 0 if d.training.dropout and not d.model.clamped_scores else 2
    # Of 16 bits, under autocast as without.
    backward = KernelCost(
        stream=24 + 6 + 4, reduced=12, strided=1, slow_bytes=6, chained=((4, 3), (2, 1)), launches=5, flops=6
    )
    if d.fused:
        e = n.compute
        both = (
            KernelCost(stream=2 * e, flops=8, saved=e),
            KernelCost(stream=3 * e, flops=6),
        )
    elif n.compute == 4:
        # Scale, mask (broadcast over heads), softmax; backward multiplies by the output first.
        forward = KernelCost(
            stream=16, reduced=8, strided=1, slow_bytes=8, chained=((4, 1),), launches=3, flops=8, saved=4
        )
        both = forward, KernelCost(stream=32, reduced=12, chained=((4, 3),), launches=3, flops=6)
    elif n.autocast:
        forward = KernelCost(
            stream=4 + 8 + 6,
            reduced=8,
            mixed=1,
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
            reduced=8,
            strided=2,
            slow_bytes=10,
            chained=((4, 1), (2, 1)),
            launches=5,
            flops=8,
            saved=4 + cast,
        )
        both = forward, backward
    if not d.fused:
        whole, gelus = both[0], gelus_of_rows(keys, SOFTMAX_GELUS)
        others = replace(whole, stream=whole.stream - 8, reduced=0, launches=whole.launches - 1, saved=0, flops=0)
        own = KernelCost(stream=8, reduced=8, chained=((4, 1),), flops=whole.flops, saved=whole.saved, gelus=gelus)
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


PERSISTENT_ROW_BYTES = 49_024
"""The gradient's row up to this size stays in shared memory: it is read once. PyTorch's choice on CUDA devices:
sharedMemPerBlock, 48 KiB without asking for more, less the warps' 128 bytes (aten/src/ATen/native/cuda/SoftMax.cu)."""

SHORT_ROW_BYTES, LONG_ROW_BYTES, LONG_ROW_READS = 40_960, 204_800, 3.3
"""A block of softmax keeps its row in shared memory; the longer the row, the fewer blocks an SM has at once, and the
less of its loads they hide, until from the second on every row is read again."""


def softmax_reads(row_bytes: Number) -> tuple[Number, Number]:
    """How many tensors softmax and its gradient read, forward and backward, by the size of a row, or how long as many.

    A row that does not stay on the chip is read for its maximum, its sum and its result; in backward the gradient is
    read for its sum, then gradient and output (aten/src/ATen/native/cuda/SoftMax.cu). Forward on H200, bf16 and fp32,
    67 M elements: rows of 64, 128 and 200 KB take as long as 1.7, 2.3 and 3.3 reads, longer ones 3.1 to 3.5.
    """
    longer = minimum(row_bytes / LONG_ROW_BYTES, 1.0) * (LONG_ROW_READS - 1.0)
    return where(row_bytes <= SHORT_ROW_BYTES, 1.0, 1.0 + longer), where(row_bytes <= PERSISTENT_ROW_BYTES, 2.0, 3.0)


SOFTMAX_GELUS = ((1024, 1.2), (2048, 1.6), (10_240, 2.5), (math.inf, 1.2))
"""GELUs for each element of softmax, by the longest row: of a warp, of a warp with twice the registers, of a block that
holds the row in registers, of one that holds it in shared memory. H200, bf16 and fp32, 67 M elements (torch 2.11)."""

SOFTMAX_GRADIENT_GELUS = ((1500, 1.5), (math.inf, 0.0))
"""The same of its gradient: 1.3 to 1.9 in bf16; of longer rows memory hides it."""


def gelus_of_rows(length: Number, table: tuple[tuple[float, float], ...]) -> Number:
    """GELUs for each element of rows so long."""
    found: Number = table[-1][1]
    for longest, gelus in reversed(table[:-1]):
        found = where(length <= longest, gelus, found)
    return found


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
    pieces: list[tuple[str, str, KernelCost]] = []
    for called, phase, cost in ((name, "forward", forward), (f"{name} gradient", "backward", backward)):
        pieces.append((called, phase, cost))
        if cost.then:
            pieces.append((f"{called}: {cost.then[0]}", phase, cost.then[1]))
    return [
        kernels(called, layer, phase, elements=elements, stream=cost.stream, reduced=cost.reduced, column=cost.column,
                strided=cost.strided, mixed=cost.mixed, slow_bytes=cost.slow_bytes, rows=cost.rows, walked=cost.walked,
                walkers=cost.walkers, gelus=cost.gelus, launches=cost.launches * times,
                chained=parted(cost.chained, times),
                saved_bytes=cost.saved * elements, flops_per_element=cost.flops, category=category)
        for called, phase, cost in pieces
    ]  # fmt: skip
