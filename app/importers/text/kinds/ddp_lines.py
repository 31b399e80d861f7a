"""Data-parallel variants, one line each: ``FlatDDP | bkw pass and communication time (ms) | min … mean … max``."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from app.importers.text.kinds.ddp_breakdown import MODES
from app.importers.text.layout.document import Block, Document, Table, place
from app.importers.text.reading import Decisions, Reading, opened, shared_warnings
from app.importers.text.values import meaning
from app.importers.text.values.figures import columns_of, put
from app.importers.text.values.header import column
from app.importers.text.values.units import unit
from estimator.scenario.measurement import Warning
from estimator.scenario.units import MIB

KIND = "data-parallel-variants"
VARIANT = re.compile(r"ddp|fsdp|dataparallel|data[_ ]parallel|zero", re.IGNORECASE)
_BUCKET = re.compile(r"\((\d{1,9}(?:\.\d{1,3})?)\s*([kKMG]i?B)\)")
_ASKED_SIZE = re.compile(
    r"size of the model[^:]{0,60}:\s*(\d{1,12})\s*$|model size\s*[:=]\s*(\d{1,12})\s*$", re.IGNORECASE
)
_BACKEND = re.compile(r"\b(nccl|gloo|mpi)\b", re.IGNORECASE)
_MODES = (*MODES, ("ddp", "overlapped"))


def matches(block: Block) -> bool:
    """Statistics lines whose label names a data-parallel variant, not one that a log wrote before its settings."""
    if not isinstance(block, Table) or block.form != "statistics" or "=" in block.rows[0][0]:
        return False
    return bool(VARIANT.search(block.rows[0][0]))


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all such lines under one heading; the lines before a group tell backend and size of its model."""
    tables, findings, rows, _ = opened(blocks)
    said: dict[str, Any] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    loose = False
    for table in tables:
        for line in table.around.before:
            if found := _ASKED_SIZE.search(line):
                said["model_size"] = int(found[1] or found[2])
            if found := _BACKEND.search(line):
                said["backend"] = found[1].lower()
        columns = columns_of(table)
        for cells in table.rows:
            row: dict[str, Any] = {**said, **variant(cells[0])}
            loose = loose or "bucket_bytes" in row
            case = (row.get("model_size"), row["variant"], row.get("bucket_bytes"))
            seen[case] += 1
            row["repeat"] = seen[case]
            measured = next(
                (text for name, text in zip(table.columns[1:], cells[1:], strict=True) if "label" in name), ""
            )
            what = meaning.quantity(column(measured)) if measured else None
            for header, text in zip(columns, cells, strict=True):
                if not header.header.startswith("label"):
                    put(row, what.name if what else "time", text, header, findings)
            rows.append(row)
    warnings = shared_warnings(findings, rows, tables)
    if loose:
        message = "Bucket sizes in 'MB' were read as MiB, as PyTorch's bucket_cap_mb counts"
        warnings.append(Warning(code="mb-is-mib", message=message, where=place(tables[0])))
    return Reading(rows=rows, warnings=warnings)


def variant(text: str) -> dict[str, Any]:
    """A variant as it is named, what it exchanges gradients by, and the bytes of its buckets."""
    found = _BUCKET.search(text)
    name = _BUCKET.sub("", text).strip()
    row: dict[str, Any] = {"variant": name}
    mode = next((mode for word, mode in _MODES if word in name.lower()), None)
    if mode:
        row["ddp_mode"] = mode
    if found and (size := unit(found[2])) is not None:
        scale = {1e3: 1024.0, 1e6: float(MIB), 1e9: 1024.0 * MIB}.get(size.scale, size.scale)
        row["bucket_bytes"] = float(found[1]) * scale
    return row
