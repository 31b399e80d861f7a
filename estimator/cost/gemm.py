"""Matrix products: whole tiles in whole waves over the compute units, or memory, whichever binds."""

from __future__ import annotations

from functools import lru_cache

from estimator.cost.efficiency import Tiles
from estimator.scenario.arrays import ceil_div, largest, maximum, minimum, where
from estimator.scenario.units import Number


def gemm_s(
    *,
    batch: Number,
    m: Number,
    n: Number,
    k: Number,
    bytes: Number,
    waited_s: Number,
    flops_per_s: float,
    compute_units: float,
    memory_bytes_per_s: float,
    start_s: float,
    tiles: Tiles,
    split_factor: float,
    split_depth: float,
    fill_depth: float,
    overlap_power: float,
) -> Number:
    """Time of ``batch`` products (m × k)·(k × n).

    t = start + max(((waves · tile)^p + waited^p)^(1/p), bytes / bandwidth), where waves =
    ceil(s · tiles / units), one tile takes 2·tm·tn·(k + fill)/s / (unit's share of the reachable FLOP/s), and the
    library picks the tile that finishes first. ``fill_depth`` is what of k a unit could multiply until a tile's first
    operands have come; parts of k share it, each being deep beside it. Units may share k in s parts, each at least
    ``split_depth`` of it, and write s·m·n sums of four bytes (cuBLAS's split-K kernels). No product takes longer than
    ``split_factor`` times what it would at that rate. Operands are fetched for the next steps while the unit
    multiplies; ``waited_s`` are the seconds of what it waits for, the result above all. ``overlap_power`` is p: other
    tiles' products hide them in part; infinity would be a plain maximum. No product is faster than all its ``bytes``.
    """
    memory_and_splits = (memory_bytes_per_s, split_factor, split_depth, fill_depth)
    compute = _compute_s(batch, m, n, k, flops_per_s, compute_units, start_s, tiles, *memory_and_splits)
    together = (compute**overlap_power + waited_s**overlap_power) ** (1.0 / overlap_power)
    return start_s + maximum(together, bytes / memory_bytes_per_s)


GROUPED_TILE = 128, 256
"""Rows and columns of an output tile of the grouped kernel (aten/src/ATen/native/cuda/GroupMM.cu)."""


def grouped_s(
    *,
    groups: Number,
    m: Number,
    n: Number,
    k: Number,
    parts_rows: bool,
    bytes: Number,
    waited_bytes: Number,
    flops_per_s: float,
    compute_units: float,
    memory_bytes_per_s: float,
    start_s: float,
    tile_s: float,
    switch_s: float,
    overlap_power: float,
) -> Number:
    """Time of products of groups, m rows each in the mean, in one kernel: as ``gemm_s``, of one size of tile.

    A tile takes ``tile_s`` beside multiplying, and ``switch_s`` where it is of another group than the unit's last, as
    the unit has to find that group's operands: always in groups of fewer tiles than there are units. Groups that part
    the rows (``parts_rows``) end anywhere in one, half a tile too much in the mean.
    """
    rows, columns = GROUPED_TILE
    along = maximum(m / rows + 0.5, 1.0) if parts_rows else ceil_div(m, rows)
    tiles = along * ceil_div(n, columns)
    waves = ceil_div(groups * tiles, compute_units)
    beside_s = tile_s + switch_s * minimum(compute_units / tiles, 1.0)
    compute = waves * (2.0 * rows * columns * k / (flops_per_s / compute_units) + beside_s)
    waited = waited_bytes / memory_bytes_per_s
    together = (compute**overlap_power + waited**overlap_power) ** (1.0 / overlap_power)
    return start_s + maximum(together, bytes / memory_bytes_per_s)


SPLITS = (2, 3, 4, 5, 6, 7, 8, 12, 16, 32)
"""In how many parts k is shared (cuBLAS's split-K kernels), of which the library takes what finishes first."""


def _tiled_s(
    batch: Number, m: Number, n: Number, k: Number, flops_per_s: float, compute_units: float, start_s: float,
    tiles: Tiles, memory_bytes_per_s: float, split_factor: float, split_depth: float, fill_depth: float,
) -> Number:  # fmt: skip
    unit_flops_per_s = flops_per_s / compute_units
    along_m, along_n = ({side: ceil_div(size, side) for side in tiles.sides} for size in (m, n))
    best: Number | None = None
    for rows, columns, rate in tiles.tiles:
        count = batch * minimum(along_m[rows] * along_n[columns], along_m[columns] * along_n[rows])
        time: Number = ceil_div(count, compute_units) * (
            2.0 * rows * columns * (k + fill_depth) / (unit_flops_per_s * rate)
        )
        whole = time
        for parts in SPLITS:
            if largest(k) < parts * split_depth:
                break  # most products of a search are not as deep as two parts
            sums_s = 4.0 * parts * batch * m * n / memory_bytes_per_s
            split = ceil_div(count * parts, compute_units) / ceil_div(count, compute_units) * whole / parts + sums_s
            time = minimum(time, where(k >= parts * split_depth, split, time))
        best = time if best is None else minimum(best, time)
    assert best is not None
    floor = 2.0 * batch * m * n * (k + fill_depth) / flops_per_s
    return maximum(minimum(best, split_factor * floor + start_s), floor)


_cached_tiled_s = lru_cache(maxsize=1 << 16)(_tiled_s)


def _compute_s(
    batch: Number, m: Number, n: Number, k: Number, flops_per_s: float, compute_units: float, start_s: float,
    tiles: Tiles, *others: float,
) -> Number:  # fmt: skip
    # A step repeats few shapes, and an interval reprices them all; arrays cannot be keys and go straight through.
    if all(isinstance(size, (int, float)) for size in (batch, m, n, k)):
        return _cached_tiled_s(batch, m, n, k, flops_per_s, compute_units, start_s, tiles, *others)  # type: ignore[arg-type]
    return _tiled_s(batch, m, n, k, flops_per_s, compute_units, start_s, tiles, *others)
