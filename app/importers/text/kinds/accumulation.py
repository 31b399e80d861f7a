"""Accumulation experiments: numbered cases with a result, what was expected, and the error."""

from __future__ import annotations

from typing import Any

from app.importers.text.cells import cell
from app.importers.text.document import Block, Document, Fields
from app.importers.text.reading import Decisions, Reading

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
        wanted = block.get("expected")
        expected = cell(wanted.value).value if wanted else None
        for entry in block.entries:
            key = entry.key.lower()
            if "result" not in key:
                continue
            result = cell(entry.value.split(",")[0]).value
            variant = key.replace("result", "").strip()
            row: dict[str, Any] = {"experiment": entry.group or block.title.strip(" :"), "result": result}
            if variant:
                row["variant"] = variant
            row["expected"] = expected
            if result is not None and expected is not None:
                row["error"] = abs(result - expected)
            rows.append(row)
    return Reading(rows=rows)
