"""Operands: how large the tensors of an op are, how they lie in memory, and what follows for one kernel over them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from estimator.operations.op import Chained, Op
from estimator.operations.torch_kernels import MASK_NARROW, MIXED_ALIKE, TURNED, mask_added, walked_dimensions
from estimator.scenario.aten_cost import element_bytes, torch_name
from estimator.scenario.breakdown import Category
from estimator.scenario.op_list import Operand
from estimator.scenario.units import Number

UNKNOWN_BYTES = 4
"""Bytes of an element whose type is unknown."""


def width(operand: Operand) -> float:
    """Bytes of one element."""
    return element_bytes(operand.dtype) or UNKNOWN_BYTES


def count(operand: Operand) -> int:
    """Elements as an op sees them."""
    return math.prod(operand.shape)


def size_and_type(operand: Operand) -> tuple[int, str]:
    """Elements and type: what of a tensor a list tells again where another call reads it, perhaps in another shape."""
    return count(operand), operand.dtype


def moved_bytes(operand: Operand) -> float:
    """Bytes that lie in memory behind an operand: what is expanded lies there once."""
    if operand.strides is None:
        return float(count(operand) * width(operand))
    held = math.prod(size for size, stride in zip(operand.shape, operand.strides, strict=True) if stride or not size)
    return float(held * width(operand))


def total_bytes(operands: Iterable[Operand]) -> float:
    """Bytes behind all of them."""
    return sum(map(moved_bytes, operands))


def broadcast(operands: Sequence[Operand]) -> tuple[int, ...]:
    """The shape that operands of an element-wise op have together; the largest one's where they do not fit."""
    sizes = [1] * max((len(one.shape) for one in operands), default=0)
    for one in operands:
        for index, size in enumerate(reversed(one.shape), 1):
            if size != 1 and sizes[-index] not in (1, size):
                return max((found.shape for found in operands), key=math.prod)
            if size != 1:
                sizes[-index] = size
    return tuple(sizes)


def layout(operand: Operand, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of the dimensions that are longer than one, where the operand fills memory without holes; else None.

    Operands with equal layouts are walked as one row, whatever their dimensions: contiguous, transposed alike,
    channels last.
    """
    if operand.shape != shape:
        if math.prod(operand.shape) != math.prod(shape):
            return None
        if tuple(n for n in operand.shape if n != 1) != tuple(n for n in shape if n != 1):
            return None
    strides = operand.strides
    if strides is None:
        strides = contiguous_strides(operand.shape)
    kept = [(stride, size) for size, stride in zip(operand.shape, strides, strict=True) if size != 1]
    expected = 1
    for stride, size in sorted(kept):
        if stride != expected:
            return None
        expected *= size
    return tuple(stride for stride, _ in kept)


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a tensor whose last dimension is next to itself."""
    found, step = [], 1
    for size in reversed(shape):
        found.append(step)
        step *= max(size, 1)
    return tuple(reversed(found))


def is_contiguous(operand: Operand) -> bool:
    """Whether elements lie in the order of their indices."""
    if operand.strides is None:
        return True
    return layout(operand, operand.shape) == layout(Operand(shape=operand.shape, dtype=operand.dtype), operand.shape)


def lie_alike(operands: Sequence[Operand], shape: tuple[int, ...]) -> bool:
    """Whether a kernel can walk all operands as one row."""
    first = layout(operands[0], shape)
    return first is not None and all(layout(one, shape) == first for one in operands[1:])


def elementwise(
    name: str, inputs: Sequence[Operand], outputs: Sequence[Operand], *, ignored: Sequence[str] = ()
) -> list[Op]:
    """One kernel over operands that broadcast together, as PyTorch's TensorIterator runs it.

    Alike in layout and type: vectorised, bound by bytes. Broadcast, strided or transposed: bound by elements. Of
    several types (but for those ``ignored``): by fewer elements still.
    """
    operands = [*inputs, *outputs]
    shape = broadcast(operands)
    elements = float(math.prod(shape))
    if not operands or elements == 0:
        return []
    moved = total_bytes(operands)
    types = {torch_name(one.dtype) for one in operands} - set(ignored)
    alike = lie_alike(operands, shape)
    mask = max((moved_bytes(one) for one in inputs if is_mask(one, shape)), default=0.0)
    if len(types) > 1:
        weighed = MIXED_ALIKE if alike else mask_added(mask)
        return [kernel(name, mixed=elements * weighed, moved=moved, flops=elements)]
    if alike:
        return [kernel(name, stream=moved, chained=just_written(inputs), flops=elements)]
    weighed = walked_dimensions(dimensions(operands, shape))
    if mask:
        weighed *= mask_added(mask) * (MASK_NARROW if max(map(width, operands)) <= NARROW_BYTES else 1.0)
    weighed = max(weighed, TURNED * turned(operands, shape))
    return [kernel(name, strided=elements * weighed, moved=moved, flops=elements)]


NARROW_BYTES = 2
LEAST_SCORES = 128
"""Longer squares than states of a state space or heads have are scores."""

SECTOR_BYTES = 32.0
"""What a GPU's caches fetch at once."""


def is_mask(one: Operand, shape: tuple[int, ...]) -> bool:
    """Whether it goes to the scores of all heads or sequences: as many queries as keys, and fewer of anything else."""
    square = len(one.shape) > 1 and one.shape[-2:] == shape[-2:] and shape[-1] == shape[-2] > LEAST_SCORES
    return square and math.prod(one.shape) < math.prod(shape)


def turned(operands: Sequence[Operand], shape: tuple[int, ...]) -> int:
    """How many operands step over whole sectors along the dimension that a kernel walks first."""
    steps, order = _walk(operands, shape)
    return sum(strides[order[0]] * width(one) >= SECTOR_BYTES for one, strides in zip(operands, steps, strict=True))


def just_written(inputs: Sequence[Operand]) -> Chained:
    """What a kernel reads that the one before has written: one of its largest inputs, as most have one such.

    The others come from long before: kept for backward, parameters, the stream that a block's output is added to.
    """
    largest = max(map(moved_bytes, inputs), default=0.0)
    return ((largest, 1.0),) if largest else ()


def dimensions(operands: Sequence[Operand], shape: tuple[int, ...]) -> int:
    """Dimensions of ``shape`` that are left once those are joined which every operand walks as one.

    Ordered and joined as TensorIterator does (aten/src/ATen/TensorIterator.cpp, ``reorder_dimensions``,
    ``coalesce_dimensions``).
    """
    steps, order = _walk(operands, shape)
    joins = sum(all(one[fast] * shape[fast] == one[slow] for one in steps) for fast, slow in pairwise(order))
    return len(order) - joins


def _walk(operands: Sequence[Operand], shape: tuple[int, ...]) -> tuple[list[tuple[int, ...]], list[int]]:
    """Strides of the operands along ``shape``, and its dimensions, the one that is walked first at the front."""
    steps = [_steps(one, len(shape)) for one in operands]
    order: list[int] = []
    for inner in reversed([index for index, size in enumerate(shape) if size != 1]):
        place = len(order)
        for at in range(len(order) - 1, -1, -1):
            outer_first = _comes_first(order[at], inner, steps)
            if outer_first is False:
                place = at
            elif outer_first:
                break
        order.insert(place, inner)
    return steps, order


def _steps(one: Operand, rank: int) -> tuple[int, ...]:
    """Strides along each of ``rank`` dimensions, 0 where an operand is broadcast."""
    strides = contiguous_strides(one.shape) if one.strides is None else one.strides
    own = tuple(0 if size == 1 else stride for size, stride in zip(one.shape, strides, strict=True))
    return (0,) * (rank - len(own)) + own


def _comes_first(one: int, other: int, steps: Sequence[tuple[int, ...]]) -> bool | None:
    """Whether the first operand that tells two dimensions apart steps less along the one; None where none does."""
    for strides in steps:
        if strides[one] and strides[other] and strides[one] != strides[other]:
            return strides[one] < strides[other]
    return None


def kernel(
    name: str,
    *,
    stream: Number = 0.0,
    reduced: Number = 0.0,
    column: Number = 0.0,
    strided: Number = 0.0,
    mixed: Number = 0.0,
    walked: Number = 0.0,
    walkers: Number = 1.0,
    load: str = "walk_load_s",
    rows: Number = 0.0,
    gelus: Number = 0.0,
    chained: Chained = (),
    efficiency: str = "",
    moved: Number | None = None,
    launches: Number = 1.0,
    flops: Number = 0.0,
    category: str = Category.ELEMENTWISE,
    chunk_bytes: Number = 0.0,
) -> Op:
    """Memory-bound kernels: bytes that stream, elements that pass slowly, bytes ``moved`` in all (else: streamed).

    ``reduced``: what of the streamed bytes goes over each row more than once; ``column``: what is summed over rows;
    ``walked``: elements that ``walkers`` blocks go over, one load after another, each as long as ``load`` says;
    ``rows``: what blocks take one at a time; ``gelus``: what is computed, in GELUs; ``chained``: as
    ``just_written`` says; ``efficiency``: the rate of strided elements, where it is a kernel's own.
    """
    return Op(
        name=name,
        layer="",
        phase="forward",
        category=category,
        chunk_bytes=chunk_bytes,
        kind="kernels",
        flops=flops,
        bytes=stream if moved is None else moved,
        stream_bytes=stream,
        reduced_bytes=reduced,
        column_bytes=column,
        strided_elements=strided,
        mixed_elements=mixed,
        walked_elements=walked,
        walkers=walkers,
        load=load,
        rows=rows,
        gelus=gelus,
        chained=chained,
        efficiency=efficiency,
        launches=launches,
    )
