"""Slowest chip: the efficiencies that a cluster's steps see, whose nodes run hot and whose ranks wait for one."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from estimator.cost.efficiency import OF_HOST, PRODUCTS, Efficiencies, at_rates, efficiencies
from estimator.cost.host import largest_of, slowest_of

NODE = 8
"""Chips of a whole node, as of those whose published steps agree with ``whole_node_factor``."""


def node_factor(e: Efficiencies, in_node: int) -> float:
    """Rate of products in a node of so many busy chips, over one's alone: 1 to ``whole_node_factor`` of eight.

    Assumed between, but where it is known what a chip draws: there it slows down by itself (``clock_frac``).
    """
    if e.power_limit_w and in_node < NODE:
        return 1.0
    return 1.0 - (1.0 - e.whole_node_factor) * (min(in_node, NODE) - 1) / (NODE - 1)


OF_WHOLE_NODES = ("host_megatron_forward_s", "host_megatron_backward_s", "host_collective_s")
"""Read off nodes whose eight chips all worked."""
OF_SHARED_HOST = tuple(name for name in OF_HOST if name not in OF_WHOLE_NODES)


def sharing_factor(ranks: int, power: float) -> float:
    """By how much more a host takes that so many ranks share: ranks^power, to eight, as more have further hosts."""
    return float(min(max(ranks, 1), NODE) ** power)


def pace_of_ranks(over: Sequence[float]) -> float:
    """The pace of ranks that meet, of each rank's own: their mean, but no less than max / ``slowest_of``.

    The others wait for the slowest, for which ``slowest_of`` adds what it usually takes longer.
    """
    return max(statistics.fmean(over), max(over) / float(slowest_of(len(over), efficiencies("default"))))


def shared_host(e: Efficiencies, in_node: int) -> Efficiencies:
    """The efficiencies of a host on which ``in_node`` ranks run: its times · ranks^``host_ranks_power``, to eight.

    Each rank has two busy threads and those of its libraries, and hardware threads share cores.
    """
    known = e.ranges["host_ranks_power"]
    slower, low, high = (sharing_factor(in_node, power) for power in (e.host_ranks_power, known.low, known.high))
    return at_rates(e, slower, names=OF_SHARED_HOST, low=low, high=high) if high != 1.0 else e


@lru_cache(maxsize=64)
def of_slowest(e: Efficiencies, chips: int, chips_per_node: int) -> Efficiencies:
    """Return the efficiencies of the slowest of ``chips``: rates of matrix units over 1 + spread·E[max of all normals].

    Those of products times n as well, which falls from 1 where a node has one of them to ``whole_node_factor`` where
    it has eight, as power and heat bind (assumed between). The host is one that its ranks share.
    """
    in_node = min(chips, chips_per_node)
    near = node_factor(e, in_node)
    e = shared_host(e, in_node)
    if in_node >= NODE:
        e = replace(e, power_limit_w=0.0)  # in the factor
    spread = 1.0 / (1.0 + e.chip_spread * float(largest_of(float(chips))))
    e = at_rates(e, near, names=PRODUCTS) if near != 1.0 else e
    return at_rates(e, spread) if spread != 1.0 else e
