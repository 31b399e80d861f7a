"""Tile sizes of the flash kernels, chosen by measurement on one NVIDIA H200 (benchmarks/flash.py prints the sweep)."""

from __future__ import annotations

from dataclasses import dataclass, replace

WIDEST = 256
"""Largest head dimension: wider tiles leave no room for a block of scores beside them."""


@dataclass(frozen=True, kw_only=True)
class Tile:
    """How one program works: queries and keys per block, warps, and tiles in flight."""

    block_q: int
    block_k: int
    warps: int
    stages: int


def padded(dim: int) -> int:
    """Columns of a tile that holds ``dim`` of them: the next power of two, at least the 16 that products need."""
    return max(16, 1 << (dim - 1).bit_length())


def forward_tile(dim: int, element_bytes: int) -> Tile:
    """Tile of the forward by head dimension and bytes per element."""
    if element_bytes == 2:
        if dim <= 64:
            return Tile(block_q=128, block_k=64, warps=4, stages=3)
        if dim <= 128:
            return Tile(block_q=128, block_k=64, warps=8, stages=3)
        return Tile(block_q=128, block_k=64, warps=8, stages=2)
    if dim <= 64:
        return Tile(block_q=64, block_k=32, warps=4, stages=2)
    return Tile(block_q=64, block_k=32, warps=8, stages=2 if dim <= 128 else 1)


def backward_tile(dim: int, element_bytes: int) -> Tile:
    """Tile of both kernels of the backward."""
    if element_bytes == 2:
        return Tile(block_q=64, block_k=64, warps=4 if dim <= 128 else 8, stages=2 if dim <= 128 else 1)
    if dim <= 64:
        return Tile(block_q=32, block_k=64, warps=4, stages=2)
    return Tile(block_q=32, block_k=32 if dim > 128 else 64, warps=8, stages=1)


def smaller(tile: Tile) -> Tile | None:
    """The next tile to try where one needs more shared memory than the device has; None behind the last."""
    if tile.stages > 1:
        return replace(tile, stages=tile.stages - 1)
    if max(tile.block_q, tile.block_k) > 16:
        larger = "block_q" if tile.block_q >= tile.block_k else "block_k"
        return replace(tile, **{larger: getattr(tile, larger) // 2})
    return None
