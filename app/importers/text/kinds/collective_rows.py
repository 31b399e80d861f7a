"""Collective rows: what block and line benchmarks of collectives have in common."""

from __future__ import annotations

from typing import Any

from app.importers.bandwidth import bus_factor, collective_kind
from estimator.scenario.measurement import MeasuredCollective


def kind_of(text: str) -> str:
    """Name the collective that a title or heading speaks of; all-reduce where it speaks of none."""
    return collective_kind(text) or "all-reduce"


def measured(row: dict[str, Any]) -> MeasuredCollective | None:
    """Turn a row with size, ranks and mean time into a MeasuredCollective; None where one of them is missing."""
    size, ranks, seconds = row.get("size_bytes"), row.get("world_size"), row.get("mean_s")
    if not size or not ranks or not seconds:
        return None
    algorithm = size / seconds
    return MeasuredCollective(
        kind=row["kind"],
        bytes=size,
        ranks=ranks,
        seconds=seconds,
        algorithm_bytes_per_s=algorithm,
        bus_bytes_per_s=algorithm * bus_factor(row["kind"], ranks),
    )
