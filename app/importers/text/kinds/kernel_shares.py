"""Kernel shares: which kernels take which part of the GPU's time, as a profiler's summary lists them."""

from __future__ import annotations

from typing import Any

from app.importers.text.layout.document import Block, Document, Table, place
from app.importers.text.reading import Decisions, Reading
from app.importers.text.values.figures import scaled
from estimator.scenario.measurement import Warning
from runners.trace.kernel_category import category_of

KIND = "kernel-shares"
_WHOLE = 0.999


def matches(block: Block) -> bool:
    """A share list."""
    return isinstance(block, Table) and block.form == "shares"


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all share lists under one heading; the line over each says which part of a step it covers."""
    rows: list[dict[str, Any]] = []
    warnings: list[Warning] = []
    for table in blocks:
        if not isinstance(table, Table):
            continue
        scope = table.around.before[-1].strip(" :*") if table.around.before else ""
        total = 0.0
        for name, calls, percent in table.rows:
            row: dict[str, Any] = {
                "kernel": name,
                "category": category_of(name),
                "time_frac": scaled(float(percent), 0.01),
            }
            if calls:
                row["calls"] = int(calls)
            if 0 < len(scope) <= 60:
                row["scope"] = scope
            rows.append(row)
            total += row["time_frac"]
        if total < _WHOLE:
            message = f"The list covers {total:.1%} of the time of {scope or 'its range'}; the rest was not printed"
            warnings.append(Warning(code="list-cut-off", message=message, where=place(table)))
    return Reading(rows=rows, warnings=warnings)
