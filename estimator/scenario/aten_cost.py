"""FLOPs and bytes of an ATen op from the shapes and types of its inputs, measured or traced; stdlib only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from estimator.scenario.units import Number

Shapes = Sequence[Sequence[int]]

FACTORS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1, "mv": 0, "dot": 0}
"""Products, and how many inputs stand before the two factors."""

BY_LENGTH = ("_flash_attention_", "_efficient_attention_")
"""Attention ops whose tensors have the sequence before the heads."""

ELEMENT_BYTES: Mapping[str, float] = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex32": 4, "complex64": 8, "complex128": 16,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1, "float4_e2m1fn": 0.5,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1,
}  # fmt: skip
"""Bytes of one element, by dtype as torch prints it; its own float4_e2m1fn_x2 holds two numbers in one."""

PROFILED_TYPES = {
    "double": "float64", "float": "float32", "c10::half": "float16", "half": "float16", "c10::bfloat16": "bfloat16",
    "long": "int64", "long int": "int64", "int": "int32", "short": "int16", "short int": "int16",
    "signed char": "int8", "unsigned char": "uint8", "c10::float8_e4m3fn": "float8_e4m3fn",
    "c10::float8_e5m2": "float8_e5m2", "c10::float4_e2m1fn_x2": "float4_e2m1fn_x2",
}  # fmt: skip
"""The types of C++ as profilers write them, in lower case, and torch's own names for them."""


CAUSAL_AT = {
    "_scaled_dot_product_flash_attention": 4, "_scaled_dot_product_flash_attention_backward": 11,
    "_scaled_dot_product_efficient_attention": 6, "_scaled_dot_product_efficient_attention_backward": 11,
    "_scaled_dot_product_cudnn_attention": 6, "_scaled_dot_product_cudnn_attention_backward": 14,
    "_scaled_dot_product_flash_attention_for_cpu": 4, "_scaled_dot_product_flash_attention_for_cpu_backward": 7,
    "_scaled_dot_product_fused_attention_overrideable": 5, "_cudnn_attention_forward": 10,
    "_cudnn_attention_backward": 14, "_flash_attention_forward": 8, "_flash_attention_backward": 11,
    "_efficient_attention_forward": 9, "_efficient_attention_backward": 14,
}  # fmt: skip
"""Where each op of fused attention takes is_causal, or the mask's kind, of which 1 is the causal one."""

CAUSAL_FRAC = 0.5
"""Share of the square of scores that a causal kernel computes."""


def flops_of(op: str, shapes: Shapes, scalars: Sequence[str] = ()) -> float | None:
    """FLOPs of a matrix product (2·m·n·k) or of fused attention (4·B·h·S·S·D forward, 10·B·h·S·S·D backward).

    ``scalars``: arguments as a profiler writes them; attention that they call causal executes half of the square. None
    for all other ops.
    """
    name = plain(op)
    if name in FACTORS:
        first, second = _factors(name, shapes)
        if len(first) < 1 or len(second) < 1:
            return None
        columns = second[-1] if len(second) > 1 else 1
        return 2.0 * math.prod(first) * columns
    if is_attention(name):
        queries, keys = queries_and_keys(name, shapes)
        if queries is None or keys is None:
            return None
        batch, heads, length, dim = queries
        executed = CAUSAL_FRAC if is_causal(name, scalars) else 1.0
        return executed * float(attention_flops(batch * heads, length, keys[2], dim, dim, backward="backward" in name))
    return None


def bytes_of(op: str, shapes: Shapes, types: Sequence[str]) -> float | None:
    """Bytes that such an op must at least read and write once: both factors and the result; q, k, v and the result."""
    name = plain(op)
    if name in FACTORS:
        first, second = _factors(name, shapes)
        size = _element_bytes(types, FACTORS[name])
        if size is None or len(first) < 2 or len(second) < 2:
            return None
        return size * (math.prod(first) + math.prod(second) + math.prod(first[:-1]) * second[-1])
    if is_attention(name):
        queries, keys = queries_and_keys(name, shapes)
        size = _element_bytes(types, 1 if "backward" in name else 0)
        if queries is None or keys is None or size is None:
            return None
        passes = 2.0 if "backward" in name else 1.0
        return passes * size * (2.0 * math.prod(queries) + 2.0 * math.prod(keys))
    return None


def attention_flops(
    heads: Number, queries: Number, keys: Number, dim: Number, value_dim: Number, *, backward: bool
) -> Number:
    """2·S·S·(Dk + Dv) a head forward, 2·S·S·(3·Dk + 2·Dv) backward, the scores multiplied once more (Dao 2023)."""
    per_score = 3 * dim + 2 * value_dim if backward else dim + value_dim
    return 2.0 * heads * queries * keys * per_score


def convolution_flops(leaving: Sequence[int], weight: Sequence[int], passes: int = 1) -> float:
    """2 · output elements · inputs of one output (channels of a group · kernel), for each pass.

    ``leaving``: (N, channels out, …) of the forward's output, of which backward has the gradient; ``weight``: (channels
    out, channels in / groups, …).
    """
    return 2.0 * passes * math.prod(leaving) * math.prod(weight[1:])


def element_bytes(dtype: str) -> float | None:
    """Bytes of one element of a type, as torch or a profiler names it; None where it is unknown."""
    return ELEMENT_BYTES.get(torch_name(dtype))


def torch_name(dtype: str) -> str:
    """The name that torch prints for a type, whoever wrote it."""
    found = dtype.removeprefix("torch.")
    return PROFILED_TYPES.get(found.lower(), found)


def packed_elements(dtype: str) -> int:
    """Numbers that one element of a type holds: two of float4_e2m1fn_x2."""
    return 2 if torch_name(dtype).endswith("_x2") else 1


def plain(op: str) -> str:
    """The name without its namespace."""
    return op.rpartition("::")[2]


def op_name(op: str) -> str:
    """The name without its namespace and its overload: mul_ for aten::mul_.Tensor."""
    return plain(op).partition(".")[0]


def is_inductors(op: str) -> bool:
    """Whether it is a kernel that Inductor made in place of ops, called so in profiles: triton_poi_fused_add_0."""
    return op.startswith("triton_")


def is_causal(op: str, scalars: Sequence[str]) -> bool:
    """Whether an op of fused attention says that it is causal."""
    at = CAUSAL_AT.get(plain(op), len(scalars))
    return at < len(scalars) and scalars[at] in ("True", "1")


def is_attention(name: str) -> bool:
    """The ops that do the work; those that only choose among them or multiply with bmm would count twice."""
    return name.startswith(("_scaled_dot_product_", "_cudnn_attention_", *BY_LENGTH)) and "math" not in name


def queries_and_keys(name: str, shapes: Shapes) -> tuple[list[int] | None, list[int] | None]:
    """Shapes as (B, h, S, D); some inner ops have (B, S, h, D), and a backward's gradient stands first."""
    skip = 1 if "backward" in name else 0
    found = [list(shape) for shape in shapes[skip : skip + 2]]
    if len(found) < 2 or any(len(shape) != 4 for shape in found):
        return None, None
    if is_by_length(name):
        found = [[batch, heads, length, dim] for batch, length, heads, dim in found]
    return found[0], found[1]


def is_by_length(op: str) -> bool:
    """Whether attention has the sequence before the heads: flash and efficient kernels called themselves, packages'."""
    return plain(op).startswith((*BY_LENGTH, "_flash_attn_"))


def packed(shape: Sequence[int], longest: object) -> tuple[int, int]:
    """Sequences and tokens of each, of (B, S, h, D); of (tokens, h, D) as few as the ``longest`` length allows.

    Sequences of several lengths that lie one after another are recorded as their sum and the longest alone.
    """
    if len(shape) == 4:
        return shape[0], shape[1]
    tokens = shape[0] if len(shape) > 2 else 1
    if isinstance(longest, int) and 0 < longest < tokens:
        return -(-tokens // longest), longest
    return 1, tokens


def _factors(name: str, shapes: Shapes) -> tuple[Sequence[int], Sequence[int]]:
    skip = FACTORS[name]
    return (shapes[skip], shapes[skip + 1]) if len(shapes) > skip + 1 else ((), ())


def _element_bytes(types: Sequence[str], index: int) -> float | None:
    return element_bytes(types[index]) if index < len(types) else None
