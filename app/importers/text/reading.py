"""Reading: what one kind of table gives, before it becomes a Measurement, and the warnings that all kinds share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.importers.text.layout.document import Block, Table, place
from app.importers.text.values.cells import cell
from app.importers.text.values.figures import OOM_CELLS, Findings
from estimator.scenario.measurement import Kernel, MeasuredCollective, Warning
from estimator.scenario.units import counted
from estimator.validation.spellings import mentions_out_of_memory, says_yes

WIDE_SPREAD_FRAC = 0.1


@dataclass(kw_only=True)
class Decisions:
    """What is settled once for a text: the bytes of MB under a heading, and whether step times have precisions."""

    megabyte: dict[str, float] = field(default_factory=dict)
    precision_columns: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Rows with SI units in their keys, and all that came with them."""

    rows: list[dict[str, Any]]
    warnings: list[Warning] = field(default_factory=list)
    collectives: list[MeasuredCollective] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    samples: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    skipped: int = 0


def opened(blocks: Sequence[Block]) -> tuple[list[Table], Findings, list[dict[str, Any]], list[Warning]]:
    """The tables under one heading, and what reading them gathers: findings, rows, warnings."""
    return [block for block in blocks if isinstance(block, Table)], Findings(), [], []


MEASURED = ("_bytes_per_s", "_per_s", "_s", "_bytes")
"""How the names of columns end that hold a time, a rate or a size."""
_TIMED = ("_s", "_per_s", "_per_s_per_gpu")
"""Of them, and of rates of one GPU, those that nothing has which ran out of memory."""
FAILED = re.compile(r"fail|error|crash|timeout|timed.out|cancel|killed|abort|exception", re.IGNORECASE)
"""Words of a status for what did not end as it should, for whatever reason but memory."""


def row_status(row: dict[str, Any], findings: Findings, *, oom: bool) -> str:
    """Say ``oom`` of a row where a cell says so and no other holds a time, a rate or a size; such a cell is empty.

    A yes in a column of that name, or such a status, says it of the whole row: times and rates beside it are emptied,
    and noted in ``findings``. ``failed`` where the row's status says so, else ``ok``.
    """
    if says_yes(str(row.get("oom", ""))) or mentions_out_of_memory(str(row.get("status", ""))):
        timed = [key for key, value in row.items() if isinstance(value, (int, float)) and key.endswith(_TIMED)]
        if timed:
            findings.beside_oom.append(findings.line)
        row.update(dict.fromkeys(timed))
        row.pop(OOM_CELLS, None)
        findings.zero = [line for line in findings.zero if line != findings.line or not line]
        return "oom"
    figures = (key for key, value in row.items() if isinstance(value, float) and key.endswith(MEASURED))
    if oom and not any(figures):
        row.pop(OOM_CELLS, None)
        return "oom"
    return "failed" if FAILED.search(str(row.get("status", ""))) else "ok"


def _first_of(lines: Sequence[int], blocks: Sequence[Block]) -> str:
    """The place of the first of some lines; that of the table where none is known."""
    return place(blocks[0], next((line for line in lines if line), 0))


def shared_warnings(findings: Findings, rows: list[dict[str, Any]], blocks: Sequence[Block]) -> list[Warning]:
    """Say what the cells themselves showed: out of memory, missing figures, missing units, wide spreads."""
    where = place(blocks[0])
    found = _words_in_figures(rows, where)
    if findings.oom:
        found.append(
            Warning(
                code="oom-cells",
                message=(
                    "1 cell says out of memory and is"
                    if findings.oom == 1
                    else f"{findings.oom} cells say out of memory and are"
                )
                + " kept empty; a row without any other figure has status oom",
                where=_first(blocks, "oom") or where,
            )
        )
    found += [no_count(header, printed, where) for header, printed in findings.no_counts.items()]
    sums = [(block, line) for block in blocks if isinstance(block, Table) for line in block.sums]
    if sums:
        message = (
            "1 row at the end sums up the others and is left out"
            if len(sums) == 1
            else f"{len(sums)} rows at the end sum up the others and are left out"
        )
        found.append(Warning(code="sum-rows", message=message, where=place(*sums[0])))
    if findings.missing:
        found.append(
            Warning(
                code="missing-cells",
                message=f"{findings.missing} cell{' holds' if findings.missing == 1 else 's hold'} no figure (N/A, -)",
                where=_first(blocks, "absent") or where,
            )
        )
    if findings.without_unit:
        headers = list(findings.without_unit.values())
        names = ", ".join(repr(header) for header in headers[:8])
        message = (
            f"Columns without a unit ({names}) are kept as printed. Where one is a time or a size, write the unit into "
            f"the header, as in '{headers[0]} ({_example(headers[0])})', and import again"
        )
        found.append(Warning(code="unit-missing", message=message, where=where))
    if findings.beside_oom:
        count = len(findings.beside_oom)
        message = (
            f"{counted(count, 'row')} {'says' if count == 1 else 'say'} out of memory beside a time or a rate;"
            " what ran out of memory took none, so that such figures were emptied"
        )
        found.append(Warning(code="oom-beside-time", message=message, where=_first_of(findings.beside_oom, blocks)))
    if findings.zero:
        count = len(findings.zero)
        message = (
            f"{count} {'time of a step is' if count == 1 else 'times of steps are'} 0 and kept as printed: no step"
            " takes none. Leave the cell empty where nothing was measured, and import again"
        )
        found.append(Warning(code="zero", message=message, where=_first_of(findings.zero, blocks)))
    negative = sum(_negative(row) for row in rows)
    if negative:
        found.append(
            Warning(
                code="negative",
                message=f"{negative} {'time is' if negative == 1 else 'times are'} below zero and kept as printed: "
                "none can be. Correct the file, and import it again",
                where=_first_of(findings.below_zero, blocks),
            )
        )
    wide = sum(_wide(row) for row in rows)
    if wide:
        found.append(
            Warning(
                code="wide-spread",
                message=f"{wide} {'timing spreads' if wide == 1 else 'timings spread'} by more than "
                f"{WIDE_SPREAD_FRAC:.0%} of {'its' if wide == 1 else 'their'} mean; first iterations were probably "
                "counted, so such means read high",
                where=where,
            )
        )
    return found


def _words_in_figures(rows: Sequence[dict[str, Any]], where: str) -> list[Warning]:
    """Empty the cells that hold a word in a column of figures, which they would make two of; say which."""
    found = []
    for name in dict.fromkeys(key for row in rows for key, value in row.items() if isinstance(value, float)):
        bare = next((name.removesuffix(end) for end in MEASURED if name.endswith(end)), name)
        odd = [row for row in rows if bare != name and name not in row and isinstance(row.get(bare), str)]
        words = list(dict.fromkeys(str(row.pop(bare)) for row in odd))
        for row in odd:
            row[name] = None
        if words:
            shown = ", ".join(map(repr, words[:_MOST_SHOWN]))
            message = (
                f"{counted(len(odd), 'cell')} of {bare.replace('_', ' ')!r} {'holds' if len(odd) == 1 else 'hold'} no"
                f" figure and {'is' if len(odd) == 1 else 'are'} kept empty: {shown}."
                " Write notes into a column of their own"
            )
            found.append(Warning(code="words-in-figures", message=message, where=where))
    return found


def _example(header: str) -> str:
    """A unit that a header without one may be of."""
    return "GiB" if re.search(r"mem|vram|alloc|reserved|bytes|size|peak", header, re.IGNORECASE) else "ms"


def _first(blocks: Sequence[Block], missing: str) -> str:
    """Where the first row with such a cell is; nothing where a cell says it in other words."""
    for block in blocks:
        if isinstance(block, Table):
            for line, row in zip(block.lines, block.rows, strict=True):
                if any(text and cell(text).missing == missing for text in row):
                    return place(block, line)
    return ""


def no_count(header: str, printed: Sequence[str], where: str) -> Warning:
    """Say that cells of a column that counts hold no count, as 0, -3 and 1.5 of GPUs."""
    some = list(dict.fromkeys(printed))[:_MOST_SHOWN]
    message = (
        f"Column {header!r} counts, and {', '.join(some)} {'is' if len(some) == 1 else 'are'} no count: such rows are"
        " not predicted. Write a whole number from 1 on, or leave the cell empty"
    )
    return Warning(code="no-count", message=message, where=where)


_MOST_SHOWN = 3


def compact(warnings: list[Warning]) -> list[Warning]:
    """Say the same thing once, with the first place and how many more there are."""
    places: dict[tuple[str, str], list[str]] = {}
    for warning in warnings:
        places.setdefault((warning.code, warning.message), []).append(warning.where)
    return [
        Warning(
            code=code, message=message, where=where[0] if len(where) == 1 else f"{where[0]} and {len(where) - 1} more"
        )
        for (code, message), where in places.items()
    ]


def _negative(row: dict[str, Any]) -> int:
    times = (value for key, value in row.items() if key.endswith("_s") and not key.endswith("_per_s"))
    return sum(isinstance(value, (int, float)) and value < 0 for value in times)


def _wide(row: dict[str, Any]) -> int:
    count = 0
    for key, spread in row.items():
        if key.endswith("_std_s") and spread is not None:
            mean = row.get(key.removesuffix("_std_s") + "_s")
            count += bool(mean and spread > WIDE_SPREAD_FRAC * mean)
    return count
