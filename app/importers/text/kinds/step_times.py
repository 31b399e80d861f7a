"""Step times: forward, backward and whole-step seconds by model, sequence length and precision."""

from __future__ import annotations

import re
from typing import Any

from app.importers.text import meaning
from app.importers.text.columns import Column
from app.importers.text.document import Block, Document, Table, place
from app.importers.text.figures import Findings, columns_of, put
from app.importers.text.megabytes import warning
from app.importers.text.models import assigned_batch
from app.importers.text.precision import from_label, is_mixed
from app.importers.text.reading import Decisions, Reading, shared_warnings
from app.importers.text.step_checks import contained_backward, total_is_sum
from app.importers.text.step_rows import describe
from app.importers.text.units import Unit
from estimator.scenario.measurement import Warning

KIND = "step-times"
_SECONDS = Unit(suffix="_s", scale=1.0)
_OUT_OF_MEMORY = re.compile(r"\bout of mem|\boom\b", re.IGNORECASE)
_COMPILED = {"compiled": True, "not compiled": False, "uncompiled": False, "eager": False, "torch.compile": True}
_STEP_QUANTITIES = ("forward", "backward", "forward_backward", "step", "optimizer", "communication")


def matches(block: Block) -> bool:
    """A table with a model column and at least one time of a step."""
    if not isinstance(block, Table) or block.form == "statistics":
        return False
    columns = columns_of(block)
    return any(meaning.name_is(column, meaning.MODEL) for column in columns) and bool(_timings(columns))


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all step-time tables under one heading."""
    tables = [block for block in blocks if isinstance(block, Table)]
    findings = Findings()
    rows: list[dict[str, Any]] = []
    warnings: list[Warning] = []
    for table in tables:
        new = _rows(table, findings, warnings, document, decisions)
        total_is_sum(new)
        warnings += contained_backward(new, place(table))
        rows += new
        oom, said = _out_of_memory(table, rows)
        rows += oom
        warnings += said
    warnings += _assumed_batch(rows, place(tables[0]))
    if findings.loose_sizes:
        warnings.append(warning(None, place(tables[0])))
    return Reading(rows=rows, warnings=warnings + shared_warnings(findings, rows, tables))


def _timings(columns: tuple[Column, ...]) -> list[tuple[int, Column, meaning.Quantity]]:
    found = []
    for i, column in enumerate(columns):
        what = meaning.quantity(column)
        if what and what.name in _STEP_QUANTITIES and (column.unit is None or column.unit.suffix == "_s"):
            found.append((i, column, what))
    return found


def _rows(
    table: Table, findings: Findings, warnings: list[Warning], document: Document, decisions: Decisions
) -> list[dict[str, Any]]:
    columns = columns_of(table)
    timings = _timings(columns)
    timed = {i for i, _, _ in timings}
    precision, ground = _precision(table, columns, document, decisions)
    compiled = next(
        (_COMPILED[name.lower()] for name in reversed(table.around.labels) if name.lower() in _COMPILED), None
    )
    rows = []
    for cells in table.rows:
        row: dict[str, Any] = {}
        oom = findings.oom
        for i, column in enumerate(columns):
            if i not in timed:
                describe(row, column, cells[i], findings)
        if precision:
            row.setdefault("precision", precision)
        if row.get("precision") == "bf16" and is_mixed(table.around.heading):
            row["precision"] = "bf16-amp"
        if compiled is not None:
            row["compile"] = compiled
        for i, column, what in timings:
            key = what.name + ("_total" if what.total else "")
            put(row, key, cells[i], column, findings, assumed=_SECONDS)
        if (count := _iterations(row)) is not None:
            row.setdefault("iterations", count)
        row["status"] = "oom" if findings.oom > oom else "ok"
        rows.append(row)
    if any(column.unit is None for _, column, _ in timings):
        warnings.append(
            Warning(
                code="unit-assumed",
                message="The time columns name no unit; they were read as seconds, which Python's clocks return. "
                "Write the unit into the header, as in 'avg_forward_time (ms)', if it is another",
                where=place(table),
            )
        )
    if precision and ground:
        warnings.append(Warning(code="precision-assumed", message=ground, where=place(table)))
    return rows


def _iterations(row: dict[str, Any]) -> int | None:
    """Total over mean, where both are printed and their ratio is a whole number."""
    for name in _STEP_QUANTITIES:
        mean, total = row.get(f"{name}_s"), row.get(f"{name}_total_s")
        if mean and total and abs(total / mean - round(total / mean)) < 1e-3:
            return round(float(total) / float(mean))
    return None


def _precision(table: Table, columns: tuple[Column, ...], document: Document, decisions: Decisions) -> tuple[str, str]:
    """Return the precision of a table without such a column, and the ground where it is only an assumption."""
    if any(meaning.name_is(column, meaning.PRECISION) for column in columns):
        return "", ""
    for label in reversed(table.around.labels):
        if found := from_label(label):
            return found, ""
    if decisions.precision_columns is None:
        decisions.precision_columns = any(_has_precision(block) for block in document.blocks)
    if decisions.precision_columns:
        return "fp32", (
            "This table has no precision column while others of the text do; it was read as fp32, PyTorch's default"
        )
    return "", ""


def _has_precision(block: Block) -> bool:
    if not isinstance(block, Table) or not matches(block):
        return False
    return any(meaning.name_is(column, meaning.PRECISION) for column in columns_of(block))


def _out_of_memory(table: Table, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Warning]]:
    """Read sentences after a table such as 'xl 1024 ran out of memory' as rows; names are those of the table."""
    said = [line for line in table.around.after[:6] if _OUT_OF_MEMORY.search(line)]
    if not said:
        return [], []
    known = {row["model"]: row for row in rows if row.get("model")}
    measured = {(row.get("model"), row.get("seq_len")) for row in rows}
    found = []
    for line in said:
        for name in sorted(known, key=len, reverse=True):
            between = r"(?:[\s,:]+(?:at|with|seq|sequence|length|s)){0,3}[\s,:=_]*"
            pattern = rf"(?<![\w.]){re.escape(name)}{between}(\d{{2,9}})(?![\w.])"
            for hit in re.finditer(pattern, line):
                if (name, int(hit[1])) not in measured:
                    like = known[name]
                    row: dict[str, Any] = {
                        key: like[key] for key in ("model", "parameters", "precision", "catalogue_model") if key in like
                    }
                    row |= {key: None for key in like if key.endswith("_s")}
                    found.append({**row, "seq_len": int(hit[1]), "status": "oom"})
    if not found:
        message = "The text after this table says that something ran out of memory, without naming a row of it"
        return [], [Warning(code="oom-mentioned", message=message, where=place(table))]
    names = ", ".join(f"{row['model']} at {row['seq_len']}" for row in found)
    message = f"Rows that the text says ran out of memory were added with status oom: {names}"
    return found, [Warning(code="oom-rows", message=message, where=place(table))]


def _assumed_batch(rows: list[dict[str, Any]], where: str) -> list[Warning]:
    batch = assigned_batch([row.get("catalogue_model", "") for row in rows])
    if batch is None or any("batch" in row for row in rows):
        return []
    for row in rows:
        row["batch"] = batch
    return [
        Warning(
            code="batch-assumed",
            message=f"No batch size is given; the parameter counts are those of the CS336 assignment, whose batch is "
            f"{batch}, and that was taken",
            where=where,
        )
    ]
