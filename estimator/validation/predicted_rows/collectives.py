"""Collectives: rows that are one collective at one size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator.cost.collectives import TRAFFIC, Group, collective_s
from estimator.scenario import catalog
from estimator.validation.predicted_rows.device import TableDevice, whole, word

LIBRARIES = ("nccl", "gloo")


def gloo_s(kind: str, payload_bytes: float, ranks: int) -> float:
    """Time of a collective over gloo on one host: a ring whose every step is a message between two processes.

    t = steps · latency + wire / bandwidth, with n − 1 steps, twice that for an all-reduce (Thakur et al. 2005), of the
    catalogue's loopback link.
    """
    link = catalog.link("loopback")
    steps = ranks - 1.0 if kind != "p2p" else 1.0
    share = steps / ranks if kind != "p2p" else 1.0
    passes = 2.0 if kind == "all-reduce" else 1.0
    return passes * steps * link.latency_s + TRAFFIC[kind] * share * payload_bytes / link.bytes_per_s


def run_row(row: Mapping[str, Any], place: TableDevice) -> dict[str, float]:
    """Predict a row of ``collectives``: the median of the slowest rank, as all of them end together."""
    return _predicted(row, place, "slowest_median_s", library="library", payload="bytes", ranks="ranks")


def text_row(row: Mapping[str, Any], place: TableDevice) -> dict[str, float]:
    """Predict a line of an imported table of collectives."""
    return _predicted(row, place, "mean_s", library="backend", payload="size_bytes", ranks="world_size")


def _predicted(
    row: Mapping[str, Any], place: TableDevice, column: str, *, library: str, payload: str, ranks: str
) -> dict[str, float]:
    kind = word(row, "kind", "")
    if row.get(library) not in LIBRARIES or kind not in TRAFFIC or payload not in row:
        return {}
    count = whole(row, ranks, place.ranks)
    payload_bytes = float(whole(row, payload))
    if row.get(library) == "gloo":
        place.assume("gloo through the memory of one host, as fast as was measured on another")
        return {column: gloo_s(kind, payload_bytes, count)}
    group = Group(ranks=float(count), ranks_per_node=float(count))
    return {column: float(collective_s(kind, payload_bytes, group, place.cluster(count), place.efficiencies))}
