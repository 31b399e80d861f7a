"""Allocator: sizes that PyTorch's caching allocator rounds requests to, and what a large block keeps beyond them."""

from __future__ import annotations

from estimator.scenario.arrays import ceil_div, where
from estimator.scenario.units import MIB, Number

GRANULE = 512
SMALL_BYTES = MIB
SMALL_SEGMENT = 2 * MIB
MIDDLE_SEGMENT = 20 * MIB
LARGE_BYTES = 10 * MIB
ROUNDED = 2 * MIB
"""c10/cuda/CUDACachingAllocator: requests in granules of 512 bytes; those up to 1 MiB share segments of 2 MiB, those
below 10 MiB segments of 20 MiB, larger ones have segments rounded to 2 MiB."""


def rest_bytes(tensor_bytes: Number) -> Number:
    """Bytes that the block of a tensor with a segment of its own keeps unsplit: what it is rounded up by, if ≤ 1 MiB.

    Smaller tensors share segments, and a larger rest is split off (``should_split`` in CUDACachingAllocator.cpp).
    """
    rest = ceil_div(tensor_bytes, ROUNDED) * ROUNDED - tensor_bytes
    return where(tensor_bytes >= LARGE_BYTES, where(rest <= SMALL_BYTES, rest, 0.0), 0.0)
