"""Rates: what a climbed ladder comes to in a few lines; attention's count the full square, as its rows do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from estimator.scenario.units import engineering, seconds

RATES = {
    "gemm": "flops_per_s",
    "attention": "flops_per_s",
    "elementwise": "bytes_per_s",
    "reduction": "bytes_per_s",
    "copy": "bytes_per_s",
    "optimizer": "bytes_per_s",
    "launch": "launch_s",
    "collective": "bus_bytes_per_s",
}
"""The column that a ladder is about: the largest rate of it, or the least seconds."""

WHAT = {
    "gemm": ("precision",),
    "attention": ("precision", "direction"),
    "elementwise": ("precision",),
    "reduction": ("precision",),
    "copy": ("op",),
    "optimizer": ("precision", "op"),
    "launch": ("op",),
    "collective": ("kind",),
}
"""Columns that tell the rates of one ladder apart."""


def rate_lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Write the best measured rate of each kind of probe, a line for each ladder."""
    best: dict[str, dict[str, float]] = {}
    for row in rows:
        ladder = str(row.get("ladder"))
        column = RATES.get(ladder, "")
        value = row.get(column)
        if row.get("status") != "ok" or not isinstance(value, float) or _is_nothing(row):
            continue
        name = " ".join(str(row[part]) for part in WHAT[ladder] if row.get(part))
        chosen = min if column.endswith("_s") and not column.endswith("_per_s") else max
        found = best.setdefault(ladder, {})
        found[name] = chosen(found.get(name, value), value)
    width = max(map(len, best), default=0)
    return [
        f"{ladder:{width}}  {' · '.join(f'{name} {_text(RATES[ladder], value)}' for name, value in found.items())}"
        for ladder, found in best.items()
    ]


def _is_nothing(row: Mapping[str, Any]) -> bool:
    """Whether nothing had to be done: what is fp32 already is not copied."""
    return row.get("op") == "to fp32" and row.get("precision") == "fp32"


def _text(column: str, value: float) -> str:
    if column == "launch_s":
        return seconds(value)
    return engineering(value, "FLOP/s" if column.startswith("flops") else "B/s")
