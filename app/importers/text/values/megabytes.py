"""Megabytes: whether a table's MB are 10⁶ or 2²⁰ bytes, told from how memory grows with the sequence."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from estimator.scenario.measurement import Warning
from estimator.scenario.units import MIB

DECIMAL = 1e6
_CLEAR = 0.1
"""Largest distance from a whole number of 4-byte words that still counts as one."""


def megabyte(
    rows: Sequence[dict[str, Any]], key: str, group: Sequence[str], printed: Iterable[str] = ("MB",)
) -> float | None:
    """Return the bytes of one MB as the table uses it, or None where its numbers do not tell.

    Attention that keeps score matrices needs c₀ + c₁·S + c₂·S² bytes; c₂ is a whole number of 4-byte words, and only
    one of the two readings makes it whole. ``rows`` hold ``key``, ``printed`` in MB, GB or another one unit and read as
    powers of 1000, and ``seq_len``.
    """
    units = set(printed)
    if len(units) != 1:
        return None
    series: dict[tuple[Any, ...], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row.get(key) is not None and isinstance(row.get("seq_len"), int):
            series[tuple(row.get(name) for name in group)].append((float(row["seq_len"]), row[key]))
    curvatures = [found for points in series.values() if (found := _curvature(points)) is not None]
    if not curvatures:
        return None
    words = statistics.median(curvatures) / 4
    distances = {DECIMAL: _from_whole(words), float(MIB): _from_whole(words * binary_over_decimal(units.pop()))}
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


_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
"""Of 1000 or 1024, by the first letter of a unit of sizes."""


def binary_over_decimal(printed: str) -> float:
    """How many times as large a unit is in powers of 1024: 1.049 of MB, 1.074 of GB."""
    return 1.024 ** _POWERS[printed[0].lower()]


def rescale(rows: Sequence[dict[str, Any]], sizes: Mapping[str, Iterable[str]], scale: float) -> None:
    """Turn sizes, by their columns and printed units, that were read as powers of 1000 into those that ``scale`` is of.

    ``scale``: bytes of one MB. A column of several units stays as it is.
    """
    for key, printed in sizes.items():
        units = set(printed)
        if scale != MIB or len(units) != 1:
            continue
        power = _POWERS[units.pop()[0].lower()]
        for row in rows:
            if row.get(key) is not None:
                row[key] = row[key] / 1000.0**power * 1024.0**power


def warning(scale: float | None, where: str, printed: Iterable[str] = ("MB",)) -> Warning:
    """Say how MB, GB or what else is ``printed`` was read, and on what ground; ``scale``: bytes of one MB, if known."""
    powers = sorted({_POWERS[unit[0].lower()] for unit in printed})
    letters = ["KMGT"[power - 1] for power in powers]
    names, binaries = _listed(f"'{letter}B'" for letter in letters), _listed(f"{letter}iB" for letter in letters)
    several = len(powers) > 1
    if scale == MIB:
        return Warning(
            code="mb-is-mib",
            message=f"{names} {'mean' if several else 'means'} {binaries} here "
            f"({_listed(_digits(1024**power) for power in powers)} bytes): only so does the memory grow by whole words "
            "with the square of the sequence",
            where=where,
        )
    decimals = _listed(_digits(1000**power) for power in powers)
    if scale == DECIMAL:
        return Warning(
            code="mb-is-decimal",
            message=f"{names} {'mean' if several else 'means'} {decimals} bytes here: only so does the memory grow by "
            "whole words with the square of the sequence",
            where=where,
        )
    more = _listed(f"{100 * (1.024**power - 1):.1f}" for power in powers)
    return Warning(
        code="mb-ambiguous",
        message=f"{names} {'were' if several else 'was'} read as {decimals} bytes; the numbers do not tell whether "
        f"{binaries} {'were' if several else 'was'} meant ({more} % more). Write {binaries} into the header if so",
        where=where,
    )


def _digits(count: int) -> str:
    return f"{count:,}".replace(",", " ")


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
