"""Counters of AMD's profilers as CSV: ``pmc_perf.csv`` of rocprof-compute (Omniperf), a row for each launch, and
``*_counter_collection.csv`` of rocprofv3, a row for each counter of a launch.

FLOPs: 64 lanes of a wave for each instruction, fused ones twice, and 512 for each unit of the matrix instructions.
Bytes: requests of the L2 to memory, of 32, 64 and 128 bytes. Source: ROCm Compute Profiler documentation, performance
model, "FLOPs" and "L2-Fabric"; lanes that are switched off count as well.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from app.importers.amounts import amount
from app.importers.counted import CountedLaunches, counted_kernels, kernel_row
from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.names import short_name
from app.importers.source import Source
from estimator.scenario.measurement import Kernel, Measurement, Origin, Warning

_WIDE = re.compile(r"^\W{0,4}Dispatch_I[Dd]\W.{0,200000}\b(?:TCC|SQC?|TCP)_[A-Z]{2}", re.MULTILINE)
_LONG = re.compile(r'^.{0,2000}"?Counter_Name"?,"?Counter_Value"?', re.MULTILINE)
_NEEDED = ("kernel_name", "start_timestamp", "end_timestamp")
_WIDTHS, _LANES, _MATRIX_OPS = ("F16", "F32", "F64"), 64.0, 512.0
_ONCE = ("ADD", "MUL", "TRANS")
_SMALL, _USUAL, _LARGE = 32.0, 64.0, 128.0
"""Bytes of a request to memory."""
_NS = 1e-9
_MOST = 1e24
"""Of a counter; what is more was not counted."""
_REMEDY = (
    "Upload the pmc_perf.csv of rocprof-compute profile, or rocprofv3 --pmc … --output-format csv, as it was written."
)

Counters = dict[str, float]
Launch = tuple[str, float, Counters]
"""Kernel, seconds and counters."""
Timed = tuple[Sequence[str], float]
"""A row and the seconds of its launch."""


def is_text(text: str) -> bool:
    """Whether a text is such a table."""
    head = text[:300_000]
    return "Kernel_Name" in head and "End_Timestamp" in head and bool(_WIDE.search(head) or _LONG.search(head))


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read every launch; raise ImportRefused where none has a time."""
    text = source.read("rocprof counters").decode("utf-8", "replace")
    csv.field_size_limit(1 << 20)
    try:
        rows = list(csv.reader(text.splitlines()))
    except csv.Error as error:
        raise ImportRefused("rocprof", "", f"this is not valid CSV ({error})", _REMEDY) from None
    header = next((row for row in rows if any(name.lower() == "kernel_name" for name in row)), [])
    at = {name.strip().lower(): place for place, name in enumerate(header)}
    needed = (*_NEEDED, "counter_value") if "counter_name" in at else _NEEDED
    if missing := [name for name in needed if name not in at]:
        raise ImportRefused("rocprof", "the header", "a column is missing: " + ", ".join(missing), _REMEDY)
    body = [row for row in rows[rows.index(header) + 1 :] if len(row) == len(header)]
    timed = [(row, seconds) for row in body if (seconds := _seconds(row, at))]
    launches = list(_long(at, timed) if "counter_name" in at else _wide(header, at, timed))
    kernels = _kernels(launches)
    if not kernels:
        message = "no launch has a time that ends after it begins; a spreadsheet may have rounded them"
        raise ImportRefused("rocprof", "Start_Timestamp", message, _REMEDY)
    message = "Kernels run one at a time while counters are read, and once for each set of counters"
    warnings = [Warning(code="counters-serialise", message=message)]
    measurement = Measurement(
        label=filename[:200],
        origin=Origin(kind="upload", format="rocprof-counters", producer="rocprof"),
        kernels=tuple(kernels[: limits.kernels]),
        rows=tuple(kernel_row(kernel) for kernel in kernels[: limits.rows]),
        warnings=tuple(warnings),
    )
    return Imported(measurements=(measurement,), warnings=tuple(warnings), skipped=len(body) - len(timed))


def _wide(header: Sequence[str], at: Mapping[str, int], timed: Sequence[Timed]) -> Iterator[Launch]:
    names = {name: place for place, name in enumerate(header) if _counts(name)}
    for row, seconds in timed:
        counters = {name: value for name, place in names.items() if (value := amount(row[place], _MOST)) is not None}
        yield row[at["kernel_name"]], seconds, counters


def _long(at: Mapping[str, int], timed: Sequence[Timed]) -> Iterator[Launch]:
    """A launch stands in as many rows as it has counters."""
    found: dict[tuple[str, ...], Launch] = {}
    key = [at[name] for name in ("dispatch_id", "agent_id", "process_id", *_NEEDED[1:]) if name in at]
    for row, seconds in timed:
        new: Launch = (row[at["kernel_name"]], seconds, {})
        counters = found.setdefault(tuple(row[place] for place in key), new)[2]
        name, value = row[at["counter_name"]], amount(row[at["counter_value"]], _MOST)
        if value is not None and _counts(name):
            counters[name] = counters.get(name, 0.0) + value
    yield from found.values()


def _counts(name: str) -> bool:
    return name.startswith(("SQ_INSTS_VALU_", "TCC_EA", "TCC_BUBBLE")) and "[" not in name


def _seconds(row: Sequence[str], at: Mapping[str, int]) -> float:
    """Nanoseconds since the machine started have more digits than a float."""
    begin, end = row[at["start_timestamp"]].strip(), row[at["end_timestamp"]].strip()
    whole = all(text.isascii() and text.isdigit() and len(text) < 20 for text in (begin, end))
    return max(0, int(end) - int(begin)) * _NS if whole else 0.0


def _kernels(launches: Sequence[Launch]) -> list[Kernel]:
    groups: dict[str, list[CountedLaunches]] = defaultdict(list)
    for name, seconds, counters in launches:
        launch = CountedLaunches(seconds=seconds, flops=_flops(counters), bytes=_bytes(counters))
        groups[short_name(re.sub(r" [\[(](?:clone )?\.kd[\])]$", "", name))].append(launch)
    return counted_kernels(groups)


def _flops(counters: Counters) -> float | None:
    """None unless every instruction of a width was counted."""
    total = 0.0
    for width in _WIDTHS:
        names = [f"SQ_INSTS_VALU_{what}_{width}" for what in (*_ONCE, "FMA")]
        if not all(name in counters for name in names):
            return None
        total += _LANES * (sum(counters[name] for name in names) + counters[names[-1]])
    matrix = [value for name, value in counters.items() if name.startswith("SQ_INSTS_VALU_MFMA_MOPS_")]
    whole = counters.get("SQ_INSTS_VALU_MFMA_MOPS_I8", 0.0)
    return total + _MATRIX_OPS * (sum(matrix) - whole)


def _bytes(counters: Counters) -> float | None:
    prefix = "TCC_EA0" if "TCC_EA0_RDREQ_sum" in counters else "TCC_EA"
    names = ("RDREQ_sum", "RDREQ_32B_sum", "WRREQ_sum", "WRREQ_64B_sum")
    if not all(f"{prefix}_{name}" in counters for name in names):
        return None
    reads, small, writes, usual = (counters[f"{prefix}_{name}"] for name in names)
    large = counters.get("TCC_BUBBLE_sum", 0.0)
    read = _SMALL * small + _LARGE * large + _USUAL * max(0.0, reads - small - large)
    return read + _USUAL * usual + _SMALL * max(0.0, writes - usual)
