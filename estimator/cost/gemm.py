"""Matrix products: whole tiles in whole waves over the compute units, or memory, whichever binds."""

from __future__ import annotations

from functools import lru_cache

from estimator.scenario.arrays import ceil_div, maximum, minimum
from estimator.scenario.units import Number

TILES: tuple[tuple[int, int, float], ...] = (
    (256, 128, 1.0),
    (320, 128, 1.0),
    (192, 192, 1.0),
    (256, 160, 1.0),
    (128, 128, 0.93),
    (256, 64, 0.8),
    (128, 64, 0.75),
    (64, 64, 0.5),
)
"""Output tiles that a library chooses from: rows, columns, and the rate of one unit on it relative to the best.
Smaller tiles re-read their operands more often. Relative rates fitted to 35 isolated bf16 products, 256³ to 8192³, on
one H200 SXM (torch 2.11, CUDA 13.0, CUDA-graph replays)."""

OVERLAP_POWER = 1.5
"""How product and memory time combine, (c^p + m^p)^(1/p): the result is written while the unit waits, so they overlap
only in part. From batched score products (k = 64 to 128) on the same H200; infinity would be a plain maximum."""


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
) -> Number:
    """Time of ``batch`` products (m × k)·(k × n).

    t = start + ((waves · tile)^p + (bytes / bandwidth)^p)^(1/p), where waves = ceil(tiles / units), one tile takes
    2·tm·tn·k / (unit's share of the reachable FLOP/s), and the library picks the tile that finishes first.
    """
    compute = _compute_s(batch, m, n, k, flops_per_s, compute_units, start_s)
    memory = bytes / memory_bytes_per_s
    return start_s + (compute**OVERLAP_POWER + memory**OVERLAP_POWER) ** (1.0 / OVERLAP_POWER)


def _tiled_s(
    batch: Number, m: Number, n: Number, k: Number, flops_per_s: float, compute_units: float, start_s: float
) -> Number:
    unit_flops_per_s = flops_per_s / compute_units
    best: Number | None = None
    for rows, columns, rate in TILES:
        tiles = batch * minimum(ceil_div(m, rows) * ceil_div(n, columns), ceil_div(m, columns) * ceil_div(n, rows))
        waves = ceil_div(tiles, compute_units)
        time = waves * (2.0 * rows * columns * k / (unit_flops_per_s * rate))
        best = time if best is None else minimum(best, time)
    assert best is not None
    # Splitting k over idle units helps long, narrow products; it cannot beat the reachable rate itself.
    floor = 2.0 * batch * m * n * k / flops_per_s
    return maximum(minimum(best, 1.5 * floor + start_s), floor)


_cached_tiled_s = lru_cache(maxsize=1 << 16)(_tiled_s)


def _compute_s(
    batch: Number, m: Number, n: Number, k: Number, flops_per_s: float, compute_units: float, start_s: float
) -> Number:
    # A step repeats few shapes, and an interval reprices them all; arrays cannot be keys and go straight through.
    if all(isinstance(size, (int, float)) for size in (batch, m, n, k)):
        return _cached_tiled_s(batch, m, n, k, flops_per_s, compute_units, start_s)  # type: ignore[arg-type]
    return _tiled_s(batch, m, n, k, flops_per_s, compute_units, start_s)
