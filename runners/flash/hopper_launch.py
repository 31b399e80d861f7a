"""Launching the Hopper kernels: which tensors they take, the matrices in which those lie, and the order of blocks."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from triton.experimental.gluon.language import NVMMASharedLayout, bfloat16, float16, float32
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from runners.flash import hopper_backward, hopper_forward, triton_backward

LOG2_E = math.log2(math.e)
BLOCK = 128
DIMS = (64, 128)
STAGES = 2
REGISTERS = 168
"""Per thread at launch: 65 536 over three warp groups; the feeding one then gives most of its own to the others."""

HEADS_BYTES = 24_000_000
"""Keys and values of the heads worked on at a time: half of the 50 MB of L2 cache of H100 and H200."""

LINE = NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=1)
ELEMENTS = {torch.bfloat16: bfloat16, torch.float16: float16, torch.float32: float32}


class Place(NamedTuple):
    """Where (item, head, row, column) of a tensor lies in a matrix whose rows are ``stride`` elements apart.

    It is at row item·batch + head·head_rows + row and column head·head_columns + column.
    """

    batch: int
    head_rows: int
    head_columns: int
    stride: int
    shape: tuple[int, int]


def place(x: Tensor) -> Place | None:
    """The matrix of a (B, h, S, D) tensor, its heads one below the other or side by side; None where it is in none."""
    items, heads, length, dim = x.shape
    batch, head, row, column = x.stride()
    aligned = x.data_ptr() % 16 == 0 and row * x.element_size() % 16 == 0
    if column != 1 or row < dim or not aligned or (items > 1 and batch % row):
        return None
    if head % row == 0 or heads == 1:
        below = head // row if heads > 1 else 0
        rows = (items - 1) * (batch // row) + (heads - 1) * below + length
        return Place(batch // row, below, 0, row, (rows, dim))
    if head * heads <= row and head * x.element_size() % 16 == 0:
        return Place(batch // row, 0, head, row, ((items - 1) * (batch // row) + length, (heads - 1) * head + dim))
    return None


def takes(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether these tensors, on a device of compute capability 9.0, are what the kernels are written for."""
    return (
        q.dtype in (torch.bfloat16, torch.float16)
        and q.shape[-1] in DIMS
        and all(x.shape[2] % BLOCK == 0 and place(x) is not None for x in (q, k, v))
    )


def forward(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """As ``runners.flash.triton_launch.forward``, for tensors that ``takes`` accepts."""
    items, heads, length, dim = q.shape
    out = torch.empty_like(q)
    lse = torch.empty((items, heads, length), dtype=torch.float32, device=q.device)
    blocks = length // BLOCK * items * heads
    # where all blocks are equally long, programs that stay fetch the next one's tiles while they finish this one
    programs = blocks if causal else min(blocks, torch.cuda.get_device_properties(q.device).multi_processor_count)
    hopper_forward.flash_forward_hopper[(programs,)](
        _tiles(q, 64), _tiles(k, BLOCK), _tiles(v, BLOCK), _tiles(out, 64), lse, scale * LOG2_E,
        *_places(q, k, v, out), length, k.shape[2], heads, heads // k.shape[1], items * heads,
        _heads_at_once(items * heads, k.shape[2], dim),
        CAUSAL=causal, STAGES=STAGES, TAKE_TURNS=causal and dim == 64, num_warps=4, maxnreg=REGISTERS,
    )  # fmt: skip
    return out, lse


def backward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, dout: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """As ``runners.flash.triton_launch.backward``; dQ is added up in fp32 and rounded once."""
    items, heads, length, dim = q.shape
    groups = heads // k.shape[1]
    dout = dout if place(dout) else dout.contiguous()
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    delta = torch.empty_like(lse)
    triton_backward.flash_preprocess[(length // 64 * items * heads,)](
        out, dout, delta, *out.stride()[:3], *dout.stride()[:3], heads, length, dim, BLOCK_Q=64, DIM=dim
    )
    summed = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    rows = 64 if dim == 128 else 128  # a wider tile leaves too few registers for longer ones
    hopper_backward.flash_backward_hopper[(k.shape[2] // BLOCK * items * k.shape[1],)](
        _tiles(q, rows), _tiles(dout, rows), _tiles(k, BLOCK), _tiles(v, BLOCK), _line(lse, rows), _line(delta, rows),
        _tiles(summed, rows), _tiles(dk, BLOCK), _tiles(dv, BLOCK), scale * LOG2_E, scale,
        *_places(q, dout, k, v, dk, dv), length, k.shape[2], heads, groups, items * k.shape[1],
        _heads_at_once(items * k.shape[1], length * groups, dim),
        CAUSAL=causal, STAGES=STAGES, num_warps=8, maxnreg=REGISTERS,
    )  # fmt: skip
    dq = torch.empty_like(q)
    torch.mul(summed, scale, out=dq)
    return dq, dk, dv


def _places(*tensors: Tensor) -> list[int]:
    return [number for x in tensors for number in _place(x)[:3]]


def _place(x: Tensor) -> Place:
    found = place(x)
    assert found is not None, "callers ask takes() first"
    return found


def _tiles(x: Tensor, rows: int) -> TensorDescriptor:
    at, dim = _place(x), x.shape[-1]
    return TensorDescriptor(x, list(at.shape), [at.stride, 1], [rows, dim], _layout(rows, dim, x.dtype))


def _line(x: Tensor, count: int) -> TensorDescriptor:
    return TensorDescriptor(x, [x.numel()], [1], [count], LINE)


@cache
def _layout(rows: int, dim: int, dtype: torch.dtype) -> NVMMASharedLayout:
    return NVMMASharedLayout.get_default_for([rows, dim], ELEMENTS[dtype])


def _heads_at_once(heads: int, length: int, dim: int) -> int:
    """As many heads as fit: two tensors of ``length`` rows each, two bytes per element."""
    return max(1, min(heads, HEADS_BYTES // (length * dim * 4)))
