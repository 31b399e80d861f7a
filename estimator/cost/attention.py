"""Fused attention: tiles of scores, rows of queries, and the last blocks that some units still run."""

from __future__ import annotations

from estimator.scenario.arrays import ceil_div, maximum, minimum
from estimator.scenario.units import Number

WIDTH = 64.0
"""Widths of heads that tiled kernels are built for are multiples of it (cuDNN 9.19 on H200: 32 and 80 take as long as
64 and 128)."""
FLASH_WIDTH = 32.0
"""The same of FlashAttention-2's (Flash_fwd_kernel_traits<32, 128, 128, …> for heads of 24)."""


def attention_s(
    *,
    batch: Number,
    queries: Number,
    keys: Number,
    head_dim: float,
    flops: Number,
    visible_frac: Number,
    padded_rows: bool,
    tile: float,
    bytes: Number,
    flops_per_s: float,
    memory_bytes_per_s: float,
    units_hz: float,
    compute_units: float,
    half_length: float,
    half_width: float,
    row_cycles: float,
    tail_blocks: float,
    built_for: float = WIDTH,
    width_power: float = 1.0,
) -> Number:
    """Time of a fused attention kernel, without its start.

    t = max(B·rows·(L·s + c) + tail·longest, bytes / bandwidth): a row of queries meets L keys in whole tiles (half of
    one more than causality shows it, as the diagonal's are computed whole), s = FLOPs of a score / rate · (1 + S0/S),
    rate = reachable · D/(D'^p + D0^p)^(1/p) for heads of D in kernels built for D', c the time that a row costs
    beside its scores. p is 1, but more in kernels whose products, which take as D', and exponentials, which take the
    same for any, hide one another. ``longest``: one block of queries with all keys, as units are idle while the last
    blocks run. Forward's blocks are whole tiles of queries (``padded_rows``); D' is a multiple of ``built_for``.
    Measured alone on H200 (tests/reference/h200_attention_ladder.json).
    """
    width = float(ceil_div(head_dim, built_for)) * built_for if tile > 1.0 else head_dim
    rate = flops_per_s * head_dim / (width**width_power + half_width**width_power) ** (1.0 / width_power)
    full = ceil_div(keys, tile) * tile
    rows = ceil_div(queries, tile) * tile if padded_rows else queries
    seen = minimum(visible_frac * full + 0.5 * (tile - 1.0), full)
    score_s = flops / (maximum(batch, 1.0) * queries * keys) * (1.0 + half_length / queries) / rate
    row_s = row_cycles / units_hz
    # A rank may run none, where another implementation runs
    longest_s = minimum(batch, 1.0) * tile * (full * score_s + row_s) * compute_units
    return maximum(batch * rows * (seen * score_s + row_s) + tail_blocks * longest_s, bytes / memory_bytes_per_s)
