"""Torch's kernels: what one does beside moving its bytes, by the shapes that it is given.

In units that efficiencies price: GELUs, rows of norms, loads of a walk, strided elements. Both ways to a step count by
these: the ops of a scenario and those of an op list.
"""

from __future__ import annotations

import math

from estimator.operations.op import WALKER_THREADS
from estimator.scenario.arrays import maximum, minimum, where
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

MASK_BYTES, MASK_AGAIN, MASK_NARROW, MIXED_ALIKE = 9e6, 0.2, 0.82, 0.8
"""What adding a mask to the scores of all heads takes more for each of them, as the mask comes from the last-level
cache, and of which size of it half as much; what it takes of 16 bits, in strided elements; and what adding two types of
one shape takes, in those of two types. 16 and 64 heads on H200: 1,024 tokens in fp32 2.9 ps, 2,048 and more 3.3, in
bf16 2.4 to 2.6, bf16 and an fp32 mask 4.7, 5.3 and 5.7; bf16 and fp32 of one shape 3.75
(tests/reference/h200_scores.json)."""

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


def mask_added(mask_bytes: Number) -> Number:
    """What a score takes that a mask of so many bytes is added to, which all heads share: 1 + 0.2·b / (b + 9 MB)."""
    return 1.0 + MASK_AGAIN * mask_bytes / (mask_bytes + MASK_BYTES)


def norm_reads(row_bytes: Number) -> Number:
    """How often the gradient of a norm's input reads a row from memory, which it goes over twice."""
    return 1.0 + minimum(maximum((row_bytes - HELD_BYTES) / (PASSED_BYTES - HELD_BYTES), 0.0), 1.0)


def norm_walk(rows: Number, width: Number, tile: float = 1.0) -> tuple[Number, Number]:
    """Elements that blocks walk, and blocks, for the gradient of a norm's weights: a load for each tile of a column."""
    walkers = maximum(width / TILE_COLUMNS, 1.0)
    return where(rows <= PARTED_ROWS, tile * rows / TILE_ROWS, 0.0) * WALKER_THREADS * walkers, walkers


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


WARP_ROW, BLOCK_AGAIN, BLOCK_GRADIENT_AGAIN = 1024, 2.0, 1.0
"""Elements of the longest row of softmax that a warp holds in its registers, and how often a block goes over a longer
one again: its threads meet for its maximum and for its sum, in backward for a sum alone
(aten/src/ATen/native/cuda/SoftMax.cu of torch 2.4, of which ``softmax_frac`` is; 2.10 has warps for 2,048 forward).
Alone on MI250 and fp32 rows of 512 and 1024 reach 1.05 of the rate of element-wise kernels, those of 2048 0.48; on V100
0.98 and 0.79, on P100 0.96 and 0.60 (sitar-lab/NeuSight, operators)."""


def softmax_again(length: Number) -> tuple[Number, Number]:
    """How often softmax and its gradient go over a row of so many elements again."""
    block = where(length <= WARP_ROW, 0.0, 1.0)
    return block * BLOCK_AGAIN, block * BLOCK_GRADIENT_AGAIN


SOFTMAX_GELUS = ((1024, 1.2), (2048, 1.6), (3500, 2.55), (6500, 2.25), (10_240, 3.0), (math.inf, 1.2))
"""GELUs for each element of softmax, by the longest row: of a warp, of a warp with twice the registers, of a block that
holds the row in registers, of one whose threads hold eight elements and more, of one that holds it in shared memory.
H200, bf16 and fp32, 67 M elements, and H100, 268 M (torch 2.11)."""

MASKED_GELUS = 0.7
"""GELUs more for each element of softmax that a mask leaves nothing of: a quotient of zero goes the division's slow
way. H200, bf16 and fp32, rows of 1,024 to 16,384, half of them masked: 0.6 ps an element longer, in steps as alone."""

SOFTMAX_GRADIENT_GELUS = ((1500, 1.5), (math.inf, 0.0))
"""The same of its gradient: 1.3 to 1.9 in bf16; of longer rows memory hides it."""


def gelus_of_rows(length: Number, table: tuple[tuple[float, float], ...]) -> Number:
    """GELUs for each element of rows so long."""
    found: Number = table[-1][1]
    for longest, gelus in reversed(table[:-1]):
        found = where(length <= longest, gelus, found)
    return found


FEW_INDICES = 3072
"""Up to so many tokens the gradient of an embedding is summed in one kernel, beyond them they are sorted first."""

SORTED_LAUNCHES, SORTED_PASSES = 20.0, 3.0
"""Kernels of a sorted embedding gradient (a radix sort of tokens and places, a count of what is unique, prefix sums),
and how often its sums walk the tokens' gradients at the pace of mixed types (profile of H200, torch 2.11)."""
