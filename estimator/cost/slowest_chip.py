"""Slowest chip: the efficiencies that a cluster's steps see, whose nodes run hot and whose ranks wait for one."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from estimator.cost.efficiency import Efficiencies
from estimator.cost.host import largest_of

COMPUTE = ("gemm_matrix_frac", "gemm_tf32_frac", "gemm_unaligned_frac", "gemm_pairs_frac",
           "gemm_fours_frac", "attention_frac", "attention_flash_frac", "attention_flash1_frac")  # fmt: skip
"""Rates of matrix units, whose power sets a chip's clock; those of vector units (0.4 % among four H200 hosts' probes)
and of memory do not follow it."""

NODE = 8
"""Chips of the nodes whose published steps ``whole_node_factor`` is read from."""


def node_factor(e: Efficiencies, in_node: int) -> float:
    """Rate of matrix units in a node of so many busy chips, over one's alone: 1 to ``whole_node_factor`` of eight."""
    return 1.0 - (1.0 - e.whole_node_factor) * (min(in_node, NODE) - 1) / (NODE - 1)


@lru_cache(maxsize=64)
def of_slowest(e: Efficiencies, chips: int, chips_per_node: int) -> Efficiencies:
    """Return the efficiencies of the slowest of ``chips``: compute rates times n / (1 + spread·E[max of all normals]).

    n falls from 1 where a node has one of them to ``whole_node_factor`` where it has eight, as power and heat bind
    (assumed between).
    """
    factor = node_factor(e, min(chips, chips_per_node)) / (1.0 + e.chip_spread * float(largest_of(float(chips))))
    if factor == 1.0:
        return e
    changed: dict[str, Any] = {name: getattr(e, name) * factor for name in COMPUTE}
    ranges = {
        name: replace(one, value=one.value * factor, low=one.low * factor, high=one.high * factor)
        for name in COMPUTE
        for one in [e.ranges[name]]
    }
    return replace(e, ranges={**e.ranges, **ranges}, **changed)
