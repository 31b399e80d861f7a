"""Attention: forward and backward seconds and memory of one attention call, by width and sequence length."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from app.importers.text.kinds.step_prose import fill_in, said_before
from app.importers.text.layout.document import Block, Document, Table, place
from app.importers.text.reading import Decisions, Reading, opened, row_status, shared_warnings
from app.importers.text.values import meaning
from app.importers.text.values.attention_softmax import recognise_memory
from app.importers.text.values.cells import cell
from app.importers.text.values.figures import Findings, answers_only, columns_of, printed_sizes, put, whole
from app.importers.text.values.header import Column
from app.importers.text.values.megabytes import megabyte, rescale, warning
from app.importers.text.values.precision import from_text
from app.importers.text.values.units import Unit
from estimator.scenario.measurement import Warning

KIND = "attention"
_LONG_ENOUGH_S = 1e-3
"""Shorter calls time the launch, not the work."""
_FORWARD_INSIDE = 2.9
"""Backward alone takes 2 to 2.5 times the forward of attention; with the forward inside, 3 times and more."""


def matches(block: Block) -> bool:
    """A table over sequence lengths and widths with a forward time, of one implementation."""
    if not isinstance(block, Table) or block.form == "statistics":
        return False
    columns = columns_of(block)
    names = {
        what.name
        for i, column in enumerate(columns)
        if (what := meaning.quantity(column)) and not what.of and not answers_only(block.rows, i)
    }
    return "forward" in names and has_sweep(columns) and not any(meaning.name_is(c, meaning.MODEL) for c in columns)


def has_sweep(columns: tuple[Column, ...]) -> bool:
    """Whether there are columns for the sequence length and for the width of a head."""
    return all(any(meaning.name_is(c, names) for c in columns) for names in (meaning.SEQ_LEN, meaning.WIDTH))


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all attention tables under one heading."""
    tables, findings, rows, said = opened(blocks)
    for table in tables:
        columns = columns_of(table)
        counted = {i: _BYTES for i, one in enumerate(columns) if _is_bytes(one, [cells[i] for cells in table.rows])}
        begun = len(rows)
        for cells in table.rows:
            row: dict[str, Any] = {}
            oom = findings.oom
            for i, column in enumerate(columns):
                _read(row, column, cells[i], findings, counted.get(i))
            row["status"] = row_status(row, findings, oom=findings.oom > oom)
            rows.append(row)
        said += fill_in(rows[begun:], said_before(table), place(table), ("batch", "precision"))
    where = place(tables[0])
    warnings = said + _megabytes(rows, findings, where, decisions, tables[0].around.heading)
    warnings += _forward_inside(rows, where)
    recognise_memory(rows)
    return Reading(rows=rows, warnings=warnings + shared_warnings(findings, rows, tables))


def _read(row: dict[str, Any], column: Column, text: str, findings: Findings, assumed: Unit | None) -> None:
    what = meaning.quantity(column)
    if what is not None:
        put(row, what.name, text, column, findings, assumed)
    else:
        describe(row, column, text)


def _is_bytes(column: Column, cells: Sequence[str]) -> bool:
    """Whether a column of memory without a unit counts bytes: whole numbers, each over a million."""
    what = meaning.quantity(column)
    values = [read.value for read in map(cell, cells) if read.value is not None]
    memory = column.unit is None and what is not None and "memory" in what.name
    return memory and bool(values) and all(value == int(value) and value >= _FEWEST_BYTES for value in values)


_BYTES = Unit(suffix="_bytes", scale=1.0)
_FEWEST_BYTES = 1e6


def describe(row: dict[str, Any], column: Column, text: str) -> None:
    """Write a column that tells which case a row is: width, length, version, precision; check marks say nothing."""
    counts = ((meaning.SEQ_LEN, "seq_len"), (meaning.WIDTH, column.name), (meaning.BATCH, "batch"))
    for names, key in counts:
        if meaning.name_is(column, names) and (count := whole(text)) is not None:
            row[key] = count
            return
    if meaning.name_is(column, meaning.PRECISION):
        row["precision"] = from_text(text)
    elif meaning.name_is(column, meaning.VERSION):
        row["version"] = text.strip("*` ")
        if row["version"].lower() in ("compiled", "uncompiled", "not compiled", "eager"):
            row["compile"] = row["version"].lower() == "compiled"
    elif not meaning.name_is(column, meaning.STATUS):
        read = cell(text)
        if read.value is None or read.unit or read.spread is not None:
            row[column.name] = text.strip("*` ")
        else:
            number = whole(text)
            row[column.name] = read.value if number is None else number


def _megabytes(
    rows: list[dict[str, Any]], findings: Findings, where: str, decisions: Decisions, heading: tuple[str, ...]
) -> list[Warning]:
    if not findings.loose_sizes:
        return []
    group = [name for name in ("version", "d_model", "head_dim", "d", "precision") if any(name in row for row in rows)]
    found = [megabyte(rows, key, group, printed) for key, printed in sorted(findings.loose_sizes.items())]
    scale = next((scale for scale in found if scale is not None), None)
    if scale is not None:
        rescale(rows, findings.loose_sizes, scale)
        decisions.megabyte[heading[0] if heading else ""] = scale
    return [warning(scale, where, printed_sizes(findings))]


def _forward_inside(rows: list[dict[str, Any]], where: str) -> list[Warning]:
    """Where backward takes three times the forward, the forward was timed again inside it."""
    ratios = [
        row["backward_s"] / row["forward_s"]
        for row in rows
        if row.get("backward_s") and row.get("forward_s") and row["forward_s"] > _LONG_ENOUGH_S
    ]
    if len(ratios) < 3 or statistics.median(ratios) < _FORWARD_INSIDE:
        return []
    for row in rows:
        for key in [key for key in row if key.startswith("backward_")]:
            row[key.replace("backward_", "forward_backward_", 1)] = row.pop(key)
    message = (
        f"'Backward' takes {statistics.median(ratios):.1f} times the forward at long sequences, where backward alone "
        "takes 2 to 2.5 times: its loop times forward and backward together. It was stored as forward_backward_s; "
        "subtract forward_s for the backward alone"
    )
    return [Warning(code="backward-contains-forward", message=message, where=where)]


def megabyte_of(decisions: Decisions, heading: tuple[str, ...]) -> float | None:
    """What an earlier attention table under the same top heading settled about MB."""
    return decisions.megabyte.get(heading[0] if heading else "")
