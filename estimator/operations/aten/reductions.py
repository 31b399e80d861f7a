"""Reductions: sums, softmax, losses, norms and what runs along a dimension (scans, sorts), forward and backward."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from estimator.operations.aten.operands import (
    count,
    elementwise,
    is_contiguous,
    just_written,
    kernel,
    moved_bytes,
    total_bytes,
    width,
)
from estimator.operations.aten.products import name
from estimator.operations.op import Op
from estimator.operations.torch_kernels import (
    LAYER_NORM_ROWS,
    MASKED_GELUS,
    NORM_GRADIENT_ROWS,
    RMS_NORM_ROWS,
    RMS_NORM_TILE,
    SOFTMAX_GELUS,
    SOFTMAX_GRADIENT_GELUS,
    WARP,
    gelus_of_rows,
    norm_reads,
    norm_rows,
    norm_walk,
    softmax_again,
    softmax_reads,
    sum_rows,
)
from estimator.scenario.aten_cost import CAUSAL_FRAC, torch_name
from estimator.scenario.op_list import Operand, Signature
from estimator.scenario.units import Number

SUMS = (
    "all amax amin aminmax any argmax argmin count_nonzero cummax cummin cumprod cumsum dist equal linalg_vector_norm "
    "logcumsumexp logsumexp max mean median min mode mse_loss l1_loss smooth_l1_loss huber_loss "
    "binary_cross_entropy binary_cross_entropy_backward norm nansum prod renorm std std_mean sum trace var var_mean "
    "_local_scalar_dense soft_margin_loss kl_div"
)


def reduction(s: Signature) -> list[Op]:
    """One kernel that reads all and writes what is left; sums over rows leave their columns, sums of rows one each.

    A sum along a last dimension of one adds nothing up: its kernel goes from element to element.
    """
    moved = total_bytes(s.inputs) + total_bytes(s.outputs)
    column: float = 0.0
    rows: Number = 0.0
    if s.inputs and s.outputs:
        entering, leaving = s.inputs[0], s.outputs[0]
        if _leaves_rows(s) and _length(entering) == 1:
            return [kernel(name(s), strided=float(count(entering)), moved=moved)] if moved else []
        if _leaves_rows(s):
            rows = sum_rows(count(leaving), _length(entering))
        elif _leaves_columns(s):
            column = moved
    flops = float(sum(map(count, s.inputs)))
    # Sums over rows are limited by their columns.
    read = () if column else just_written(s.inputs)
    return [kernel(name(s), stream=moved, column=column, rows=rows, chained=read, flops=flops)] if moved else []


SUM_THREADS = 512
"""Threads of a block of torch's sums, over the columns that a thread takes (aten/src/ATen/native/cuda/Reduce.cuh)."""

UNIT_THREADS = 2048
"""Threads that an SM of V100, A100, H100 and B200 holds at once (CUDA C++ programming guide, compute capabilities)."""

LEAST_VALUES, MOST_VALUES = 16, 256
"""Values of a thread below which, and from which on, blocks share a column (there)."""


def staging_bytes(s: Signature, units: float) -> float:
    """Bytes in which blocks of ``units`` SMs hand their parts of a sum over rows to the last of them; 0 where one sums.

    4 · columns · blocks of a column · columns of a block, each column's place as wide as a whole block (Reduce.cuh,
    ``global_memory_size``).
    """
    entering, leaving = s.inputs[0], s.outputs[0]
    if not is_contiguous(entering) or not _leaves_columns(s):
        return 0.0
    columns = count(leaving)
    rows = count(entering) // columns
    inner = [size for size in leaving.shape if size > 1][-1]
    wide = next(size for size in (4, 2, 1) if inner % size == 0)
    threads = SUM_THREADS // wide
    across = _power_below(min(columns // wide, threads))
    high = min(_power_below(min(rows, threads)), threads // min(across, WARP))
    across = min(across, threads // high)
    values = -(-rows // high)
    grid = -(-columns // (wide * across))
    resident = int(units) * (UNIT_THREADS // (across * high))
    if values < MOST_VALUES or grid > resident:
        return 0.0
    shared = max(min(-(-resident // grid), -(-values // LEAST_VALUES)), -(-values // MOST_VALUES))
    return 4.0 * columns * shared * across * wide if shared > 1 else 0.0


def _power_below(number: int) -> int:
    return 1 << max(number.bit_length() - 1, 0)


def _leaves_rows(s: Signature) -> bool:
    """Whether a sum goes along rows and leaves one number of each, its dimension kept or not."""
    entering, leaving = s.inputs[0].shape, s.outputs[0].shape
    last = _summed(s) in (None, {len(entering) - 1})
    left = leaving in (entering[:-1], (*entering[:-1], 1))
    return last and len(entering) > 1 and left


def _leaves_columns(s: Signature) -> bool:
    """Whether a sum over rows, which are the outer dimensions, leaves what lies next to itself in memory."""
    entering, leaving = s.inputs[0], s.outputs[0]
    kept = tuple(size for size in leaving.shape if size > 1)
    places = [index for index, size in enumerate(entering.shape) if size > 1]
    sizes = tuple(entering.shape[index] for index in places)
    summed = _summed(s)
    outer = summed is None or summed.intersection(places) == set(places[: len(sizes) - len(kept)])
    return 0 < len(kept) < len(sizes) and sizes[-len(kept) :] == kept and outer and _last_is_next(entering)


def _summed(s: Signature) -> set[int] | None:
    """Dimensions that a sum goes over, counted from the first; None where its arguments name none."""
    dims = s.arguments.get("dim")
    rank = len(s.inputs[0].shape)
    if not isinstance(dims, list) or not dims or not rank or not all(isinstance(one, int) for one in dims):
        return None
    return {one % rank for one in dims}


def _last_is_next(one: Operand) -> bool:
    return one.strides is None or one.strides[-1] == 1


def row_bytes(one: Operand, dim: int) -> float:
    """Bytes of a row that softmax sums over."""
    return float(_length(one, dim) * width(one))


def _of_scores(one: Operand) -> bool:
    """Whether these are scores of as many queries as keys, which are masked as a decoder's (assumed)."""
    return len(one.shape) > 2 and one.shape[-1] == one.shape[-2]


def softmax(s: Signature) -> list[Op]:
    """Softmax or its logarithm: one kernel, which reads what does not stay on the chip three times.

    The logarithm is a loss's, whose rows are too long to be gone over again.
    """
    entering = s.inputs[0]
    leaving = s.outputs[0] if s.outputs else entering
    gelus = gelus_of_rows(_length(entering, _dimension(s)), SOFTMAX_GELUS)
    reads, _ = softmax_reads(row_bytes(entering, _dimension(s)))
    moved = reads * moved_bytes(entering) + moved_bytes(leaving)
    again, _ = softmax_again(_length(entering, _dimension(s)))
    reduced = 0.0 if "log" in s.op else again * moved_bytes(entering)
    safe = name(s) == "_safe_softmax"
    gelus += MASKED_GELUS * (1.0 - CAUSAL_FRAC) * (safe or _of_scores(entering))
    own = kernel(name(s), stream=moved, reduced=reduced, chained=just_written([entering]),
                 flops=5.0 * count(entering), gelus=gelus * count(entering))  # fmt: skip
    if not moved:
        return []
    if not safe:
        return [own]
    # Which rows are masked whole: −∞ or not by element, all of a row, and zeros in such a row's stead.
    flags = count(entering)
    chosen = kernel(name(s), strided=flags, moved=moved_bytes(entering) + moved_bytes(leaving))
    return [own, kernel(name(s), stream=moved_bytes(entering) + 2.0 * flags, launches=2), chosen]


def log_softmax_backward(s: Signature) -> list[Op]:
    """grad − exp(output)·Σ grad: one kernel; of rows that do not stay on the chip the gradient is read twice."""
    gradient, output = s.inputs[:2]
    leaving = s.outputs[0] if s.outputs else output
    _, reads = softmax_reads(row_bytes(gradient, _dimension(s)))
    moved = (reads - 1.0) * moved_bytes(gradient) + moved_bytes(output) + moved_bytes(leaving)
    gelus = gelus_of_rows(_length(gradient, _dimension(s)), SOFTMAX_GRADIENT_GELUS)
    return [kernel(name(s), stream=moved, chained=just_written([gradient]), flops=3.0 * count(output),
                   gelus=gelus * count(output))] if moved else []  # fmt: skip


def softmax_backward(s: Signature) -> list[Op]:
    """The gradient times the output, kept in memory, then output·(that − its sum): two kernels."""
    gradient, output = s.inputs[:2]
    product = kernel(name(s), stream=2 * moved_bytes(gradient) + moved_bytes(output),
                     chained=just_written([gradient]), flops=float(count(output)))  # fmt: skip
    sums = log_softmax_backward(s)
    for op in sums:
        op.reduced_bytes = softmax_again(_length(gradient, _dimension(s)))[1] * moved_bytes(gradient)
    return [product, *sums] if count(output) else []


def _dimension(s: Signature) -> int:
    dim = s.arguments.get("dim", -1)
    rank = len(s.inputs[0].shape)
    return dim if isinstance(dim, int) and -rank <= dim < rank else -1


def nll_loss(s: Signature) -> list[Op]:
    """One block picks a number of every row and sums them: bound by the rows that one block can walk."""
    return [kernel(name(s), strided=float(s.inputs[0].shape[0] if s.inputs[0].shape else 1), moved=8.0)]


def nll_loss_backward(s: Signature) -> list[Op]:
    """A gradient of zeros, and one number set in every row."""
    entering = max(s.inputs, key=count)
    moved = moved_bytes(entering)
    return [kernel(f"{name(s)} fill", stream=moved), kernel(name(s))] if moved else []


def norm(s: Signature) -> list[Op]:
    """Layer norm or RMS norm in one kernel, read and written once: it goes over each row more than once."""
    entering = s.inputs[0]
    leaving = s.outputs[0] if s.outputs else entering
    moved = moved_bytes(entering) + moved_bytes(leaving)
    length = _length(entering)
    rows = norm_rows(count(entering) / length, length, RMS_NORM_ROWS if "rms" in s.op else LAYER_NORM_ROWS)
    own = kernel(name(s), stream=moved, reduced=moved, rows=rows, chained=just_written([entering]),
                 flops=7.0 * count(entering))  # fmt: skip
    return [*_laid_out(s, entering), own] if moved else []


def _laid_out(s: Signature, entering: Operand) -> list[Op]:
    """The copy that torch's layer norm makes of what it is given, both ways, where that is not contiguous."""
    if "layer_norm" not in s.op or is_contiguous(entering):
        return []
    return elementwise(f"{name(s)}: contiguous", [entering], [replace(entering, strides=None)])


def norm_backward(s: Signature) -> list[Op]:
    """Gradient of the input, and of weight and bias in a kernel of their own where they are wanted."""
    gradient, entering = s.inputs[:2]
    both = moved_bytes(gradient) + moved_bytes(entering)
    if not count(entering):
        return []
    length = _length(entering)
    rows = count(entering) / length
    moved = norm_reads(both / rows) * both + moved_bytes(entering)
    ops = _laid_out(s, entering)
    ops += [kernel(name(s), stream=moved, reduced=moved, rows=norm_rows(rows, length, NORM_GRADIENT_ROWS),
                   chained=just_written([gradient]), flops=8.0 * count(entering))]  # fmt: skip
    if len(s.outputs) > 1 or (not s.outputs and len(s.inputs) > 4):
        walked, walkers = norm_walk(rows, length, RMS_NORM_TILE if "rms" in s.op else 1.0)
        ops.append(kernel(f"{name(s)}: weights", stream=both, walked=walked, walkers=walkers, load="norm_tile_s",
                          gelus=count(entering), flops=4.0 * count(entering)))  # fmt: skip
    return ops


def _length(one: Operand, dim: int = -1) -> int:
    """Elements of a row that is gone over together."""
    return max(one.shape[dim] if one.shape else 1, 1)


def group_norm(s: Signature) -> list[Op]:
    """Moments of every group, their factors, then the result: three kernels, the last one broadcasts.

    Moments are computed one element after another, in a block for each group.
    """
    entering = s.inputs[0]
    moved, elements = moved_bytes(entering), float(count(entering))
    if not moved:
        return []
    return [
        kernel(f"{name(s)}: moments", stream=moved, launches=2.0, gelus=MOMENT_GELUS * elements, flops=4 * elements),
        kernel(name(s), strided=elements, moved=2 * moved, flops=2 * elements),
    ]


def group_norm_backward(s: Signature) -> list[Op]:
    """Sums of every channel, their factors, the broadcast gradient of the input, and that of the weights.

    A block sums the pixels of an image's channel, 512 threads or, of fewer pixels, 32; then its warps meet. Weights'
    gradients go over the images, a thread for each channel (torch's group_norm_kernel.cu).
    """
    gradient, entering = s.inputs[:2]
    moved, elements = moved_bytes(gradient) + moved_bytes(entering), float(count(entering))
    if not moved:
        return []
    return [
        kernel(f"{name(s)}: sums", stream=moved, launches=4.0, flops=4 * elements, **_summed_by_blocks(entering)),
        kernel(name(s), strided=elements, moved=moved + moved_bytes(entering), flops=4 * elements),
        *_weights_over_images(s, entering),
    ]


MOMENT_GELUS = 1.7
"""GELUs that an element costs whose mean and squares are kept up to date: 2.2 to 2.5 ps an element, GELUs take 1.35
(H200, bf16, 192 to 960 channels of 28 x 28 and 56 x 56 in 32 groups)."""
BLOCK_THREADS, WARP_THREADS = 512, 32
MOST_IMAGES, CHANNEL_THREADS = 128, 256
"""Images up to which one thread sums a channel's gradients, of more a tile of threads does; and such threads of a block
(torch's group_norm_kernel.cu)."""
MEETINGS = 3
"""Loads that the two sums of a block's warps take as long as, of a single warp's one."""


def _summed_by_blocks(entering: Operand) -> dict[str, Any]:
    """What blocks of 512 threads, four on a unit, or of one warp, thirty-two on a unit, walk over."""
    pixels, blocks = math.prod(entering.shape[2:]), float(math.prod(entering.shape[:2]))
    whole = pixels >= BLOCK_THREADS
    threads, meetings = (BLOCK_THREADS, MEETINGS) if whole else (2 * WARP_THREADS, 1)  # twice as many on a unit
    loads = math.ceil(pixels / (BLOCK_THREADS if whole else WARP_THREADS)) + meetings
    return {"walked": blocks * loads * threads, "walkers": blocks, "load": "walk_load_plane_s"}


def _weights_over_images(s: Signature, entering: Operand) -> list[Op]:
    images, walkers = float(entering.shape[0]), float(math.ceil(entering.shape[1] / CHANNEL_THREADS))
    if images > MOST_IMAGES:
        return []
    return [kernel(f"{name(s)}: weights", walked=images * BLOCK_THREADS * walkers, walkers=walkers, launches=0.0)]


def batch_norm(s: Signature) -> list[Op]:
    """Statistics, then the result: the input is read twice; without training once.

    cuDNN has no batch norm of bf16; torch's own has one block walk over each channel, then takes element by element.
    cuDNN's has one block for each channel do it all.
    Where channels are last, they are columns.
    """
    entering = s.inputs[0]
    moved = moved_bytes(entering)
    if not moved:
        return []
    training = s.arguments.get("training", True) is not False and "no_training" not in s.op
    passes = 3.0 if training else 2.0
    if _without_cudnn(entering) and _walked(entering):
        elements = float(count(entering))
        result = kernel(name(s), strided=elements, moved=2 * moved, flops=2.0 * elements)
        if not training:
            return [result]
        walk = kernel(f"{name(s)}: statistics", stream=moved, walked=elements / _busy(entering),
                      walkers=float(entering.shape[1]), load="walk_load_plane_s", flops=4.0 * elements)  # fmt: skip
        return [walk, result]
    return [kernel(name(s), stream=passes * moved, column=passes * moved if _without_cudnn(entering) else 0.0,
                   flops=6.0 * count(entering), launches=2.0 if training else 1.0,
                   **_walked_by_cudnn(entering, 2.0 if training else 0.0))]  # fmt: skip


def batch_norm_backward(s: Signature) -> list[Op]:
    """Sums over gradient and input, then the gradient: both are read twice."""
    gradient, entering = (max(s.inputs, key=count),) * 2
    moved = 2 * (moved_bytes(gradient) + moved_bytes(entering)) + moved_bytes(entering)
    if moved and _without_cudnn(entering) and _walked(entering):
        elements = float(count(entering))
        return [kernel(name(s), stream=moved, walked=GRADIENT_LOADS * elements / _busy(entering),
                       walkers=float(entering.shape[1]), load="walk_load_plane_s", flops=8.0 * elements)]  # fmt: skip
    if not moved:
        return []
    column = moved if _without_cudnn(entering) else 0.0
    return [kernel(name(s), stream=moved, column=column, launches=2.0, flops=8.0 * count(entering),
                   **_walked_by_cudnn(entering, 4.0))]  # fmt: skip


def _walked_by_cudnn(entering: Operand, loads: float) -> dict[str, Any]:
    """What its one block for each channel goes over, ``loads`` of each value; nothing where channels are columns."""
    if not loads or not _walked(entering) or _without_cudnn(entering):
        return {}
    walkers = float(entering.shape[1])
    return {"walked": loads * count(entering), "walkers": walkers, "load": "walk_load_cudnn_s"}


GRADIENT_LOADS = 2.3
"""Loads, one after another, of torch's gradient of a batch norm for each that its statistics wait for: it goes over a
channel twice, with two loads under way together, and writes the second time (502 ns of each half where statistics take
432, the medians of 14 ResNets of bf16 on H100 and H200)."""


def _busy(entering: Operand) -> float:
    """Share of a block's places that a plane fills: its rows of threads are the least of these that hold it."""
    plane = math.prod(entering.shape[2:])
    row = next((threads for threads in (32, 64, 128, 256) if plane <= threads), 512)
    return plane / (math.ceil(plane / row) * row)


def _walked(entering: Operand) -> bool:
    """Whether the values of a channel lie together, in each image."""
    return len(entering.shape) > 2 and is_contiguous(entering)


def _without_cudnn(entering: Operand) -> bool:
    return torch_name(entering.dtype) == "bfloat16"


SORT_BITS = 8
"""Bits of a key that one pass of the radix sort moves."""


def sort(s: Signature) -> list[Op]:
    """Radix sort of keys with their places: one pass for every eight bits, a histogram before."""
    entering = s.inputs[0]
    pairs = count(entering) * (width(entering) + 8.0)
    times = math.ceil(width(entering) * 8 / SORT_BITS)
    return [kernel(name(s), stream=2 * times * pairs, launches=times + 3.0)] if pairs else []


def topk(s: Signature) -> list[Op]:
    """A radix select, which reads its row once for every few bits, and a sort of what was found."""
    entering = s.inputs[0]
    times = math.ceil(width(entering) * 8 / SORT_BITS) + 1
    moved = times * moved_bytes(entering) + total_bytes(s.outputs)
    return [kernel(name(s), stream=moved, launches=2.0)] if moved else []
