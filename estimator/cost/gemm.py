"""Matrix products: whole tiles in whole waves over the compute units, or memory, whichever binds."""

from __future__ import annotations

from functools import lru_cache

from estimator.cost.efficiency import Tiles
from estimator.scenario.arrays import ceil_div, maximum, minimum
from estimator.scenario.units import Number


def gemm_s(
    *,
    batch: Number,
    m: Number,
    n: Number,
    k: Number,
    bytes: Number,
    flops_per_s: float,
    compute_units: float,
    memory_bytes_per_s: float,
    start_s: float,
    tiles: Tiles,
    split_factor: float,
    overlap_power: float,
) -> Number:
    """Time of ``batch`` products (m × k)·(k × n).

    t = start + ((waves · tile)^p + (bytes / bandwidth)^p)^(1/p), where waves = ceil(tiles / units), one tile takes
    2·tm·tn·k / (unit's share of the reachable FLOP/s), and the library picks the tile that finishes first; no product
    takes longer than ``split_factor`` times what it would at that rate, as idle units then share k. ``overlap_power``
    is p: the result is written while the unit waits, so compute and memory overlap in part; infinity would be a plain
    maximum.
    """
    compute = _compute_s(batch, m, n, k, flops_per_s, compute_units, start_s, tiles, split_factor)
    memory = bytes / memory_bytes_per_s
    return start_s + (compute**overlap_power + memory**overlap_power) ** (1.0 / overlap_power)


def _tiled_s(
    batch: Number, m: Number, n: Number, k: Number, flops_per_s: float, compute_units: float, start_s: float,
    tiles: Tiles, split_factor: float,
) -> Number:  # fmt: skip
    unit_flops_per_s = flops_per_s / compute_units
    best: Number | None = None
    for rows, columns, rate in tiles.tiles:
        count = batch * minimum(ceil_div(m, rows) * ceil_div(n, columns), ceil_div(m, columns) * ceil_div(n, rows))
        waves = ceil_div(count, compute_units)
        time = waves * (2.0 * rows * columns * k / (unit_flops_per_s * rate))
        best = time if best is None else minimum(best, time)
    assert best is not None
    # Splitting k over idle units helps long, narrow products; it cannot beat the reachable rate itself.
    floor = 2.0 * batch * m * n * k / flops_per_s
    return maximum(minimum(best, split_factor * floor + start_s), floor)


_cached_tiled_s = lru_cache(maxsize=1 << 16)(_tiled_s)


def _compute_s(
    batch: Number, m: Number, n: Number, k: Number, flops_per_s: float, compute_units: float, start_s: float,
    tiles: Tiles, split_factor: float,
) -> Number:  # fmt: skip
    # A step repeats few shapes, and an interval reprices them all; arrays cannot be keys and go straight through.
    if all(isinstance(size, (int, float)) for size in (batch, m, n, k)):
        return _cached_tiled_s(batch, m, n, k, flops_per_s, compute_units, start_s, tiles, split_factor)  # type: ignore[arg-type]
    return _tiled_s(batch, m, n, k, flops_per_s, compute_units, start_s, tiles, split_factor)
