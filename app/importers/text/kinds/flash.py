"""Implementations side by side: forward, backward and both, one set of columns for each implementation."""

from __future__ import annotations

from typing import Any

from app.importers.text.kinds.attention import describe, has_sweep
from app.importers.text.layout.document import Block, Document, Table, place
from app.importers.text.reading import Decisions, Reading, opened, row_status, shared_warnings
from app.importers.text.values import meaning
from app.importers.text.values.cells import cell
from app.importers.text.values.figures import Findings, columns_of, put
from app.importers.text.values.header import Column
from app.importers.text.values.units import Unit
from estimator.scenario.measurement import Warning

KIND = "attention-implementations"
_TIMES = ("forward", "backward", "forward_backward", "step")
_POSSIBLE_FLOPS_PER_S = (5e11, 3e15)
"""What the best of several attention kernels can reach on an accelerator; the unit must land in between."""
_CANDIDATES = (Unit(suffix="_s", scale=1.0), Unit(suffix="_s", scale=1e-3), Unit(suffix="_s", scale=1e-6))
_NAMES = {1.0: "seconds", 1e-3: "milliseconds", 1e-6: "microseconds"}


def matches(block: Block) -> bool:
    """A sweep over sequence lengths with times of at least two implementations."""
    if not isinstance(block, Table) or block.form == "statistics":
        return False
    columns = columns_of(block)
    of = {what.of for column in columns if (what := meaning.quantity(column)) and what.name in _TIMES and what.of}
    named = any(meaning.name_is(column, meaning.MODEL) for column in columns)
    return len(of) >= 2 and has_sweep(columns) and not named


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all such tables under one heading."""
    tables, findings, rows, warnings = opened(blocks)
    for table in tables:
        columns = columns_of(table)
        unit = None if all(column.unit for column in columns if _is_time(column)) else _unit(table, columns)
        for cells in table.rows:
            rows.append(_row(columns, cells, unit, findings))
        if unit is not None:
            message = (
                f"The time columns name no unit; they were read as {_NAMES[unit.scale]}, the only unit in which the "
                "fastest row stays within what an accelerator can do. Write the unit into the header to be sure"
            )
            warnings.append(Warning(code="unit-inferred", message=message, where=place(table)))
    return Reading(rows=rows, warnings=warnings + shared_warnings(findings, rows, tables))


def _is_time(column: Column) -> bool:
    what = meaning.quantity(column)
    return what is not None and what.name in _TIMES


def _row(columns: tuple[Column, ...], cells: tuple[str, ...], unit: Unit | None, findings: Findings) -> dict[str, Any]:
    row: dict[str, Any] = {}
    oom = findings.oom
    for i, column in enumerate(columns):
        what = meaning.quantity(column)
        if what is None:
            describe(row, column, cells[i])
        elif what.name.endswith("speedup"):
            row[what.name.replace("step_", "forward_backward_")] = cell(cells[i]).value
        elif what.name in _TIMES:
            name = "forward_backward" if what.name == "step" else what.name
            put(row, f"{what.of}_{name}" if what.of else name, cells[i], column, findings, assumed=unit)
        else:
            put(row, what.name, cells[i], column, findings)
    row["status"] = row_status(row, findings, oom=findings.oom > oom)
    return row


def _unit(table: Table, columns: tuple[Column, ...]) -> Unit | None:
    """Find the one unit in which the fastest forward of a row is possible: 4·S²·d FLOPs for one head."""
    best = 0.0
    for cells in table.rows:
        case: dict[str, Any] = {}
        times = []
        for i, column in enumerate(columns):
            what = meaning.quantity(column)
            if what is None:
                describe(case, column, cells[i])
            elif what.name == "forward" and (value := cell(cells[i]).value):
                times.append(value)
        width = next((case[key] for key in case if key in meaning.WIDTH), None)
        if times and isinstance(width, int) and isinstance(case.get("seq_len"), int):
            best = max(best, 4.0 * case["seq_len"] ** 2 * width * case.get("batch", 1) / min(times))
    low, high = _POSSIBLE_FLOPS_PER_S
    possible = [unit for unit in _CANDIDATES if low <= best / unit.scale <= high]
    return possible[0] if len(possible) == 1 else None
