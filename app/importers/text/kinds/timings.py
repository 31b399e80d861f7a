"""Timings: plain lines ``Softmax operation: 288 μs`` or ``Forward pass mean time: 20.96 ms``."""

from __future__ import annotations

import re
from typing import Any

from app.importers.text.layout.document import Block, Document, Fields, KeyValue
from app.importers.text.reading import Decisions, Reading
from app.importers.text.values.cells import cell
from app.importers.text.values.figures import Findings, put
from app.importers.text.values.header import column
from app.importers.text.values.units import is_time

KIND = "timings"
_NO_HEADER = column("time")
_SUM = re.compile(r"Self \w{2,12} time total$")
"""What key_averages() prints under its table, of which it is the sum."""
_FILLERS = ("time", "dev", "deviation", "duration")


def matches(block: Block) -> bool:
    """Two or more lines that are nothing but a name and a time with its unit."""
    return isinstance(block, Fields) and sum(_is_timing(entry) for entry in block.entries) >= 2


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all such lines under one heading; a spread on a line of its own joins the mean that it belongs to."""
    rows: list[dict[str, Any]] = []
    for block in blocks:
        if not isinstance(block, Fields):
            continue
        by_name: dict[str, dict[str, Any]] = {}
        for entry in filter(_is_timing, block.entries):
            header = column(entry.key)
            words = [word for word in header.words if word not in _FILLERS]
            name = " ".join(words) if header.statistic and words else entry.key
            row = by_name.setdefault(name, {"name": name, **({"group": entry.group} if entry.group else {})})
            found: dict[str, Any] = {}
            put(found, header.statistic or "mean", entry.value, _NO_HEADER, Findings())
            row.update(found)
        rows += by_name.values()
    return Reading(rows=rows)


def _is_timing(entry: KeyValue) -> bool:
    if _SUM.match(entry.key):
        return False
    read = cell(entry.value)
    return read.value is not None and is_time(read.unit)
