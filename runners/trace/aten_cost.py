"""FLOPs and bytes of an ATen op from the shapes and types of its inputs, as a profiler records them; stdlib only."""

from __future__ import annotations

import math
from collections.abc import Sequence

Shapes = Sequence[Sequence[int]]

FACTORS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1, "mv": 0, "dot": 0}
"""Products, and how many inputs stand before the two factors."""

BY_LENGTH = ("_flash_attention_", "_efficient_attention_")
"""Attention ops whose tensors have the sequence before the heads."""

ELEMENT_BYTES = {"double": 8, "float": 4, "c10::half": 2, "c10::bfloat16": 2, "half": 2, "bfloat16": 2, "long": 8}


def flops_of(op: str, shapes: Shapes) -> float | None:
    """FLOPs of a matrix product (2·m·n·k) or of fused attention (4·B·h·S·S·D forward, 10·B·h·S·S·D backward).

    Attention counts the full square, masked or not, as torch.utils.flop_counter does. None for all other ops.
    """
    name = _plain(op)
    if name in FACTORS:
        first, second = _factors(name, shapes)
        if len(first) < 1 or len(second) < 1:
            return None
        columns = second[-1] if len(second) > 1 else 1
        return 2.0 * math.prod(first) * columns
    if _is_attention(name):
        queries, keys = _queries_and_keys(name, shapes)
        if queries is None or keys is None:
            return None
        batch, heads, length, dim = queries
        return (10.0 if "backward" in name else 4.0) * batch * heads * length * keys[2] * dim
    return None


def bytes_of(op: str, shapes: Shapes, types: Sequence[str]) -> float | None:
    """Bytes that such an op must at least read and write once: both factors and the result; q, k, v and the result."""
    name = _plain(op)
    if name in FACTORS:
        first, second = _factors(name, shapes)
        size = _element_bytes(types, FACTORS[name])
        if size is None or len(first) < 2 or len(second) < 2:
            return None
        return size * (math.prod(first) + math.prod(second) + math.prod(first[:-1]) * second[-1])
    if _is_attention(name):
        queries, keys = _queries_and_keys(name, shapes)
        size = _element_bytes(types, 1 if "backward" in name else 0)
        if queries is None or keys is None or size is None:
            return None
        passes = 2.0 if "backward" in name else 1.0
        return passes * size * (2.0 * math.prod(queries) + 2.0 * math.prod(keys))
    return None


def _plain(op: str) -> str:
    return op.rpartition("::")[2]


def _factors(name: str, shapes: Shapes) -> tuple[Sequence[int], Sequence[int]]:
    skip = FACTORS[name]
    return (shapes[skip], shapes[skip + 1]) if len(shapes) > skip + 1 else ((), ())


def _is_attention(name: str) -> bool:
    """The ops that do the work; those that only choose among them or multiply with bmm would count twice."""
    return name.startswith(("_scaled_dot_product_", "_cudnn_attention_", *BY_LENGTH)) and "math" not in name


def _queries_and_keys(name: str, shapes: Shapes) -> tuple[list[int] | None, list[int] | None]:
    """Shapes as (B, h, S, D); some inner ops have (B, S, h, D), and a backward's gradient stands first."""
    skip = 1 if "backward" in name else 0
    found = [list(shape) for shape in shapes[skip : skip + 2]]
    if len(found) < 2 or any(len(shape) != 4 for shape in found):
        return None, None
    if name.startswith(BY_LENGTH):
        found = [[batch, heads, length, dim] for batch, length, heads, dim in found]
    return found[0], found[1]


def _element_bytes(types: Sequence[str], index: int) -> int | None:
    return ELEMENT_BYTES.get(types[index].lower()) if index < len(types) else None
