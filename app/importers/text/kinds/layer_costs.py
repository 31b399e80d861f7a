"""Costs of a transformer's layers, as the notebooks of transformer-perf-estimates print them: a row for each layer."""

from __future__ import annotations

import re
from typing import Any

from app.importers.text.layout.document import Block, Document, Table, place
from app.importers.text.reading import Decisions, Reading
from app.importers.text.values.cells import cell
from app.importers.text.values.figures import scaled
from estimator.scenario.measurement import Warning

KIND = "layer-costs"
_NEEDED = {"layer", "flops_fwd", "flops_bwd", "weights_mem", "total_mem_fwd"}
_UNITS = (
    (re.compile(r"^flops_"), "_flops", 1e12),
    (re.compile(r"^t_"), "_s", 1e-3),
    (re.compile(r"(?:_mem|_buffer|_mem_fwd|_mem_bwd)$|^comm_(?:fwd|bwd)$"), "_bytes", 1e9),
)
"""TFLOP, GB of 10⁹ bytes and milliseconds: what its helpers compute, though their docstrings say MB."""
_TEXTS = ("layer", "comm_bwd_type", "comm_fwd_type", "comm_topology")
_SUM = re.compile(r"^(\w{3,40})\s+([\d.]{1,30})$")
_SHARE = re.compile(r"time spen[dt] in comms = ([\d.]{1,30})")


def matches(block: Block) -> bool:
    """A table with the columns that name a layer's work and memory."""
    return isinstance(block, Table) and set(block.columns) >= _NEEDED


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read the layers, a table for each block of the model, and the sums that are printed below."""
    rows: list[dict[str, Any]] = []
    sums: dict[str, Any] = {}
    warnings = []
    for table in (block for block in blocks if isinstance(block, Table)):
        first = table.rows[0][table.columns.index("layer")]
        for cells in table.rows:
            rows.append({"table": f"from {first}", **_row(dict(zip(table.columns, cells, strict=True)))})
        for line in table.around.after:
            if found := _SUM.match(line):
                key, value = _si(found[1], float(found[2]) if found[2].count(".") < 2 else 0.0)
                sums[f"from {first}: {key}"] = value
            elif found := _SHARE.search(line):
                sums[f"from {first}: communication_frac"] = float(found[1])
        message = (
            "Columns name no unit; memory was read as 10⁹ bytes, FLOPs as 10¹², times as ms, as its notebooks have them"
        )
        warnings.append(Warning(code="units-of-tool", message=message, where=place(table)))
    message = "These are figures of a model, not of a machine that ran; the study transformer-tables derives them"
    warnings.append(Warning(code="modelled", message=message, where=place(blocks[0])))
    return Reading(rows=rows, warnings=warnings, samples={"sums_of_all_layers": sums} if sums else {})


def _row(cells: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, text in cells.items():
        read = cell(text)
        if name in _TEXTS:
            row[name] = read.text or None
        elif name and not name.startswith("Unnamed"):
            key, value = _si(name, read.value)
            row[key] = value
    return row


def _si(name: str, value: float | None) -> tuple[str, float | None]:
    for pattern, suffix, scale in _UNITS:
        if pattern.search(name):
            plain = (
                name.removeprefix("t_")
                if suffix == "_s"
                else name.removeprefix("flops_")
                if suffix == "_flops"
                else name
            )
            return f"{plain}{suffix}", None if value is None else scaled(value, scale)
    return name, value
