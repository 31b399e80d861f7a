"""Collectives: time from traffic, bandwidth of the tier that binds, and a latency that grows with the group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from estimator.cost.efficiency import Efficiencies
from estimator.operations.moe import reached
from estimator.scenario.arrays import is_single, log2, maximum, minimum, where
from estimator.scenario.hardware import Cluster
from estimator.scenario.units import Number

TRAFFIC = {"all-reduce": 2.0, "all-gather": 1.0, "reduce-scatter": 1.0, "all-to-all": 1.0, "p2p": 1.0}
"""Bytes that each rank sends, in units of (n − 1)/n times the payload (p2p: the payload itself).
Thakur et al. 2005, doi 10.1177/1094342005051521; the same factors as in nccl-tests' bus bandwidth. The payload is the
whole tensor for all-gather and reduce-scatter, each rank's own tensor for the others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Ranks of one axis: how many, and how many of them share a node."""

    ranks: Number
    ranks_per_node: Number


def collective_s(
    kind: str,
    payload_bytes: Number,
    group: Group,
    cluster: Cluster,
    e: Efficiencies,
    *,
    copies: int = 0,
    reachable_frac: float = 1.0,
    ramp: Number | None = None,
) -> Number:
    """Time of one collective on two tiers: links inside a node, network ports between nodes.

    t = latency + max(inside, between). Inside, wire = factor·(n − 1)/n · payload leaves each rank over its link, at the
    bandwidth of large messages, which others take ``ramp_frac`` of a time longer to reach where none leaves the node
    (``ramp``: their mean of several).
    Between nodes the r ranks that a group has in one node share the wire over their r ports (each port serves the
    groups of its own chip, so groups that run at the same time do not add up); an all-to-all is not shared: each rank
    sends (n − r)/n of its payload through its own port. Where tokens go to ``copies`` experts each but to a node once,
    payload/copies · (N − 1)·(1 − (1 − 1/N)^copies) crosses to the N − 1 others, and to a rank once,
    payload/copies · n·(1 − (1 − 1/n)^copies) · (r − 1)/r passes over links meanwhile (DeepSeek-V3, arXiv 2412.19437,
    section 3.2.2; num_tokens_per_rank of deepseek-ai/DeepEP), fewer where tokens choose among a part of the experts
    (``reachable_frac``). Latency grows with the ranks in a node, and with the
    number of nodes: its logarithm for trees and rings of blocks, its count for an all-to-all.
    """
    n, r = group.ranks, group.ranks_per_node
    if is_single(n):
        return 0.0
    across = n > r
    latency = e.collective_start_s + e.collective_rank_s * (minimum(n, r) - 1)
    link = cluster.link.bytes_per_s * e.link_frac
    network = cluster.network.bytes_per_s * e.network_frac
    nodes = n / r
    if kind == "all-to-all":
        inside = payload_bytes * ((minimum(n, r) - 1) / n) / link
        between = payload_bytes * ((n - r) / n) / network
        if copies:
            near = minimum(n, r)
            inside = payload_bytes / copies * reached(n, copies, reachable_frac) * ((near - 1) / near) / link
            between = payload_bytes / copies * (reached(nodes, copies, reachable_frac) * (nodes - 1) / nodes) / network
        hops = nodes - 1
    elif kind == "p2p":
        inside, between, hops = payload_bytes / link, payload_bytes / network, 1.0
    else:
        wire = payload_bytes * TRAFFIC[kind] * ((n - 1) / n)
        inside, between, hops = wire / link, wire / (network * r), 2.0 * log2(nodes)
    ramp_s = e.collective_ramp_s * (ramp_frac(kind, payload_bytes, e) if ramp is None else ramp)
    time = latency + where(
        across, cluster.network.latency_s * hops + maximum(where(r > 1, inside, 0.0), between), inside + ramp_s
    )
    return where(n > 1, time, 0.0)


def ramp_frac(kind: str, payload_bytes: Number, e: Efficiencies) -> Number:
    """How much of ``collective_ramp_s`` a message inside a node takes longer than at the bandwidth of large ones.

    b / (b + full), b what would leave a rank of very many. NCCL fills its chain of chunks, and gives fewer channels to
    what is smaller.
    """
    sent = payload_bytes * TRAFFIC[kind]
    return sent / (sent + e.collective_full_bytes)


def p2p_s(payload_bytes: Number, across_nodes: Any, cluster: Cluster, e: Efficiencies) -> Number:
    """Time of one message between two chips, of one node or of two."""
    inside = cluster.link.latency_s + payload_bytes / (cluster.link.bytes_per_s * e.link_frac)
    inside = inside + e.collective_ramp_s * ramp_frac("p2p", payload_bytes, e)
    between = cluster.network.latency_s + payload_bytes / (cluster.network.bytes_per_s * e.network_frac)
    return e.collective_start_s + where(across_nodes, between, inside)


def exposed_s(communication_s: Number, window_s: Number, matmul_frac: Number, contention_frac: Number) -> Number:
    """Communication that stays on the critical path although it runs beside compute.

    hidden = min(communication, window) · (1 − contention · share of matrix products in the window): collectives hide
    behind memory-bound kernels, while a matrix product that fills the chip loses about what the collective takes.
    """
    hidden = minimum(communication_s, window_s) * (1.0 - contention_frac * matmul_frac)
    return communication_s - hidden
