"""Megabytes: whether a table's MB are 10⁶ or 2²⁰ bytes, told from how memory grows with the sequence."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from estimator.scenario.measurement import Warning
from estimator.scenario.units import MIB

DECIMAL = 1e6
_CLEAR = 0.1
"""Largest distance from a whole number of 4-byte words that still counts as one."""


def megabyte(rows: Sequence[dict[str, Any]], key: str, group: Sequence[str]) -> float | None:
    """Return the bytes of one MB as the table uses it, or None where its numbers do not tell.

    Attention that keeps score matrices needs c₀ + c₁·S + c₂·S² bytes; c₂ is a whole number of 4-byte words, and only
    one of the two readings makes it whole. ``rows`` hold ``key`` read as 10⁶ bytes, and ``seq_len``.
    """
    series: dict[tuple[Any, ...], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row.get(key) is not None and isinstance(row.get("seq_len"), int):
            series[tuple(row.get(name) for name in group)].append((float(row["seq_len"]), row[key]))
    curvatures = [found for points in series.values() if (found := _curvature(points)) is not None]
    if not curvatures:
        return None
    words = statistics.median(curvatures) / 4
    distances = {DECIMAL: _from_whole(words), float(MIB): _from_whole(words * MIB / DECIMAL)}
    best, other = sorted(distances, key=lambda scale: distances[scale])
    if distances[best] > _CLEAR or distances[other] < 1.5 * _CLEAR:
        return None
    return best


def _curvature(points: list[tuple[float, float]]) -> float | None:
    """Second divided difference over the three longest sequences: c₂ in bytes."""
    ordered = sorted(dict(points).items())[-3:]
    if len(ordered) < 3:
        return None
    (s0, m0), (s1, m1), (s2, m2) = ordered
    found = ((m2 - m1) / (s2 - s1) - (m1 - m0) / (s1 - s0)) / (s2 - s0)
    return found if found > 1 else None


def _from_whole(value: float) -> float:
    return abs(value - round(value)) if round(value) >= 1 else 0.5


def rescale(rows: Sequence[dict[str, Any]], keys: set[str], scale: float) -> None:
    """Turn sizes that were read as 10⁶ bytes to the MB into bytes of ``scale`` to the MB."""
    for row in rows:
        for key in keys:
            if row.get(key) is not None:
                row[key] = row[key] / DECIMAL * scale


def warning(scale: float | None, where: str) -> Warning:
    """Say how MB was read, and on what ground."""
    if scale == MIB:
        return Warning(
            code="mb-is-mib",
            message="'MB' means MiB here (1 048 576 bytes): only so does the memory grow by whole words with the "
            "square of the sequence",
            where=where,
        )
    if scale == DECIMAL:
        return Warning(
            code="mb-is-decimal",
            message="'MB' means 1 000 000 bytes here: only so does the memory grow by whole words with the square "
            "of the sequence",
            where=where,
        )
    return Warning(
        code="mb-ambiguous",
        message="'MB' was read as 1 000 000 bytes; the numbers do not tell whether MiB was meant (4.9 % more). "
        "Write MiB into the header if so",
        where=where,
    )
