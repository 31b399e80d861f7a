"""What nvprof printed when it ended, or ``nvprof --csv``: kernels and copies of the whole run, by name.

A row is ``45.02%  1.23456s  1000  1.2346ms  1.0000ms  2.0000ms  NAME``, each time in a unit of its own, behind
``GPU activities:`` where a kind begins; before CUDA 9 the kinds are tables of their own.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import Any

from app.importers.amounts import amount
from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.names import short_name
from app.importers.source import Source
from estimator.scenario.measurement import Kernel, Measurement, Origin, Warning
from runners.trace.kernel_category import category_of, on_device

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_TIME = r"([\d.]{1,20})(s|ms|us|ns)"
_ROW = re.compile(
    rf"^\s*(?:([A-Z][A-Za-z ]{{2,30}}):)?\s*[\d.]{{1,10}}%\s+{_TIME}\s+(\d{{1,12}})"
    rf"\s+{_TIME}\s+{_TIME}\s+{_TIME}\s+(\S.{{0,2000}})$"
)
_BEGINS = re.compile(r"==\d{1,9}== (Profiling result|API calls|Unified Memory)")
_KINDS = {"Profiling result": "GPU activities"}
_HEADER = ("Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name")
_DEVICE = "GPU activities"
_REMEDY = "Upload what nvprof printed, whole, or nvprof --csv --log-file FILE; --print-gpu-trace is not read."

Row = dict[str, Any]


def is_text(text: str) -> bool:
    """Whether a text is such an output."""
    return bool(re.search(r"^==\d{1,9}== (?:NVPROF|Profiling result)", text, re.MULTILINE)) and "Time(%)" in text


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read all sums; raise ImportRefused where there is none of the device."""
    text = source.read("nvprof").decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if len(line) < 4000]
    found = [*_printed(lines), *_exported(lines)]
    kernels = [_kernel(row) for row in found if row["kind"] == _DEVICE]
    if not kernels:
        raise ImportRefused("nvprof", "", "it holds no sum of what ran on a device", _REMEDY)
    message = "These are sums over the whole recording; how many steps it held, the output does not say"
    warnings = (Warning(code="whole-recording", message=message),)
    measurement = Measurement(
        label=filename[:200],
        origin=Origin(kind="upload", format="nvprof", producer="nvprof"),
        kernels=tuple(sorted(kernels, key=lambda one: -one.total_s)[: limits.kernels]),
        rows=tuple(found[: limits.rows]),
        warnings=warnings,
    )
    return Imported(measurements=(measurement,), warnings=warnings, skipped=max(0, len(found) - limits.rows))


def _printed(lines: Sequence[str]) -> Iterator[Row]:
    kind = ""
    for line in lines:
        if begins := _BEGINS.match(line):
            kind = _KINDS.get(begins[1], begins[1])
        elif hit := _ROW.match(line):
            kind = hit[1] or kind
            total, mean, least, most = (
                (amount(hit[at]) or 0.0) * _UNITS[hit[at + 1]] for at in (2, 5, 7, 9)
            )  # a time and its unit
            yield _row(kind, hit[11].strip(), int(hit[4]), total, mean, least, most)


def _exported(lines: Sequence[str]) -> Iterator[Row]:
    """Under a header, the units of its columns, then rows."""
    csv.field_size_limit(1 << 20)
    at: dict[str, int] = {}
    scales: list[float] | None = None
    for line in lines:
        try:
            cells = next(csv.reader([line]), [])
        except csv.Error:
            continue
        if set(_HEADER) <= set(cells):
            at, scales = {name: place for place, name in enumerate(cells)}, None
        elif at and len(cells) == len(at):
            if scales is None:
                scales = [_UNITS.get(cell, 0.0) for cell in cells]
                continue
            calls = amount(cells[at["Calls"]])
            times = [(amount(cells[at[name]]) or 0.0) * scales[at[name]] for name in ("Time", "Avg", "Min", "Max")]
            if calls and times[0] > 0:
                kind = cells[at["Type"]] if "Type" in at else _DEVICE
                yield _row(kind, cells[at["Name"]], int(calls), *times)


def _row(kind: str, name: str, calls: int, total_s: float, mean_s: float, min_s: float, max_s: float) -> Row:
    return {
        "kind": kind, "name": name, "category": category_of(_plain(name)), "calls": calls, "total_s": total_s,
        "mean_s": mean_s, "min_s": min_s, "max_s": max_s,
    }  # fmt: skip


def _plain(name: str) -> str:
    """``[CUDA memcpy HtoD]`` in the words of other profilers."""
    return name.strip("[]").removeprefix("CUDA ")


def _kernel(row: Row) -> Kernel:
    return Kernel(
        name=short_name(_plain(row["name"])),
        category=on_device(row["category"]),
        count=row["calls"],
        total_s=row["total_s"],
    )
