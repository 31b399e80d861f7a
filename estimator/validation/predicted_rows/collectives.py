"""Collectives: rows that are one collective at one size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator.cost.collectives import TRAFFIC, Group, collective_s
from estimator.validation.predicted_rows.device import TableDevice, whole, word


def run_row(row: Mapping[str, Any], place: TableDevice) -> dict[str, float]:
    """Predict a row of ``collectives``: the median of the slowest rank, as all of them end together.

    Over gloo the payload goes through the host, which no link of the catalogue describes.
    """
    return _predicted(row, place, "slowest_median_s", library="library", payload="bytes", ranks="ranks")


def text_row(row: Mapping[str, Any], place: TableDevice) -> dict[str, float]:
    """Predict a line of an imported table of collectives over NCCL."""
    return _predicted(row, place, "mean_s", library="backend", payload="size_bytes", ranks="world_size")


def _predicted(
    row: Mapping[str, Any], place: TableDevice, column: str, *, library: str, payload: str, ranks: str
) -> dict[str, float]:
    kind = word(row, "kind", "")
    if row.get(library) != "nccl" or kind not in TRAFFIC or payload not in row:
        return {}
    count = whole(row, ranks, place.ranks)
    group = Group(ranks=float(count), ranks_per_node=float(count))
    payload_bytes = float(whole(row, payload))
    return {column: float(collective_s(kind, payload_bytes, group, place.cluster(count), place.efficiencies))}
