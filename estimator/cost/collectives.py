"""Collectives: time from traffic, bandwidth of the tier that binds, and a latency that grows with the group."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.arrays import maximum, minimum, where
from estimator.efficiency import Efficiencies
from estimator.hardware import Cluster
from estimator.units import Number

TRAFFIC = {"all-reduce": 2.0, "all-gather": 1.0, "reduce-scatter": 1.0, "all-to-all": 1.0, "p2p": 1.0}
"""Bytes that each rank sends, in units of (n − 1)/n times the payload (p2p: the payload itself).
Thakur et al. 2005, doi 10.1177/1094342005051521; the same factors as in nccl-tests' bus bandwidth."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Ranks of one axis: how many, and how many of them share a node."""

    ranks: Number
    ranks_per_node: Number


def group_of(axis_size: Number, inner_size: Number, cluster: Cluster) -> Group:
    """Place an axis whose neighbours are ``inner_size`` chips apart: axes fill a node from the inside out."""
    per_node = maximum(1.0, minimum(axis_size, cluster.chips_per_node / inner_size))
    return Group(ranks=axis_size, ranks_per_node=per_node)


def collective_s(kind: str, payload_bytes: Number, group: Group, cluster: Cluster, e: Efficiencies) -> Number:
    """Time of one collective of ``payload_bytes`` (the whole tensor for gather and scatter).

    t = latency + max(wire / link, wire / (ranks per node · network)), wire = factor·(n − 1)/n · payload. Within a node
    every rank sends over its own link; between nodes the group uses the network ports of its ranks in that node.
    """
    n = group.ranks
    wire = payload_bytes * TRAFFIC[kind] * ((n - 1) / n if kind != "p2p" else 1.0)
    across = n > group.ranks_per_node
    link_s = wire / (cluster.link.bytes_per_s * e.link_frac)
    network_s = wire / (cluster.network.bytes_per_s * e.network_frac * group.ranks_per_node)
    nodes = n / group.ranks_per_node
    latency = e.collective_start_s + e.collective_rank_s * (minimum(n, group.ranks_per_node) - 1)
    latency = latency + where(across, cluster.network.latency_s * 2.0 * _log2(nodes), 0.0)
    inside = where(group.ranks_per_node > 1, link_s, 0.0)
    time = latency + where(across, maximum(inside, network_s), link_s)
    return where(n > 1, time, 0.0)


def p2p_s(payload_bytes: Number, across_nodes: bool, cluster: Cluster, e: Efficiencies) -> Number:
    """Time of one message between neighbours of the pipeline axis."""
    link = cluster.network if across_nodes else cluster.link
    share = e.network_frac if across_nodes else e.link_frac
    return e.collective_start_s + link.latency_s + payload_bytes / (link.bytes_per_s * share)


def exposed_s(communication_s: Number, window_s: Number, matmul_frac: Number, e: Efficiencies) -> Number:
    """Communication that stays on the critical path although it runs beside compute.

    hidden = min(communication, window) · (1 − contention · share of matrix products in the window): collectives hide
    behind memory-bound kernels, while a matrix product that fills the chip loses about what the collective takes.
    """
    hidden = minimum(communication_s, window_s) * (1.0 - e.contention_frac * matmul_frac)
    return communication_s - hidden


def _log2(value: Number) -> Number:
    import math

    if isinstance(value, (int, float)):
        return math.log2(value) if value > 1 else 0.0
    import numpy as np

    return np.log2(np.maximum(value, 1.0))
