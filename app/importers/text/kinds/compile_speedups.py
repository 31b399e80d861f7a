"""Compile speed-ups: how many times faster one version is than another, by configuration, and what memory changed."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from app.importers.text.kinds.attention import describe, megabyte_of
from app.importers.text.layout.document import Block, Document, Fields, place
from app.importers.text.reading import Decisions, Reading, shared_warnings
from app.importers.text.values import meaning
from app.importers.text.values.cells import cell
from app.importers.text.values.figures import Findings, columns_of, keep, printed_sizes, put
from app.importers.text.values.megabytes import rescale, warning

KIND = "speedups"
_TIMES_AS_FAST = ("", "x", "X", "%")
_LOOKED_AT = 200
_PART = re.compile(r"([A-Za-z_]{1,20})\s*=\s*(\d{1,12})")
_SUMMARY = re.compile(r"([\d.]{1,12})\s*x?(?:\s*\(std:?\s*([\d.]{1,12})\))?$")


def matches(block: Block) -> bool:
    """A table whose times are all speed-ups, or the lines of its averages."""
    if isinstance(block, Fields):
        return len(block.entries) >= 2 and all("speedup" in entry.key.lower() for entry in block.entries)
    kinds = [(i, what.name) for i, column in enumerate(columns_of(block)) if (what := meaning.quantity(column))]
    faster = [i for i, kind in kinds if "speedup" in kind]
    if not faster or not all("speedup" in kind or "memory" in kind for _, kind in kinds):
        return False
    # a speed of 1.5 s/it is none
    return all(cell(cells[i]).unit in _TIMES_AS_FAST for cells in block.rows[:_LOOKED_AT] for i in faster)


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all speed-up tables under one heading; averages printed below them go to ``samples``."""
    findings = Findings()
    rows: list[dict[str, Any]] = []
    samples: dict[str, Any] = {}
    for block in blocks:
        if isinstance(block, Fields):
            samples |= _averages(block)
            continue
        columns = columns_of(block)
        kinds = [meaning.quantity(column) for column in columns]
        repeated = Counter(what.name for what in kinds if what)
        for cells in block.rows:
            row: dict[str, Any] = {}
            for i, column in enumerate(columns):
                what = kinds[i]
                if what is None and (found := _configuration(cells[i])):
                    row |= found
                elif what is None and (column.unit is None or not row):
                    describe(row, column, cells[i])
                elif what is None:
                    keep(row, column.name, cells[i], column, findings)
                elif what.name.endswith("speedup"):
                    row[what.name if repeated[what.name] == 1 else column.name] = cell(cells[i]).value
                else:
                    put(row, what.name, cells[i], column, findings)
            rows.append(row)
    first = blocks[0]
    warnings = []
    if findings.loose_sizes:
        scale = megabyte_of(decisions, first.around.heading)
        if scale is not None:
            rescale(rows, findings.loose_sizes, scale)
        warnings.append(warning(scale, place(first), printed_sizes(findings)))
    return Reading(rows=rows, warnings=warnings + shared_warnings(findings, rows, blocks), samples=samples)


def _configuration(text: str) -> dict[str, int]:
    found = {key.lower(): int(value) for key, value in _PART.findall(text)}
    return {
        "seq_len" if key in meaning.SEQ_LEN else "d_model" if key in meaning.WIDTH else key: value
        for key, value in found.items()
    }


def _averages(block: Fields) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in block.entries:
        read = _SUMMARY.match(entry.value)
        if read is None:
            continue
        key = "_".join(entry.key.lower().split())
        mean, spread = cell(read[1]).value, cell(read[2] or "").value
        if mean is not None:
            found[key] = mean
        if spread is not None:
            found[f"{key}_std"] = spread
    return found
