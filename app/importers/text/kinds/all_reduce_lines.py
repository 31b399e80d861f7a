"""Collective benchmark lines: ``NCCL | cuda | 2 proc | 10 MB -> min 1.34 mean 1.36 max 1.40 ms``."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import Any

from app.importers.text.kinds.collective_rows import kind_of, measured
from app.importers.text.layout.document import Block, Document, Table, label, place
from app.importers.text.reading import Decisions, Reading
from app.importers.text.values.cells import number
from app.importers.text.values.figures import scaled
from app.importers.text.values.header import column
from app.importers.text.values.units import Unit, unit
from estimator.scenario.measurement import Warning
from estimator.scenario.units import KIB, MIB

KIND = "collectives"
_BACKENDS = ("gloo", "nccl", "mpi", "rccl", "ucc", "xccl")
_RANKS = re.compile(
    r"(\d{1,6})\s*(?:proc\w*|ranks?|gpus?|workers?|devices?)\b|(?:world[_ ]size|n|ranks)\s*=?\s*(\d{1,6})\b", re.I
)
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{0,6})?)\s*([kKMGT]i?B|[bB]ytes)$")
_TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_POSSIBLE_BYTES_PER_S = (5e7, 2e12)
"""Best rate over a host's links: slower than 50 MB/s or faster than 2 TB/s, and the unit is wrong."""
_SLOWEST_START_S = 0.05
"""No collective of a megabyte takes longer than this on one host."""
_GROWS = 0.5
"""Slope of log value over log size: times tend to 1, bandwidths to 0."""


def matches(block: Block) -> bool:
    """Statistics lines that name a backend and a size."""
    if not isinstance(block, Table) or block.form != "statistics":
        return False
    labels = [text for column_, text in zip(block.columns, block.rows[0], strict=True) if column_.startswith("label")]
    return any(text.lower() in _BACKENDS for text in labels) and any(_SIZE.match(text) for text in labels)


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all such lines under one heading."""
    tables = [block for block in blocks if isinstance(block, Table)]
    warnings: list[Warning] = []
    where = place(tables[0])
    columns = [column(name) for name in tables[0].columns]
    printed = next((c for c in columns if c.unit is not None), None)
    rows = [_row(table, cells, label(table)) for table in tables for cells in table.rows]
    _sizes(rows, warnings, where)
    scale, mislabelled = _meaning(rows, printed.unit if printed else None)
    if mislabelled and scale is not None:
        message = (
            f"The values are labelled {printed.printed_unit if printed else 'without unit'} but are milliseconds: they "
            "grow with the size and with the number of ranks, as times do, and as a rate the smallest size would take "
            f"over {_SLOWEST_START_S:g} s"
        )
        warnings.append(Warning(code="unit-mislabelled", message=message, where=where))
    for row in rows:
        _convert(row, printed.unit if printed else None, scale)
    if printed is None and scale is None:
        message = "The lines name no unit; the values are kept as printed. Write 'ms' after them and import again"
        warnings.append(Warning(code="unit-missing", message=message, where=where))
    missing = _cases_not_run(document, tables)
    if missing:
        message = f"{missing} cases did not run (their lines are warnings of the script, such as too few GPUs)"
        warnings.append(Warning(code="rows-missing", message=message, where=where))
    collectives = []
    for row in rows:
        if (found := measured(row)) is not None:
            collectives.append(found)
            row["bus_bytes_per_s"] = found.bus_bytes_per_s
    return Reading(rows=rows, warnings=warnings, collectives=collectives, skipped=missing)


def _cases_not_run(document: Document, tables: list[Table]) -> int:
    """Count the script's own warnings among and just after the lines: 'NCCL with world_size=4 requires …'."""
    lines = document.lines[tables[0].line - 1 : max(tables[-1].lines) + 2]
    return sum("warning" in line[:12].lower() and "requires" in line for line in lines)


def _row(table: Table, cells: tuple[str, ...], heading: str) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": kind_of(" ".join((heading, *cells[:-3])))}
    for name, text in zip(table.columns, cells, strict=True):
        if not name.startswith("label"):
            value = number(text)
            row |= {f"printed_{column(name).statistic}": value} if math.isfinite(value) else {}
        elif text.lower() in _BACKENDS:
            row["backend"] = text.lower()
        elif found := _RANKS.search(text):
            row["world_size"] = int(found[1] or found[2])
        elif found := _SIZE.match(text):
            row["size"] = (float(found[1]), found[2])
        else:
            row["device"] = text.lower()
    return row


def _sizes(rows: list[dict[str, Any]], warnings: list[Warning], where: str) -> None:
    """Turn sizes into bytes; MB are MiB where one of them is a multiple of 1024, as only binary counting gives."""
    binary = any(size[0] >= 1024 and size[0] % 1024 == 0 for row in rows if (size := row.get("size")))
    loose = False
    for row in rows:
        value, name = row.pop("size", (0.0, "MB"))
        size = unit(name) or Unit(suffix="_bytes", scale=1.0)
        loose = loose or size.loose
        power = {1e3: KIB, 1e6: MIB, 1e9: 1024 * MIB}.get(size.scale, size.scale)
        row["size_bytes"] = value * (power if size.loose and binary else size.scale)
    if loose:
        said = (
            Warning(code="mb-is-mib", message="'MB' means MiB here: one size is 1024 of them", where=where)
            if binary
            else Warning(
                code="mb-ambiguous",
                message="'MB' was read as 1 000 000 bytes; write MiB into the lines if that was meant",
                where=where,
            )
        )
        warnings.append(said)


def _meaning(rows: list[dict[str, Any]], printed: Unit | None) -> tuple[float | None, bool]:
    """Return the seconds in one printed value (None: a rate, or unknown), and whether its label was wrong."""
    if printed is not None and printed.suffix == "_s":
        return printed.scale, False
    if printed is not None and not _behaves_like_time(rows, printed):
        return None, False
    possible = [scale for scale in _TIME_UNITS.values() if _possible(rows, scale)]
    return (possible[0], printed is not None) if len(possible) == 1 else (None, False)


def _behaves_like_time(rows: list[dict[str, Any]], printed: Unit) -> bool:
    series: dict[tuple[Any, ...], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row.get("printed_mean") and row["size_bytes"]:
            series[row.get("backend"), row.get("world_size")].append((row["size_bytes"], row["printed_mean"]))
    slopes, starts = [], []
    for points in series.values():
        (small, first), (large, last) = min(points), max(points)
        if large >= 10 * small:
            slopes.append(math.log(last / first) / math.log(large / small))
            starts.append(small / (first * printed.scale))
    return bool(slopes) and min(slopes) >= _GROWS and min(starts) >= _SLOWEST_START_S


def _possible(rows: list[dict[str, Any]], scale: float) -> bool:
    """Whether every backend's best rate is one that a host's links can have."""
    best: dict[Any, float] = defaultdict(float)
    for row in rows:
        if row.get("printed_mean"):
            rate = row["size_bytes"] / (row["printed_mean"] * scale)
            best[row.get("backend")] = max(best[row.get("backend")], rate)
    low, high = _POSSIBLE_BYTES_PER_S
    return bool(best) and all(low <= rate <= high for rate in best.values())


def _convert(row: dict[str, Any], printed: Unit | None, scale: float | None) -> None:
    for key in [key for key in row if key.startswith("printed_")]:
        statistic = key.removeprefix("printed_")
        if scale is not None:
            row[f"{statistic}_s"] = scaled(row.pop(key), scale)
        elif printed is not None and printed.suffix == "_bytes_per_s":
            name = "algorithm" if statistic == "mean" else f"algorithm_{statistic}"
            row[f"{name}_bytes_per_s"] = row.pop(key) * printed.scale
    if "mean_s" not in row and row.get("algorithm_bytes_per_s"):
        row["mean_s"] = row["size_bytes"] / row["algorithm_bytes_per_s"]
