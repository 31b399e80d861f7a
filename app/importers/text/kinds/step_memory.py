"""Step memory: the peak of a step, or of a forward alone, of one model or several by length, and precision.

Students' tables have a column for each of what ran (``Forward only, fp32 (GB)``, ``Full training step (GB)``) or say it
in a column beside the peak; each figure becomes a row of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from app.importers.text.kinds.run_cells import COUNTS, describe
from app.importers.text.kinds.step_prose import fill_in, model_before, model_said, said_before
from app.importers.text.layout.document import Block, Document, Table, place
from app.importers.text.reading import Decisions, Reading, opened, row_status, shared_warnings
from app.importers.text.values import meaning
from app.importers.text.values.figures import Findings, columns_of, printed_sizes, put
from app.importers.text.values.header import Column
from app.importers.text.values.megabytes import warning
from app.importers.text.values.models import settle_course
from app.importers.text.values.precision import precision_said
from estimator.scenario.measurement import Warning
from estimator.scenario.units import counted

KIND = "step-memory"
_PASSES = {"forward": "forward", "forward_backward": "forward-backward", "step": "step"}
"""What ran, by what a column's words mean."""
_PEAK = ("peak_memory", "memory")
_PASS_COLUMNS = {*meaning.VERSION, "pass", "passes", "stage", "phase", "what", "run"}
_WHOLE_STEP = re.compile(r"\b(?:train(?:ing)?|step|full)\b", re.IGNORECASE)


def matches(block: Block) -> bool:
    """A table of peaks in bytes beside lengths or models, and of no time, of a model that it or its text names."""
    if not isinstance(block, Table) or block.form == "statistics":
        return False
    columns = columns_of(block)
    peaks = _peaks(columns)
    lengths, models = (
        sum(meaning.name_is(one, names) for one in columns) for names in (meaning.SEQ_LEN, meaning.MODEL)
    )
    if not peaks or lengths > 1 or not (lengths or models):
        return False
    if any(not _is_setting(one) for at, one in enumerate(columns) if at not in peaks):
        return False
    return models > 0 or bool(model_before(block))


def _is_setting(one: Column) -> bool:
    named = meaning.MODEL | meaning.PARAMETERS | meaning.PRECISION | meaning.GPU | meaning.STATUS | _PASS_COLUMNS
    return meaning.name_is(one, named) or any(meaning.name_is(one, names) for names, _ in COUNTS)


def _peaks(columns: tuple[Column, ...]) -> dict[int, str]:
    """Columns of peaks with what ran, "" where another column says it."""
    found = {}
    for at, one in enumerate(columns):
        what = meaning.quantity(one)
        of_bytes = one.unit is not None and one.unit.suffix == "_bytes"
        if of_bytes and what and what.name in _PASSES:
            found[at] = _PASSES[what.name]
        elif of_bytes and what and what.name in _PEAK:
            found[at] = _pass_in(one.header)
    return found


def _pass_in(text: str) -> str:
    """What a cell or a header says that ran, as ``forward``, ``forward-backward`` or ``step``; "" where nothing."""
    words = text.lower()
    if _WHOLE_STEP.search(words) or "optimizer" in words:
        return "step"
    forward, backward = ("forward" in words or "fwd" in words), ("backward" in words or "bwd" in words)
    return "forward-backward" if backward else "forward" if forward else ""


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all such tables under one heading, a row for each figure."""
    tables, findings, rows, warnings = opened(blocks)
    for table in tables:
        new = list(_rows(table, findings))
        if assumed := [row for row in new if not row["pass"]]:
            for row in assumed:
                row |= {"pass": "step"}
            message = (
                f"No column says what ran in {counted(len(assumed), 'row')}: the peak is taken for a whole step's."
                " Write forward, forward and backward or step into a column"
            )
            warnings.append(Warning(code="pass-assumed", message=message, where=place(table)))
        warnings += model_said(new, table)
        warnings += fill_in(new, said_before(table), place(table))
        if settle_course(new, document.lines):
            message = "Its models are taken for those of CS336 (assignment 2, systems), as the text says"
            warnings.append(Warning(code="course-models", message=message, where=place(table)))
        rows += new
    if findings.loose_sizes:
        warnings.append(warning(None, place(tables[0]), printed_sizes(findings)))
    return Reading(rows=rows, warnings=warnings + shared_warnings(findings, rows, tables))


def _rows(table: Table, findings: Findings) -> Iterator[dict[str, Any]]:
    columns = columns_of(table)
    peaks = _peaks(columns)
    for line, cells in zip(table.lines, table.rows, strict=True):
        findings.line = line
        shared: dict[str, Any] = {}
        for at, one in enumerate(columns):
            if at in peaks:
                continue
            if meaning.name_is(one, _PASS_COLUMNS) and (ran := _pass_in(cells[at])):
                shared["pass"] = ran
            else:
                describe(shared, one, cells[at], findings)
        for at, ran in peaks.items():
            row = dict(shared)
            oom = findings.oom
            if precision := precision_said([columns[at].header]):
                row["precision"] = precision
            row["pass"] = ran or row.get("pass", "")
            put(row, "peak", cells[at], columns[at], findings)
            row["status"] = row_status(row, findings, oom=findings.oom > oom)
            yield row
