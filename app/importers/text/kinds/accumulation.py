"""Accumulation experiments: numbered cases with a result, what was expected, and the error."""

from __future__ import annotations

from typing import Any

from app.importers.text.layout.document import Block, Document, Fields, KeyValue
from app.importers.text.reading import Decisions, Reading
from app.importers.text.values.cells import cell

KIND = "accumulation"


def matches(block: Block) -> bool:
    """A block with results beside the expected value."""
    return isinstance(block, Fields) and block.get("expected") is not None and block.get("result") is not None


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all such cases under one heading; a case with results of several formats gives one row for each."""
    rows: list[dict[str, Any]] = []
    for block in blocks:
        if not isinstance(block, Fields):
            continue
        for group in dict.fromkeys(entry.group for entry in block.entries):
            rows += _rows([entry for entry in block.entries if entry.group == group], block.title)
    return Reading(rows=rows)


def _rows(entries: list[KeyValue], title: str) -> list[dict[str, Any]]:
    wanted = next((entry for entry in entries if "expected" in entry.key.lower()), None)
    expected = cell(wanted.value).value if wanted else None
    rows = []
    for entry in entries:
        key = entry.key.lower()
        if "result" not in key:
            continue
        result = cell(entry.value.split(",")[0]).value
        row: dict[str, Any] = {"experiment": entry.group or title.strip(" :"), "result": result}
        if variant := key.replace("result", "").strip():
            row["variant"] = variant
        row["expected"] = expected
        if result is not None and expected is not None:
            row["error"] = abs(result - expected)
        rows.append(row)
    return rows
