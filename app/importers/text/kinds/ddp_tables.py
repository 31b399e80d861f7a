"""Data-parallel tables: steps of naive, flat, bucketed and overlapped exchanges, a row each."""

from __future__ import annotations

from typing import Any

from app.importers.text.kinds import ddp_breakdown
from app.importers.text.kinds.ddp_breakdown import MODES, said_in_text
from app.importers.text.kinds.ddp_lines import VARIANT, variant
from app.importers.text.kinds.run_cells import describe
from app.importers.text.layout.document import Block, Document, Table
from app.importers.text.reading import Decisions, Reading, opened, row_status, shared_warnings
from app.importers.text.values import meaning
from app.importers.text.values.figures import Findings, columns_of, put
from app.importers.text.values.header import Column

KIND = ddp_breakdown.KIND
_TIMES = {
    **{name: name for name in ("step", "forward", "backward", "forward_backward", "optimizer")},
    "communication": "communication_wait",
}


def matches(block: Block) -> bool:
    """A table with the time of a step, and a column whose every cell is a way to exchange gradients."""
    if not isinstance(block, Table) or block.form == "statistics":
        return False
    columns = columns_of(block)
    return _variants(block, columns) is not None and "step" in _timed(columns).values()


def _variants(table: Table, columns: tuple[Column, ...]) -> int | None:
    """The column that says how gradients are exchanged."""
    names = meaning.VERSION | {"ddp", "ddp_mode", "ddp_implementation"}
    for at, column in enumerate(columns):
        cells = [row[at].lower() for row in table.rows if row[at].strip()]
        moded = [any(word in one for word, _ in MODES) for one in cells]
        known = all(mode or VARIANT.search(one) for mode, one in zip(moded, cells, strict=True))
        if any(moded) and known and meaning.name_is(column, names):
            return at
    return None


def _timed(columns: tuple[Column, ...]) -> dict[int, str]:
    """Columns of times by what they are of."""
    found = {}
    for at, column in enumerate(columns):
        what = meaning.quantity(column)
        if what and what.name in _TIMES and column.unit is not None and column.unit.suffix == "_s":
            found[at] = _TIMES[what.name]
    return found


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all such tables under one heading."""
    tables, findings, rows, warnings = opened(blocks)
    for table in tables:
        new = _rows(table, findings)
        warnings += said_in_text(new, table)
        rows += new
    return Reading(rows=rows, warnings=warnings + shared_warnings(findings, rows, tables))


def _rows(table: Table, findings: Findings) -> list[dict[str, Any]]:
    columns = columns_of(table)
    of_variant, timed = _variants(table, columns), _timed(columns)
    rows = []
    for line, cells in zip(table.lines, table.rows, strict=True):
        findings.line = line
        row: dict[str, Any] = {}
        oom = findings.oom
        for at, (column, text) in enumerate(zip(columns, cells, strict=True)):
            if at == of_variant:
                row |= variant(text)
            elif at in timed:
                put(row, timed[at], text, column, findings)
            else:
                describe(row, column, text, findings)
        if "gpus" in row:
            row["world_size"] = row.pop("gpus")
        row["status"] = row_status(row, findings, oom=findings.oom > oom)
        rows.append(row)
    return rows
