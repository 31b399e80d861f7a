"""Element-wise ops: arithmetic, casts and copies, fills and random numbers, dropout, concatenation."""

from __future__ import annotations

import math

from estimator.operations.aten.operands import (
    count,
    elementwise,
    is_contiguous,
    just_written,
    kernel,
    lie_alike,
    moved_bytes,
    total_bytes,
    turned,
    width,
)
from estimator.operations.aten.products import name
from estimator.operations.op import Op
from estimator.operations.torch_kernels import GELUS, TURNED
from estimator.scenario.aten_cost import torch_name
from estimator.scenario.breakdown import Category
from estimator.scenario.op_list import Operand, Signature

ARITHMETIC = (
    "abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not "
    "bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min clip conj_physical copysign cos "
    "cosh deg2rad digamma div elu elu_backward erf erfc erfinv exp exp2 expm1 floor floor_divide fmax fmin fmod frac "
    "gelu gelu_backward glu glu_backward glu_jvp hardshrink hardshrink_backward hardsigmoid hardsigmoid_backward "
    "hardswish hardswish_backward hardtanh hardtanh_backward huber_loss_backward hypot i0 l1_loss_backward leaky_relu "
    "leaky_relu_backward lerp lgamma log log10 log1p log2 log_sigmoid_backward log_sigmoid_forward logaddexp "
    "logaddexp2 logit logit_backward maximum minimum mish mish_backward mse_loss_backward mul nan_to_num neg "
    "nextafter polygamma pow prelu _prelu_kernel _prelu_kernel_backward rad2deg real imag reciprocal relu relu6 "
    "remainder round rrelu rrelu_with_noise rsqrt rsub sgn sigmoid sigmoid_backward sign silu silu_backward sin sinc "
    "sinh smooth_l1_loss_backward softplus softplus_backward softshrink softshrink_backward special_entr sqrt square "
    "sub tan tanh tanh_backward true_divide trunc view_as_complex xlogy"
)

CHOICES = (
    "eq ge gt isfinite isinf isnan isneginf isposinf le logical_and logical_not logical_or logical_xor lt ne where "
    "masked_fill masked_scale threshold threshold_backward native_dropout_backward _masked_scale signbit"
)
"""Ops that read or write truth values beside numbers, which is no mixture of types to their kernels."""

WRITES = (
    "arange bernoulli cauchy exponential eye fill full full_like geometric linspace log_normal logspace new_full "
    "new_ones new_zeros normal normal_functional ones ones_like rand rand_like randint randint_like randn randn_like "
    "random randperm scalar_tensor tril_indices triu_indices uniform zero zeros zeros_like"
)
"""Ops that write a tensor and read none."""

COPIES = (
    "_to_copy alias_copy clone contiguous copy detach_copy expand_copy permute_copy reshape_copy slice_copy "
    "transpose_copy view_copy flip roll rot90 repeat tile tril triu"
)


def arithmetic(s: Signature) -> list[Op]:
    """One kernel over all operands. A number of fp64 beside narrower ones is a Python scalar, passed by value."""
    ops = elementwise(name(s), *_operands(s))
    for op in ops:
        op.gelus = gelus_of(s) * op.flops
    return ops


def gelus_of(s: Signature) -> float:
    """How many GELUs one element of an op costs to compute, 0 where nothing is computed but a sum or product."""
    short = name(s).rstrip("_")
    if short.startswith("gelu") and s.arguments.get("approximate") == "tanh":
        short = short.replace("gelu", "gelu_tanh")
    return GELUS.get(short, 0.0)


def choice(s: Signature) -> list[Op]:
    """The same, where truth values are among the operands."""
    return elementwise(name(s), *_operands(s), ignored=("bool",))


def _operands(s: Signature) -> tuple[list[Operand], list[Operand]]:
    inputs = list(s.inputs)
    if any(len(one.shape) > 0 for one in inputs):
        inputs = [one for one in inputs if one.shape or one.dtype not in ("float64", "double")] or inputs
    return inputs, list(s.outputs) or inputs[:1]


def write(s: Signature) -> list[Op]:
    """A kernel that writes its output once; random numbers and ranges are bound by writing, too."""
    outputs = s.outputs or s.inputs[:1]
    moved = total_bytes(outputs)
    if moved == 0:
        return []
    if all(map(is_contiguous, outputs)) or any(lie_alike([one], one.shape) for one in outputs):
        return [kernel(name(s), stream=moved)]
    return [kernel(name(s), strided=float(sum(map(count, outputs))), moved=moved)]


def copy(s: Signature) -> list[Op]:
    """A copy or cast; from the host over the host's link.

    Alike in layout: memory moves at its bandwidth, and so do casts from fp32 to 16 bits. Casts to wider types run an
    unvectorised kernel, bound by elements, and so does what is expanded or strided; both together are slower still, and
    slowest what is turned.
    """
    if "direction" in s.arguments or not s.inputs:
        return transfer(s)
    target = s.outputs[0] if s.outputs else s.inputs[0]
    # copy_(self, source): what is written stands first.
    source = s.inputs[1] if name(s) in ("copy", "copy_") and len(s.inputs) > 1 else (s.inputs or (target,))[0]
    if count(target) == 0:
        return []
    moved = moved_bytes(source) + float(count(target) * width(target))
    elements = float(count(target))
    same = torch_name(source.dtype) == torch_name(target.dtype)
    if lie_alike([source, target], target.shape):
        narrows = torch_name(source.dtype) == "float32" and torch_name(target.dtype) in ("bfloat16", "float16")
        if same or narrows:
            return [kernel(name(s), stream=moved, chained=just_written([source]))]
        return [kernel(name(s), strided=elements, moved=moved)]
    across = TURNED * turned([target, source], target.shape)
    if same or across:
        return [kernel(name(s), strided=elements * max(across, 1.0), moved=moved)]
    return [kernel(name(s), mixed=elements, moved=moved)]


def transfer(s: Signature) -> list[Op]:
    """Bytes between host and device; a list of before says nothing of the host's memory, which is then pinned."""
    moved = total_bytes(s.outputs or s.inputs)
    if moved == 0:
        return []
    rate = "host_pageable_bytes_per_s" if s.arguments.get("host") == "pageable" else "host_link_frac"
    return [
        Op(name=name(s), layer="", phase="forward", category=Category.OTHER, kind="transfer", bytes=moved,
           efficiency=rate)
    ]  # fmt: skip


def padded(s: Signature) -> list[Op]:
    """A fill of the whole result and a strided copy into its part: padding, and the gradients of slices."""
    outputs = s.outputs or s.inputs[:1]
    inner = float(min(map(count, s.inputs), default=0))
    moved = total_bytes(outputs)
    if moved == 0:
        return []
    return [
        kernel(f"{name(s)} fill", stream=moved),
        kernel(name(s), strided=inner, moved=2 * total_bytes(s.inputs[:1])),
    ]


def dropout(s: Signature) -> list[Op]:
    """One kernel that draws, writes the mask of one byte an element, and what it leaves."""
    entering = s.inputs[0]
    moved = 2 * moved_bytes(entering) + (0 if len(s.outputs) == 1 else float(count(entering)))
    if not count(entering):
        return []
    return [kernel(name(s), stream=moved, chained=just_written([entering]), flops=float(count(entering)))]


CONCATENATED_TENSORS = 128
"""Tensors that one concatenating kernel takes."""


def concatenation(s: Signature) -> list[Op]:
    """One kernel for every 128 tensors; vectorised where all are contiguous, else bound by elements, and slowly."""
    parts = [one for one in s.inputs if count(one)]
    if not parts:
        return []
    moved = total_bytes(parts)
    written = total_bytes(s.outputs) if s.outputs else moved
    launches = float(math.ceil(len(parts) / CONCATENATED_TENSORS))
    if all(map(is_contiguous, parts)) and len({torch_name(one.dtype) for one in parts}) == 1:
        return [kernel(name(s), stream=moved + written, launches=launches)]
    elements = float(sum(map(count, parts)))
    return [kernel(name(s), mixed=elements, moved=moved + written, launches=launches)]


def parted(s: Signature) -> list[Op]:
    """One kernel that copies a tensor into several, or several chunks into one buffer (FSDP)."""
    moved = total_bytes(s.inputs) + total_bytes(s.outputs or s.inputs)
    return [kernel(name(s), stream=moved)] if moved else []
