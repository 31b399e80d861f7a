"""Measured runs: the table that ``headroom validate`` reads, one run a row, under its own column names."""

from __future__ import annotations

from typing import Any

from app.importers.text.layout.document import Block, Document, Table, place
from app.importers.text.reading import Decisions, Reading, no_count
from app.importers.text.values.cells import cell
from estimator.scenario.measurement import OOM, Warning
from estimator.validation.csv_row import COUNTS, says_out_of_memory
from estimator.validation.measured import is_count

KIND = "measured-runs"
_COLUMNS = {
    "hardware", "n_gpus", "model", "n_layers", "d_model", "n_heads", "n_kv_heads", "d_ff", "vocab", "seq_len",
    "global_batch", "micro_batch", "tp", "pp", "vp", "dp", "cp", "ep", "sharding", "sequence_parallel", "recompute",
    "precision", "attention_impl", "compile", "measured_step_time_s", "measured_tokens_per_s_per_gpu",
    "measured_tflops_per_gpu", "measured_mfu", "measured_peak_mem_gib",
}  # fmt: skip
_ENOUGH = 8
_FALSE, _TRUE = ("false", "no"), ("true", "yes")


def matches(block: Block) -> bool:
    """A table with a good part of those columns, a measured one among them."""
    if not isinstance(block, Table):
        return False
    known = _COLUMNS.intersection(block.columns)
    return len(known) >= _ENOUGH and any(name.startswith("measured_") for name in block.columns)


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Keep every cell that is filled, as the type that it looks like; the units are in the columns' names already."""
    tables = [block for block in blocks if isinstance(block, Table)]
    rows: list[dict[str, Any]] = [
        {name: _value(text) for name, text in zip(table.columns, cells, strict=True) if name and text.strip()}
        for table in tables
        for cells in table.rows
    ]
    for row in rows:
        if says_out_of_memory({name: str(row.get(name, "")) for name in ("oom", "status")}):
            row["status"] = OOM
    unmeasured = sum(not any(key.startswith("measured_") for key in row) for row in rows if row.get("status") != OOM)
    warnings = []
    if unmeasured:
        message = f"{unmeasured} row{' holds' if unmeasured == 1 else 's hold'} no measured value"
        warnings.append(Warning(code="missing-cells", message=message, where=place(tables[0])))
    for column in COUNTS:
        printed = [
            str(value) for row in rows if isinstance(value := row.get(column), (int, float)) and not is_count(value)
        ]
        if printed:
            warnings.append(no_count(column, printed, place(tables[0])))
    return Reading(rows=rows, warnings=warnings)


def _value(text: str) -> Any:
    plain = text.strip()
    if plain.lower() in _FALSE + _TRUE:
        return plain.lower() in _TRUE
    read = cell(plain)
    if read.value is None or read.unit or read.spread is not None:
        return read.text if read.missing else plain[:1000]
    return int(read.value) if plain.lstrip("+-").isdigit() and abs(read.value) < 1e15 else read.value
