"""Products: matrix products, grouped ones and convolutions, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Sequence

from estimator.operations.aten.operands import (
    count,
    elementwise,
    kernel,
    layout,
    moved_bytes,
    total_bytes,
    width,
)
from estimator.operations.op import WHOLE, Op, fetched_at_once, gemm
from estimator.scenario.aten_cost import convolution_flops, op_name, packed_elements, torch_name
from estimator.scenario.breakdown import Category
from estimator.scenario.op_list import Operand, Signature

PEAKS = {"bfloat16": "bf16", "float16": "fp16-amp", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8",
         "float4_e2m1fn_x2": "fp4", "float4_e2m1fn": "fp4"}  # fmt: skip
"""The precision at whose peak products of a type run; fp32 and all others on vector units, or tf32 where allowed."""


def precision(one: Operand, s: Signature) -> str:
    """The precision whose peak binds a product of this operand."""
    name = torch_name(one.dtype)
    return PEAKS.get(name, "tf32" if name == "float32" and s.arguments.get("tf32") else "fp32")


def product(
    s: Signature, first: Operand, second: Operand, *, batch: float, m: float, n: float, k: float,
    result: Operand | None, grouped: bool = False, outer: bool | None = None,
) -> list[Op]:  # fmt: skip
    """One kernel that multiplies ``batch`` (m × k)·(k × n)."""
    if batch * m * n == 0:
        return []
    if k == 0:
        return [kernel(name(s), stream=batch * m * n * width(first))]
    written = width(result) if result else width(first)
    fetched = min(fetched_of(first), fetched_of(second), fetched_at_once(int(n), written))
    return [
        gemm(
            name(s), "", "forward", m=m, n=n, k=k, batch=batch, element_bytes=width(first), output_bytes=written,
            precision=precision(first, s), fetched=fetched,
            outer=transposed(first) and not transposed(second) if outer is None else outer, grouped=grouped,
            turned=not transposed(first) and not transposed(second),
        )
    ]  # fmt: skip


def transposed(one: Operand) -> bool:
    """Whether the rows of a matrix lie across memory."""
    return one.strides is not None and len(one.strides) > 1 and one.strides[-2] < one.strides[-1]


def fetched_of(one: Operand) -> int:
    """Elements of a matrix that are fetched at once."""
    if len(one.shape) < 2:
        return WHOLE
    # The shorter stride runs along the row, the longer one from row to row.
    step = one.shape[-1] if one.strides is None else max(one.strides[-2:])
    return fetched_at_once(step, width(one))


def name(s: Signature) -> str:
    """The op's name without its namespace, as rows of an estimate show it."""
    return op_name(s.op)


def mm(s: Signature) -> list[Op]:
    """(m × k)·(k × n); mv and dot with one column."""
    first, second = s.inputs[:2]
    return _matrices(s, first, second)


def addmm(s: Signature) -> list[Op]:
    """bias + (m × k)·(k × n): a bias of one dimension is added in the product's kernel, a whole matrix is read."""
    bias, first, second = s.inputs[:3]
    ops = _matrices(s, first, second)
    if ops and len([size for size in bias.shape if size > 1]) > 1:
        ops[0].bytes += moved_bytes(bias)
    return ops


def matmul(s: Signature) -> list[Op]:
    """A product of any number of dimensions, as the mm or bmm that it becomes."""
    first, second = s.inputs[:2]
    if len(second.shape) <= 2:
        rows = math.prod(first.shape[:-1])
        columns = second.shape[-1] if len(second.shape) > 1 else 1
        return product(s, first, second, batch=1, m=rows, n=columns, k=first.shape[-1], result=_result(s))
    batch = math.prod(second.shape[:-2])
    per_product = count(first) / max(batch * first.shape[-1], 1)
    return product(
        s, first, second, batch=batch, m=per_product, n=second.shape[-1], k=first.shape[-1], result=_result(s)
    )


def linear(s: Signature) -> list[Op]:
    """x·Wᵀ + b, W (out × in)."""
    first, second = s.inputs[:2]
    rows = math.prod(first.shape[:-1])
    return product(s, first, second, batch=1, m=rows, n=second.shape[0], k=first.shape[-1], result=_result(s))


def bmm(s: Signature) -> list[Op]:
    """Products of equal shape, one for each index of the first dimension."""
    return _matrices(s, *s.inputs[:2])


def baddbmm(s: Signature) -> list[Op]:
    """The same, added to a tensor that is read once more (beta 0: not at all)."""
    added, first, second = s.inputs[:3]
    ops = _matrices(s, first, second)
    if ops and s.arguments.get("beta", 1) != 0:
        ops[0].bytes += moved_bytes(added)
    return ops


def by_shapes(s: Signature) -> list[Op]:
    """The product that an unknown op is whose kernels multiply: x·W or x·Wᵀ, 2·m·n·k FLOPs; none where sizes disagree.

    Its matrices are the two factors, and the result where it is handed in.
    """
    matrices = [one for one in s.inputs if len(one.shape) > 1]
    if s.arguments.get("category") != Category.MATMUL or not 2 <= len(matrices) <= 3:
        return []
    first, second = matrices[:2]
    rows, inner = math.prod(first.shape[:-1]), first.shape[-1]
    if len(second.shape) != 2 or first.dtype != second.dtype or inner not in second.shape:
        return []
    columns = second.shape[0] if second.shape[1] == inner else second.shape[1]
    result = matrices[2] if len(matrices) > 2 else None
    if result is not None and (math.prod(result.shape[:-1]), result.shape[-1]) != (rows, columns):
        return []
    return product(s, first, second, batch=1, m=rows, n=columns, k=inner, result=result)


def grouped_mm(s: Signature) -> list[Op]:
    """Products of groups whose sizes a tensor of offsets holds, taken as equally large, in one kernel."""
    first, second = s.inputs[:2]
    if len(first.shape) == 2 and len(second.shape) == 2:
        # Weight gradients: (m × tokens)·(tokens × n), tokens parted among the groups.
        groups = s.outputs[0].shape[0] if s.outputs else (s.inputs[-1].shape[0] if len(s.inputs) > 2 else 1)
        (m, tokens), n = first.shape, second.shape[1]
        return product(
            s, first, second, batch=groups, m=m, n=n, k=tokens / groups, result=_result(s), grouped=True, outer=True
        )
    if len(first.shape) == 2:
        (tokens, k), (groups, _, n) = first.shape, second.shape
        return product(
            s, first, second, batch=groups, m=tokens / groups, n=n, k=k, result=_result(s), grouped=True, outer=False
        )
    if len(second.shape) == 2:
        (groups, m, k), (_, tokens) = first.shape, second.shape
        return product(
            s, first, second, batch=groups, m=tokens / groups, n=m, k=k, result=_result(s), grouped=True, outer=False
        )
    return _matrices(s, first, second)


def _matrices(s: Signature, first: Operand, second: Operand) -> list[Op]:
    a, b = first.shape, second.shape
    if len(a) == 1:
        a = (1, *a)
    batch = math.prod(a[:-2])
    columns = b[-1] if len(b) > 1 else 1
    k = a[-1] * packed_elements(first.dtype)
    return product(s, first, second, batch=batch, m=a[-2], n=columns, k=k, result=_result(s))


def _result(s: Signature) -> Operand | None:
    return s.outputs[0] if s.outputs else None


def convolution(s: Signature) -> list[Op]:
    """An implicit product: output pixels × channels out × (channels in of a group · kernel).

    Matrix units want the channels next to each other: tensors that lie otherwise are copied before and after, but for
    windows of one pixel, which are plain products of rows of pixels, unless these begin anywhere (7 x 7). One channel a
    group (depthwise) is no product: its kernel is bound by elements.
    """
    entering, weight = s.inputs[:2]
    leaving = s.outputs[0] if s.outputs else entering
    ops = _implicit(s, entering, weight, leaving)
    if len(s.inputs) > 2 < len(leaving.shape):  # which torch adds behind cuDNN's kernel, a number for each channel
        bias = Operand(shape=(1, leaving.shape[1], *(1,) * (len(leaving.shape) - 2)), dtype=leaving.dtype)
        ops += elementwise("convolution bias", [leaving, bias], [leaving])
    return ops


def convolution_backward(s: Signature) -> list[Op]:
    """Gradients of input and weight, each a product as large as the forward's, and the bias's sum."""
    gradient, entering, weight = s.inputs[:3]
    mask = s.arguments.get("output_mask")
    if not (isinstance(mask, Sequence) and len(mask) == 3):
        shapes = [one.shape for one in s.outputs]
        mask = [not shapes or entering.shape in shapes, not shapes or weight.shape in shapes, len(shapes) > 2]
    ops: list[Op] = []
    for wanted, result in zip(mask[:2], (entering, weight), strict=True):
        if wanted:
            ops += _implicit(s, entering, weight, gradient, result=result)
    if mask[2]:
        ops.append(kernel("convolution bias gradient", stream=moved_bytes(gradient)))
    return ops


def _implicit(
    s: Signature, entering: Operand, weight: Operand, leaving: Operand, result: Operand | None = None
) -> list[Op]:
    if not count(leaving) or not count(weight) or len(weight.shape) < 3 or len(leaving.shape) < 3:
        return []
    transposed = bool(s.arguments.get("transposed"))
    pixels_of = entering if transposed else leaving
    groups = max(int(s.arguments.get("groups", 1) or 1), 1)
    if groups == 1 and not transposed:
        groups = max(entering.shape[1] // max(weight.shape[1], 1), 1)
    elements = math.prod(weight.shape[2:])
    flops = convolution_flops(pixels_of.shape, weight.shape)
    moved = total_bytes([entering, weight, leaving])
    if weight.shape[1] == 1 and groups > 1:
        # Depthwise: every output element reads its kernel's window from cache.
        return [kernel(name(s), strided=float(count(leaving)), moved=moved, flops=flops, category=Category.MATMUL)]
    op = gemm(
        name(s), "", "forward", batch=groups, m=count(pixels_of) / pixels_of.shape[1], n=weight.shape[0] / groups,
        k=weight.shape[1] * elements, element_bytes=width(entering), precision=precision(entering, s),
        fetched=fetched_at_once(weight.shape[1], width(entering)),
    )  # fmt: skip
    op.bytes, op.operand_bytes = moved, 0.0  # windows are fetched in pieces: nothing says that they come in time
    if result is weight:
        op.m, op.k = op.k, op.m
    ops = [op]
    steps = s.arguments.get("stride")
    windows = elements > 1 or (isinstance(steps, Sequence) and max(steps, default=1) > 1)
    if not windows and not (_channels_last(entering) and _channels_last(leaving)):
        # Rows of the plain product are an image's pixels: of 14 x 14 in 16 bits four lie at once as a unit wants them.
        pixels = fetched_at_once(math.prod(entering.shape[2:]), width(entering))
        op.fetched = min(op.fetched, pixels) if pixels > 1 else op.fetched
        small = math.prod(entering.shape[2:]) < TILE_PIXELS and op.fetched == WHOLE
        windows = pixels == 1 or (result is weight and small)
    if result is weight and (windows or _channels_last(entering)):
        op.outer = True  # channels lie next to each other, and sums run over pixels
    if op.precision != "fp32" and windows:
        ops += [
            kernel(
                "channels to the end",
                strided=count(one) * max(COPIED_CHANNELS / one.shape[1], 1.0),
                moved=2 * moved_bytes(one),
            )
            for one in (entering, weight, leaving)
            if not _channels_last(one)
        ]
    return ops


TILE_PIXELS = 256
"""Pixels of an image below which cuDNN takes the weight gradient of a plain product of pixels from channels at the end,
too (9.19 on an H200 in tf32: 7 x 7 and 14 x 14; 28 x 28 and 56 x 56 as they lie)."""


COPIED_CHANNELS = 15.0
"""Channels that copies of images with fewer take as long as: of blocks of 32 pixels most threads have none (three
channels take 1.4 ns a block on an H200, in 16 and in 32 bits, cuDNN 9.19; 32 channels 3 ns)."""


def _channels_last(one: Operand) -> bool:
    if one.strides is None or len(one.shape) < 3:
        return len(one.shape) >= 3 and math.prod(one.shape[2:]) == 1
    return layout(one, one.shape) is not None and (one.strides[1] == 1 or one.shape[1] == 1)
