"""Step times: forward, backward and whole-step seconds by model, sequence length and precision."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

from app.importers.text.kinds.run_cells import describe
from app.importers.text.kinds.step_checks import (
    batch_of_tokens,
    contained_backward,
    milliseconds,
    settle,
    total_is_sum,
)
from app.importers.text.kinds.step_prose import Said, fill_in, said_before
from app.importers.text.layout.document import Block, Document, Table, place
from app.importers.text.reading import Decisions, Reading, opened, row_status, shared_warnings
from app.importers.text.values import meaning
from app.importers.text.values.cells import cell
from app.importers.text.values.figures import Findings, answers_only, columns_of, printed_sizes, put
from app.importers.text.values.header import Column
from app.importers.text.values.megabytes import warning
from app.importers.text.values.models import assigned_batch, model_of_count, settle_course
from app.importers.text.values.precision import from_label, is_mixed
from app.importers.text.values.rates import rate_of
from app.importers.text.values.units import Unit, is_time
from estimator.scenario.measurement import Warning
from estimator.validation.spellings import (
    LONGEST_NAME,
    mentions_out_of_memory,
)

KIND = "step-times"
_SECONDS = Unit(suffix="_s", scale=1.0)
_COMPILED = {"compiled": True, "not compiled": False, "uncompiled": False, "eager": False, "torch.compile": True}
_COURSE_MODELS = (
    "Its models are taken for those of CS336 (assignment 2, systems), as the text or their dimensions say: cs336-small "
    "and so on, with a vocabulary of 10,000. Write gpt2-xl or another name of the catalogue where it is another"
)
_STEP_QUANTITIES = ("forward", "backward", "forward_backward", "step", "optimizer", "communication")


def matches(block: Block) -> bool:
    """A table with a model column and at least one time of a step, or rate of steps, tokens or samples.

    Beside a sequence length parameters name a model as well.
    """
    if not isinstance(block, Table) or block.form == "statistics":
        return False
    columns = columns_of(block)
    if not _has(columns, meaning.MODEL) and not (_has(columns, meaning.PARAMETERS) and _has(columns, meaning.SEQ_LEN)):
        return False
    return bool(_timings(block, columns)) or any(rate_of(column.header) for column in columns)


def _has(columns: tuple[Column, ...], names: set[str]) -> bool:
    return any(meaning.name_is(column, names) for column in columns)


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all step-time tables under one heading."""
    tables, findings, rows, warnings = opened(blocks)
    for table in tables:
        said = said_before(table)
        new = _rows(table, said, findings, warnings, document, decisions)
        warnings += fill_in(new, said, place(table))
        warnings += _named_by_count(new, table)
        if settle_course(new, document.lines):
            warnings.append(Warning(code="course-models", message=_COURSE_MODELS, where=place(table)))
        warnings += batch_of_tokens(new, place(table))
        warnings = milliseconds(new, warnings, place(table))
        warnings += settle(new, place(table))
        total_is_sum(new)
        warnings += contained_backward(new, place(table))
        rows += new
        oom, noted = _out_of_memory(table, rows)
        rows += oom
        warnings += noted
    warnings += _assumed_batch(rows, place(tables[0]))
    if findings.loose_sizes:
        warnings.append(warning(None, place(tables[0]), printed_sizes(findings)))
    return Reading(rows=rows, warnings=warnings + shared_warnings(findings, rows, tables))


def _named_by_count(rows: list[dict[str, Any]], table: Table) -> list[Warning]:
    """Call the rows of a table without models by their parameters, as printed; say which models these are."""
    columns = columns_of(table)
    at = next((i for i, column in enumerate(columns) if meaning.name_is(column, meaning.PARAMETERS)), None)
    if at is None or _has(columns, meaning.MODEL):
        return []
    told = {}
    for row, cells in zip(rows, table.rows, strict=True):
        row["model"] = cells[at].strip("*`~ ")[:LONGEST_NAME]
        if isinstance(count := row.get("parameters"), (int, float)) and (
            key := model_of_count(count, row.get("seq_len"))
        ):
            row["catalogue_model"] = told[row["model"]] = key
    if not told:
        return []
    names = ", ".join(f"{said} is {key}" for said, key in told.items())
    message = f"Models were told by their parameters alone: {names}. Write a column model where it is another"
    return [Warning(code="models-by-count", message=message, where=place(table))]


def _timings(table: Table, columns: tuple[Column, ...]) -> list[tuple[int, Column, meaning.Quantity]]:
    found = []
    for i, column in enumerate(columns):
        what = meaning.quantity(column)
        if not what or what.name not in _STEP_QUANTITIES or rate_of(column.header) or answers_only(table.rows, i):
            continue
        if _of_a_run(table, i, column) or _numbered(table, i, column):
            continue
        if column.unit is None and meaning.name_is(column, meaning.OPTIMIZER_KERNEL):
            continue
        if column.unit is None or column.unit.suffix == "_s":
            found.append((i, column, what))
    return found or _bare(table, columns)


def _bare(table: Table, columns: tuple[Column, ...]) -> list[tuple[int, Column, meaning.Quantity]]:
    """The one column under a bare ``ms`` or ``s``, which beside a model is the time of a step; [] where rates are."""
    bare = [(i, column) for i, column in enumerate(columns) if is_time(column.header.strip())]
    if len(bare) != 1 or any(rate_of(column.header) for column in columns) or _of_a_run(table, *bare[0]):
        return []
    at, column = bare[0]
    if column.unit is None:  # s, of which a header alone does not say that it is no name
        if not any(meaning.name_is(other, meaning.SEQ_LEN) for other in columns[:at] + columns[at + 1 :]):
            return []
        column = replace(column, unit=_SECONDS, printed_unit="s")
    return [(at, column, meaning.Quantity(name="step"))]


def _of_a_run(table: Table, at: int, column: Column) -> bool:
    """Whether a time of training or in total is of hours or minutes: of a run, not of a step."""
    if _ONE_STEP.intersection(column.words):
        return False
    long = column.unit is not None and column.unit.scale >= _MINUTE_S
    return long or any(_LONG_TIME.search(cells[at]) for cells in table.rows[:_LOOKED_AT])


def _numbered(table: Table, at: int, column: Column) -> bool:
    """Whether a column counts the steps: ``Step`` or ``iter`` over whole numbers without a unit."""
    bare = column.unit is None and not column.statistic and column.name in _ONE_STEP
    return bare and all(cells[at].strip().isdigit() for cells in table.rows[:_LOOKED_AT] if cells[at].strip())


_MINUTE_S = 60.0
_LOOKED_AT = 200
_ONE_STEP = {"step", "iteration", "iter"}
_LONG_TIME = re.compile(r"\d\s?(?:h(?:rs?|ours?)?|mins?|minutes?)\b|\d:\d\d:\d", re.IGNORECASE)


def _rows(
    table: Table, said: Said, findings: Findings, warnings: list[Warning], document: Document, decisions: Decisions
) -> list[dict[str, Any]]:
    columns = columns_of(table)
    timings = _timings(table, columns)
    timed = {i for i, _, _ in timings}
    same = Counter((what.name + ("_total" if what.total else ""), column.statistic) for _, column, what in timings)
    several = {key for key, count in same.items() if count > 1}  # of several implementations in one row
    precision, ground = _precision(table, columns, said.precision, document, decisions)
    compiled = next(
        (_COMPILED[name.lower()] for name in reversed(table.around.labels) if name.lower() in _COMPILED), None
    )
    rows = []
    for line, cells in zip(table.lines, table.rows, strict=True):
        row: dict[str, Any] = {}
        findings.line = line
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
            if (key, column.statistic) in several:
                key = f"{what.of}_{key}" if what.of else key
            put(row, key, cells[i], column, findings, assumed=said.unit or _SECONDS)
        if (iterations := _iterations(row)) is not None:
            row.setdefault("iterations", iterations)
        if (rate := row.get("steps_per_s")) and not any(f"{name}_s" in row for name in _STEP_QUANTITIES):
            row["step_s"] = 1 / rate
        row["status"] = row_status(row, findings, oom=findings.oom > oom)
        rows.append(row)
    if said.unit is None and any(column.unit is None and _without_unit(table, i) for i, column, _ in timings):
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


def _without_unit(table: Table, at: int) -> bool:
    """Whether a cell of a column is a bare number."""
    return any(read.value is not None and not read.unit for read in (cell(cells[at]) for cells in table.rows))


def _iterations(row: dict[str, Any]) -> int | None:
    """Total over mean, where both are printed and their ratio is a whole number."""
    for name in _STEP_QUANTITIES:
        mean, total = row.get(f"{name}_s"), row.get(f"{name}_total_s")
        if mean and total and abs(total / mean - round(total / mean)) < 1e-3:
            return round(float(total) / float(mean))
    return None


def _precision(
    table: Table, columns: tuple[Column, ...], said: str, document: Document, decisions: Decisions
) -> tuple[str, str]:
    """Return the precision of a table without such a column, and the ground where it is only an assumption."""
    if any(map(_is_precision, columns)):
        return "", ""
    for label in reversed(table.around.labels):
        if found := from_label(label):
            return found, ""
    if said:
        return "", ""  # which is filled in beside what else is said there
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
    return any(map(_is_precision, columns_of(block)))


def _is_precision(column: Column) -> bool:
    return meaning.name_is(column, meaning.PRECISION) or column.name in meaning.PRECISION_FLAGS


def _out_of_memory(table: Table, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Warning]]:
    """Read sentences after a table such as 'xl 1024 ran out of memory' as rows; names are those of the table."""
    said = [line for line in table.around.after[:6] if mentions_out_of_memory(line)]
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
            message=f"No batch size is given; the models are those of the CS336 assignment, whose batch is "
            f"{batch}, and that was taken",
            where=where,
        )
    ]
