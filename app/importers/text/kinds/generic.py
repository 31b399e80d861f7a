"""Generic tables: rows of a meaning that nobody here knows, kept under the names of their columns."""

from __future__ import annotations

from typing import Any

from app.importers.text.layout.document import Block, Document, Table, place
from app.importers.text.reading import Decisions, Reading, opened, row_status, shared_warnings
from app.importers.text.values import meaning
from app.importers.text.values.cells import cell
from app.importers.text.values.figures import Findings, columns_of, count, keep, printed_sizes
from app.importers.text.values.header import Column
from app.importers.text.values.megabytes import warning
from app.importers.text.values.rates import rate_of
from estimator.scenario.measurement import Warning
from estimator.validation.spellings import is_out_of_memory

KIND = "table"
_RATES = {"t/s": "tokens_per_s"}
"""What llama.cpp's benchmark prints, which is of inference, so that it is no rate of a step."""


def matches(block: Block) -> bool:
    """Any table with a figure in it."""
    return isinstance(block, Table) and any(
        cell(text).value is not None or cell(text).missing == "oom" for row in block.rows for text in row
    )


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Keep all rows; times and sizes become SI where the header or the cell names a unit, and are asked for else."""
    tables, findings, rows, _ = opened(blocks)
    for table in tables:
        columns = _named(columns_of(table))
        for line, cells in zip(table.lines, table.rows, strict=True):
            row: dict[str, Any] = {}
            findings.line = line
            for (name, column), text in zip(columns, cells, strict=True):
                _keep(row, name, text, column, findings)
            if any(is_out_of_memory(column.name) for _, column in columns):
                row["status"] = row_status(row, findings, oom=False)
            rows.append(row)
    where = place(tables[0])
    names = ", ".join(repr(name) for name in tables[0].columns[:8])
    kept = (
        "with their units in the names of their columns"
        if _renamed(tables[0], rows)
        else "under the names of its columns"
    )
    message = f"This table is of no known kind (columns {names}); its rows were kept {kept}"
    warnings = [Warning(code="unrecognised-table", message=message, where=where)]
    if findings.loose_sizes:
        warnings.append(warning(None, where, printed_sizes(findings)))
    return Reading(rows=rows, warnings=warnings + shared_warnings(findings, rows, tables))


def _renamed(table: Table, rows: list[dict[str, Any]]) -> bool:
    """Whether rows have columns that the table does not name so: ``mean_step_ms`` is kept as ``step_s``."""
    return bool({name for row in rows for name in row} - {*table.columns, "status"})


def _keep(row: dict[str, Any], name: str, text: str, column: Column, findings: Findings) -> None:
    """Write a cell; of parameters ``6.74 B`` are billions, and a rate counts what its header says."""
    read = cell(text)
    parameters = meaning.name_is(column, meaning.PARAMETERS) and count(text)
    rate = _RATES.get(column.header.strip("*`_ ").lower(), "") or rate_of(column.header)
    if parameters:
        row[name] = int(parameters) if parameters == int(parameters) else parameters
    elif rate and read.value is not None and not read.unit:
        row[rate] = read.value
        if read.spread is not None:
            row[f"{rate}_std"] = read.spread
    else:
        keep(row, name, text, column, findings)


def _named(columns: tuple[Column, ...]) -> list[tuple[str, Column]]:
    """Give each column a key of its own."""
    used: dict[str, int] = {}
    named = []
    for i, column in enumerate(columns):
        name = column.name or f"column_{i + 1}"
        used[name] = used.get(name, 0) + 1
        statistic = f"_{column.statistic}" if column.statistic else ""
        repeated = used[name] > 1 and not statistic
        named.append((f"{name}_{used[name]}" if repeated else name, column))
    return named
