"""Attention memory: the bytes that attention keeps, by sequence length, one small table for each width or version."""

from __future__ import annotations

import math
import re
from typing import Any

from app.importers.text.kinds.attention import megabyte_of
from app.importers.text.layout.document import Block, Document, Table, place
from app.importers.text.reading import Decisions, Reading, opened, shared_warnings
from app.importers.text.values import meaning
from app.importers.text.values.attention_softmax import recognise_memory
from app.importers.text.values.figures import Findings, columns_of, printed_sizes, put, whole
from app.importers.text.values.megabytes import megabyte, rescale, warning

KIND = "attention-memory"
_GROUP = re.compile(
    r"(?:(?P<name>[A-Za-z_]{1,20})\s*[=:]\s*)?(?P<value>\d{1,9})\s*(?:\((?P<version>[^()]{1,40})\))?\s*:?$"
)
_SAME = 1e-4


def matches(block: Block) -> bool:
    """A table of sequence lengths and memory, without times."""
    if not isinstance(block, Table) or block.form == "statistics":
        return False
    columns = columns_of(block)
    kinds = [what.name if (what := meaning.quantity(column)) else "" for column in columns]
    return (
        "memory" in kinds
        and all(kind in ("", "memory", "memory_per_seq_squared") for kind in kinds)
        and meaning.name_is(columns[0], meaning.SEQ_LEN)
        and not any(column.unit and column.unit.suffix == "_s" for column in columns)
    )


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all such tables under one heading; the line over each names its width and version."""
    tables, findings, rows, _ = opened(blocks)
    for table in tables:
        columns = columns_of(table)
        for cells in table.rows:
            row = _group(table)
            per_square: float | None = None
            for i, column in enumerate(columns):
                what = meaning.quantity(column)
                if what is None:
                    row["seq_len"] = whole(cells[i])
                elif what.name == "memory":
                    put(row, "memory_before_backward", cells[i], column, findings)
                else:
                    per_square = put({}, what.name, cells[i], column, Findings()).value
            _per_square(row, per_square)
            rows.append(row)
    where = place(tables[0])
    warnings = []
    if findings.loose_sizes:
        printed = printed_sizes(findings)
        scale = megabyte(rows, "memory_before_backward_bytes", ["d_model", "version"], printed)
        scale = scale or megabyte_of(decisions, tables[0].around.heading)
        if scale is not None:
            rescale(rows, {**findings.loose_sizes, "memory_per_seq_squared_bytes": printed}, scale)
        warnings.append(warning(scale, where, printed))
    recognise_memory(rows)
    return Reading(rows=rows, warnings=warnings + shared_warnings(findings, rows, tables))


def _group(table: Table) -> dict[str, Any]:
    found = _GROUP.match(table.around.before[-1].strip()) if table.around.before else None
    if found is None:
        return {}
    row: dict[str, Any] = {(found["name"] or "d_model").lower(): int(found["value"])}
    if found["version"]:
        row["version"] = found["version"]
    return row


def _per_square(row: dict[str, Any], printed: float | None) -> None:
    """Such columns print MB / S² · 10⁶; kept in bytes where the printed number is just that."""
    memory, seq = row.get("memory_before_backward_bytes"), row.get("seq_len")
    if printed is None or not memory or not seq:
        return
    if math.isclose(printed, memory / seq**2, rel_tol=max(_SAME, 0.006e6 / memory)):
        row["memory_per_seq_squared_bytes"] = printed
    else:
        row["memory_per_seq_squared"] = printed
