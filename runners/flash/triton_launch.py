"""Launching the portable Triton kernels: tiles, strides and arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import triton
from torch import Tensor
from triton.runtime.errors import OutOfResources

from runners.flash import triton_backward, triton_forward
from runners.flash.tiles import Tile, backward_tile, forward_tile, padded, smaller

LOG2_E = math.log2(math.e)


def precision_of(dtype: torch.dtype) -> str:
    """Arithmetic of fp32 products: TF32 where torch's own setting allows it, else three of TF32 for one of fp32."""
    if dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest":
        return "tf32x3"
    return "tf32"


def forward(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float, tile: Tile | None = None
) -> tuple[Tensor, Tensor]:
    """Attention of (B, h, S, D) tensors and, by row, the logarithm of the softmax's denominator in base 2."""
    batch, heads, length, dim = q.shape
    out = torch.empty_like(q)
    lse = torch.empty((batch, heads, length), dtype=torch.float32, device=q.device)
    shape = (heads, heads // k.shape[1], length, k.shape[2], dim)

    def run(tile: Tile) -> None:
        triton_forward.flash_forward[(triton.cdiv(length, tile.block_q) * batch * heads,)](
            q, k, v, out, lse, scale * LOG2_E, *_strides(q, k, v, out), *shape,
            BLOCK_Q=tile.block_q, BLOCK_K=tile.block_k, DIM=padded(dim), CAUSAL=causal,
            WHOLE=_whole(tile, length, k.shape[2], dim), PRECISION=precision_of(q.dtype),
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip

    _fit(run, tile or forward_tile(dim, q.element_size()))
    return out, lse


def backward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, dout: Tensor, causal: bool, scale: float,
    tile: Tile | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of q, k and v from that of the output."""
    batch, heads, length, dim = q.shape
    dout = dout if dout.stride(-1) == 1 else dout.contiguous()
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    delta = torch.empty_like(lse)
    shape = (heads, heads // k.shape[1], length, k.shape[2], dim)
    rows = 64
    triton_backward.flash_preprocess[(triton.cdiv(length, rows) * batch * heads,)](
        out, dout, delta, *_strides(out, dout), heads, length, dim, BLOCK_Q=rows, DIM=padded(dim)
    )

    def run(tile: Tile) -> None:
        common: dict[str, Any] = {
            "DIM": padded(dim), "CAUSAL": causal, "WHOLE": _whole(tile, length, k.shape[2], dim),
            "PRECISION": precision_of(q.dtype), "num_warps": tile.warps, "num_stages": tile.stages,
        }  # fmt: skip
        triton_backward.flash_backward_keys[(triton.cdiv(k.shape[2], tile.block_k) * batch * k.shape[1],)](
            q, k, v, dout, lse, delta, dk, dv, scale * LOG2_E, scale, *_strides(q, k, v, dout, dk, dv), *shape,
            BLOCK_Q=tile.block_q, BLOCK_K=tile.block_k, **common,
        )  # fmt: skip
        # the other way round: what was the longer side of the tile now holds queries
        triton_backward.flash_backward_queries[(triton.cdiv(length, tile.block_k) * batch * heads,)](
            q, k, v, dout, lse, delta, dq, scale * LOG2_E, scale, *_strides(q, k, v, dout, dq), *shape,
            BLOCK_Q=tile.block_k, BLOCK_K=tile.block_q, **common,
        )  # fmt: skip

    _fit(run, tile or backward_tile(dim, q.element_size()))
    return dq, dk, dv


def _strides(*tensors: Tensor) -> list[int]:
    assert all(tensor.stride(3) == 1 for tensor in tensors)
    return [tensor.stride(axis) for tensor in tensors for axis in range(3)]


def _whole(tile: Tile, length: int, key_length: int, dim: int) -> bool:
    largest = max(tile.block_q, tile.block_k)
    return length % largest == 0 and key_length % largest == 0 and dim == padded(dim)


def _fit(run: Callable[[Tile], None], tile: Tile) -> None:
    """Run with the first tile that the device has room for."""
    while True:
        try:
            return run(tile)
        except OutOfResources:
            following = smaller(tile)
            if following is None:
                raise
            tile = following
