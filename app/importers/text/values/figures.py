"""Figures: cells of a column as SI values under keys that carry the unit, with what could not be decided."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from app.importers.text.layout.document import Table
from app.importers.text.values.cells import Cell, cell
from app.importers.text.values.header import Column, column
from app.importers.text.values.units import Unit, unit

_LOOKED_AT = 200
"""Rows that settle a column's unit; a later cell's own unit still counts for that cell."""


@dataclass(kw_only=True)
class Findings:
    """What a recogniser met on its way, counted until it is said in one warning each."""

    oom: int = 0
    missing: int = 0
    without_unit: dict[str, str] = field(default_factory=dict)
    loose_sizes: set[str] = field(default_factory=set)


def columns_of(table: Table) -> tuple[Column, ...]:
    """Read a table's headers; a header without unit takes that of its first cells, where they all name the same one."""
    found = []
    for i, header in enumerate(table.columns):
        known = column(header)
        if known.unit is None:
            printed = {read.unit for row in table.rows[:_LOOKED_AT] if (read := cell(row[i])).value is not None}
            units = {unit(name) for name in printed}
            if len(units) == 1 and (only := units.pop()) is not None:
                known = dataclasses.replace(known, unit=only, printed_unit=printed.pop())
        found.append(known)
    return tuple(found)


def put(
    row: dict[str, Any], key: str, text: str, header: Column, findings: Findings, assumed: Unit | None = None
) -> Cell:
    """Write one cell into ``row`` as ``key`` plus unit suffix (and ``…_std`` plus suffix); return the cell as read.

    The unit is the cell's own, else the header's, else ``assumed``; without any the number is kept as printed and
    the column is noted, so that the reader is asked. Missing cells write None.
    """
    read = cell(text)
    known = unit(read.unit) if read.unit else None
    known = known or header.unit or assumed
    suffix = known.suffix if known else ""
    statistic = f"_{header.statistic}" if header.statistic and header.statistic != "mean" else ""
    name = f"{key}{statistic}{suffix}"
    if read.missing:
        findings.oom += read.missing == "oom"
        findings.missing += read.missing != "oom" and read.text != ""
        row[name] = None
    elif read.value is None:
        row[key] = read.text
    else:
        scale = known.scale if known else 1.0
        row[name] = scaled(read.value, scale)
        if read.spread is not None:
            own = unit(read.spread_unit) if read.spread_unit else None
            spread_scale = own.scale if own and own.suffix == suffix else scale
            row[f"{key}{statistic}_std{suffix}"] = scaled(read.spread, spread_scale)
        if known is None:
            findings.without_unit.setdefault(key, header.header)
        elif known.loose:
            findings.loose_sizes.add(name)
    return read


_QUANTITY_WORDS = {
    "time", "times", "latency", "duration", "elapsed", "wait", "memory", "mem", "bytes", "bandwidth", "bw", "algbw",
    "busbw", "throughput", "tflops", "flops", "gflops", "energy", "power", "forward", "backward", "fwd", "bwd", "total",
}  # fmt: skip


def keep(row: dict[str, Any], name: str, text: str, header: Column, findings: Findings) -> None:
    """Write a cell of a column that nothing else is known of: counts and text as they are, the rest as a figure.

    Whole numbers under a header that speaks of no quantity need no unit; all other numbers do, or are asked for.
    """
    read = cell(text)
    if read.value is None and not read.missing:
        row[name] = read.text
    elif read.value is not None and not read.unit and header.unit is None and _is_count(text, header):
        row[name] = int(read.value)
    elif text.strip() or header.unit is not None:
        put(row, name, text, header, findings)


def _is_count(text: str, header: Column) -> bool:
    return whole(text) is not None and "." not in text and _QUANTITY_WORDS.isdisjoint(header.words)


def scaled(value: float, scale: float) -> float:
    """Multiply in decimals, so that 0.13 ms is 0.00013 s to the last digit."""
    return float(Decimal(repr(value)) * Decimal(repr(float(scale))))


def whole(text: str) -> int | None:
    """Read a count: a whole number, possibly with thousands commas; None for anything else."""
    read = cell(text)
    if read.value is None or read.value != int(read.value) or abs(read.value) > 1e15:
        return None
    return int(read.value)
