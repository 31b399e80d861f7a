"""Slowest chip: the efficiencies that a cluster's steps see, in which every exchange waits for its slowest chip."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from estimator.cost.efficiency import Efficiencies
from estimator.cost.host import largest_of

COMPUTE = ("gemm_matrix_frac", "gemm_tf32_frac", "gemm_unaligned_frac", "gemm_pairs_frac",
           "gemm_fours_frac", "attention_frac", "attention_flash_frac", "attention_flash1_frac",
           "attention_whole_frac")  # fmt: skip
"""Rates of matrix units, whose power sets a chip's clock; those of vector units (0.4 % among four H200 hosts' probes)
and of memory do not follow it."""


@lru_cache(maxsize=64)
def of_slowest(e: Efficiencies, chips: int) -> Efficiencies:
    """Return the efficiencies of the slowest of ``chips``: rates of compute over 1 + spread·E[max of n normals]."""
    factor = 1.0 / (1.0 + e.chip_spread * float(largest_of(float(chips))))
    if factor == 1.0:
        return e
    changed: dict[str, Any] = {name: getattr(e, name) * factor for name in COMPUTE}
    ranges = {
        name: replace(one, value=one.value * factor, low=one.low * factor, high=one.high * factor)
        for name in COMPUTE
        for one in [e.ranges[name]]
    }
    return replace(e, ranges={**e.ranges, **ranges}, **changed)
