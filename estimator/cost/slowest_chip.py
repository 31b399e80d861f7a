"""Slowest chip: the efficiencies that a cluster's steps see, whose nodes run hot and whose ranks wait for one."""

from __future__ import annotations

from functools import lru_cache

from estimator.cost.efficiency import PRODUCTS, Efficiencies, at_rates
from estimator.cost.host import largest_of

NODE = 8
"""Chips of the nodes whose published steps ``whole_node_factor`` is read from."""


def node_factor(e: Efficiencies, in_node: int) -> float:
    """Rate of products in a node of so many busy chips, over one's alone: 1 to ``whole_node_factor`` of eight."""
    return 1.0 - (1.0 - e.whole_node_factor) * (min(in_node, NODE) - 1) / (NODE - 1)


@lru_cache(maxsize=64)
def of_slowest(e: Efficiencies, chips: int, chips_per_node: int) -> Efficiencies:
    """Return the efficiencies of the slowest of ``chips``: compute rates over 1 + spread·E[max of all normals].

    Those of products, times n, which falls from 1 where a node has one of them to ``whole_node_factor`` where it has
    eight, as power and heat bind (assumed between).
    """
    near = node_factor(e, min(chips, chips_per_node))
    spread = 1.0 / (1.0 + e.chip_spread * float(largest_of(float(chips))))
    e = at_rates(e, near, names=PRODUCTS) if near != 1.0 else e
    return at_rates(e, spread) if spread != 1.0 else e
