"""Tiles: every head dimension has one, and what is too large becomes smaller until nothing is left."""

from __future__ import annotations

import pytest

from runners.flash.tiles import WIDEST, Tile, backward_tile, forward_tile, padded, smaller


@pytest.mark.parametrize("element_bytes", [2, 4])
def test_every_head_dimension_has_tiles(element_bytes):
    for dim in range(1, WIDEST + 1):
        width = padded(dim)
        assert width >= dim
        assert width & (width - 1) == 0
        for tile in (forward_tile(dim, element_bytes), backward_tile(dim, element_bytes)):
            assert tile.warps in (4, 8)
            assert min(tile.block_q, tile.block_k) >= 16


def test_a_tile_that_does_not_fit_shrinks_step_by_step():
    tile: Tile | None = Tile(block_q=64, block_k=32, warps=8, stages=2)
    seen = []
    while tile is not None:
        seen.append((tile.block_q, tile.block_k, tile.stages))
        tile = smaller(tile)
    assert seen == [(64, 32, 2), (64, 32, 1), (32, 32, 1), (16, 32, 1), (16, 16, 1)]
