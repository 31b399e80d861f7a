"""Figures: cells of a column as SI values under keys that carry the unit, with what could not be decided."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from app.importers.text.layout.document import Table
from app.importers.text.values.cells import Cell, cell
from app.importers.text.values.header import Column, column
from app.importers.text.values.units import Unit, unit

_LOOKED_AT = 200
"""Rows that settle a column's unit; a later cell's own unit still counts for that cell."""


@dataclass(kw_only=True)
class Findings:
    """What a recogniser met on its way, counted until it is said in one warning each."""

    line: int = 0
    """That of the row which is being read."""
    oom: int = 0
    beside_oom: list[int] = field(default_factory=list)
    """Lines of rows that say out of memory, and a time all the same."""
    missing: int = 0
    below_zero: list[int] = field(default_factory=list)
    zero: list[int] = field(default_factory=list)
    """Lines of times that are below zero, and of times of steps that are none."""
    without_unit: dict[str, str] = field(default_factory=dict)
    no_counts: dict[str, list[str]] = field(default_factory=dict)
    loose_sizes: dict[str, set[str]] = field(default_factory=dict)
    """Columns of sizes in MB, GB and the like, which may be powers of 1024, with the units as printed."""


def columns_of(table: Table) -> tuple[Column, ...]:
    """Read a table's headers; a header without unit takes that of its first cells, where they all name the same one."""
    found = []
    for i, header in enumerate(table.columns):
        known = column(header)
        if known.unit is None:
            cells = (cell(row[i]) for row in table.rows[:_LOOKED_AT])
            printed = {read.unit for read in cells if read.value is not None and not _billions(read, known)}
            units = {unit(name) for name in printed}
            if len(units) == 1 and (only := units.pop()) is not None:
                known = dataclasses.replace(known, unit=only, printed_unit=printed.pop())
        found.append(known)
    statistics = sum(bool(one.statistic) for one in found)
    return tuple(_in_minutes(one) if statistics == 1 else one for one in found)


_MINUTES = re.compile(r"(?:time|duration|elapsed|step|iteration)\b.{0,40}[(\[]\s*min\s*[)\]]$", re.IGNORECASE)


def _in_minutes(known: Column) -> Column:
    """Time (min) is of minutes where no other column of its table has a statistic beside the least."""
    if known.unit is not None or not _MINUTES.search(known.header):
        return known
    return dataclasses.replace(known, statistic="", unit=unit("minutes"), printed_unit="min")


OOM_CELLS = "oom_cells"
"""Of a row: names of those of its columns whose cells say out of memory, where others have a figure."""


def put(
    row: dict[str, Any], key: str, text: str, header: Column, findings: Findings, assumed: Unit | None = None
) -> Cell:
    """Write one cell into ``row`` as ``key`` plus unit suffix (and ``…_std`` plus suffix); return the cell as read.

    The unit is the cell's own, else the header's, else ``assumed``; without any the number is kept as printed and
    the column is noted, so that the reader is asked. Missing cells write None.
    """
    read = _counted(cell(text), header)
    known = unit(read.unit) if read.unit else None
    if read.unit and known is None and header.unit is None and assumed is not None:
        row[key] = read.text  # its unit is none that is known, so it is not what is assumed either
        findings.without_unit.setdefault(key, header.header)
        return read
    known = known or header.unit or assumed
    suffix = known.suffix if known else ""
    statistic = f"_{header.statistic}" if header.statistic and header.statistic != "mean" else ""
    if statistic and key == header.name and header.is_statistic:
        key, statistic = header.statistic, ""
    name = f"{key}{statistic}{suffix}"
    if read.missing:
        findings.oom += read.missing == "oom"
        findings.missing += read.missing != "oom" and read.text != ""
        row[name] = None
        if read.missing == "oom":
            row[OOM_CELLS] = [*row.get(OOM_CELLS, ()), name]
    elif read.value is None:
        row[key] = read.text
    else:
        scale = known.scale if known else 1.0
        row[name] = scaled(read.value, scale)
        if suffix == "_s" and read.value < 0:
            findings.below_zero.append(findings.line)
        elif suffix == "_s" and read.value == 0 and key in _OF_A_STEP and not statistic:
            findings.zero.append(findings.line)
        if read.spread is not None:
            own = unit(read.spread_unit) if read.spread_unit else None
            spread_scale = own.scale if own and own.suffix == suffix else scale
            row[f"{key}{statistic}_std{suffix}"] = scaled(read.spread, spread_scale)
        if known is None:
            findings.without_unit.setdefault(key, header.header)
        elif known.loose:
            findings.loose_sizes.setdefault(name, set()).add(
                (read.unit if unit(read.unit) else header.printed_unit).strip()
            )
    return read


_OF_A_STEP = ("step", "forward", "backward", "forward_backward")
"""Times that are none of a step that ran."""


def printed_sizes(findings: Findings) -> set[str]:
    """Units as printed of all sizes whose bytes are in doubt."""
    return set().union(*findings.loose_sizes.values())


_SIZE_WORDS = {"memory", "mem", "vram", "size", "sizes", "bytes", "message", "payload", "buffer", "bucket", "cache"}


def answers_only(rows: Sequence[Sequence[str]], at: int) -> bool:
    """Whether a column answers a question: ``only_forward`` over True and False is no time."""
    return all(cells[at].strip().lower() in _ANSWERS for cells in rows if cells[at].strip())


_ANSWERS = {"true", "false", "yes", "no"}


def _counted(read: Cell, header: Column) -> Cell:
    """The cell with its letter for thousands or millions (78.2k) told; of memory they are sizes."""
    scale = 1e3 ** _POWERS.get(read.unit.lower(), 0)
    if read.value is None or read.unit.lower() not in _NO_SIZES or _SIZE_WORDS.intersection(header.words):
        return read
    spread = scaled(read.spread, scale) if read.spread is not None and not read.spread_unit else read.spread
    return dataclasses.replace(read, value=scaled(read.value, scale), spread=spread, unit="")


def _billions(read: Cell, header: Column) -> bool:
    """Whether a lone B behind a number (7b, 1.7B) is no byte: its header speaks of no size, or of a model's."""
    return read.unit in ("b", "B") and (not _SIZE_WORDS.intersection(header.words) or "model" in header.words)


def _is_name(read: Cell) -> bool:
    """Whether a cell only begins with a digit, as names of plans and models do: 2D, 1F1B, 8x7B."""
    return read.unit in ("D", "d") or any(letter.isdigit() for letter in read.unit)


_QUANTITY_WORDS = {
    "time", "times", "latency", "duration", "elapsed", "wait", "memory", "mem", "bytes", "bandwidth", "bw", "algbw",
    "busbw", "throughput", "tflops", "flops", "gflops", "energy", "power", "forward", "backward", "fwd", "bwd", "total",
}  # fmt: skip


def keep(row: dict[str, Any], name: str, text: str, header: Column, findings: Findings) -> None:
    """Write a cell of a column that nothing else is known of: counts and text as they are, the rest as a figure.

    Whole numbers under a header that speaks of no quantity need no unit; all other numbers do, or are asked for.
    """
    read = cell(text)
    if (read.value is None and not read.missing) or _billions(read, header) or _is_name(read):
        row[name] = read.text
    elif read.value is not None and not read.unit and header.unit is None and _is_count(text, header):
        row[name] = int(read.value)
    elif text.strip() or header.unit is not None:
        put(row, name, text, header, findings)


def _is_count(text: str, header: Column) -> bool:
    return whole(text) is not None and "." not in text and _QUANTITY_WORDS.isdisjoint(header.words)


def scaled(value: float, scale: float) -> float:
    """Multiply in decimals, so that 0.13 ms is 0.00013 s to the last digit."""
    return float(Decimal(repr(value)) * Decimal(repr(float(scale))))


def count(text: str, thousand: float = 1e3) -> float | None:
    """Read what is counted, letters for thousands and more told (8k, 4M, 1.5B); ``thousand`` is 2¹⁰ of lengths."""
    read = cell(text)
    power = _POWERS.get(read.unit.lower(), 0)
    return None if read.value is None else scaled(read.value, thousand**power)


_POWERS = {"k": 1, "m": 2, "b": 3, "bn": 3, "g": 3, "t": 4}
_NO_SIZES = ("k", "m")
"""Letters that count wherever no size is spoken of; B, G and T may be bytes as well."""


def whole(text: str) -> int | None:
    """Read a count: a whole number, possibly with thousands commas; None for anything else."""
    read = cell(text)
    if read.value is None or read.value != int(read.value) or abs(read.value) > 1e15:
        return None
    return int(read.value)
