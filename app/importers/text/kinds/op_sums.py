"""Sums by kernel or op, as profilers print them: ``key_averages()``, ``nsys stats``, rocprof with its launches."""

from __future__ import annotations

import re
from typing import Any

from app.importers.names import short_name
from app.importers.text.layout.document import Block, Document, Table, place
from app.importers.text.reading import Decisions, Reading
from app.importers.text.values.cells import cell
from app.importers.text.values.figures import scaled, whole
from app.importers.text.values.units import PREFIXES, unit
from estimator.scenario.measurement import Kernel, Warning
from estimator.scenario.units import GIB, KIB, MIB, counted
from runners.trace.kernel_category import category_of, on_device

KIND = "op-sums"
_DEVICES = ("cuda", "xpu", "hpu", "mtia", "privateuse1", "device", "gpu")
_MEMORY_UNITS = {"b": 1.0, "kb": float(KIB), "mb": float(MIB), "gb": float(GIB), "tb": 1024.0 * GIB}
"""torch.autograd.profiler_util prints powers of 1024 under these names."""
_FLOPS = re.compile(r"total\s+([kmgtp]?)flops", re.IGNORECASE)
_RAW_TIMES = {
    "self_cpu_time_total": "self_cpu_s",
    "cpu_time_total": "total_cpu_s",
    "self_device_time_total": "self_device_s",
    "device_time_total": "total_device_s",
    "self_cuda_time_total": "self_device_s",
    "cuda_time_total": "total_device_s",
}
"""Attributes of an averaged event, microseconds, and the columns that they become."""
_FORMER = {"self cpu total": "self cpu", "number of calls": "# of calls"}
"""Columns of ``key_averages()`` until PyTorch 1.6."""
_COUNTS = ("instances", "num calls", "count", "operations", "calls")
_STATISTICS = (
    ("total time", "total"), ("avg", "mean"), ("average", "mean"), ("med", "median"), ("min", "min"),
    ("minimum", "min"),
    ("max", "max"), ("maximum", "max"), ("stddev", "std"),
)  # fmt: skip
_CALLS = re.compile(
    r"_{0,2}hip[A-Z]\w{0,80}|hsa_\w{1,80}|roctx\w{1,80}|nccl(?!Dev|Kernel)[A-Z]\w{1,80}"
    r"|[A-Z]{2,12}_(?:[A-Z]{2,12}_)?API(?:_EXT)?|KERNEL_DISPATCH|MEMORY_(?:COPY|ALLOCATION)|SCRATCH_MEMORY"
)
"""Calls of the host and sums by domain, of which rocprof writes tables of the same columns."""
_ANNOTATION = re.compile(
    r"ProfilerStep[*#]|nccl:|Optimizer\.\w{1,20}#|DistributedDataParallel\.|(?:FSDP|HSDP)::|FullyShardedDataParallel\."
    r"|Torch-Compiled Region|## |enumerate\(DataLoader\)"
)
"""How names begin of spans that the profiler draws over the device's kernels, whose time is that of the kernels."""
_CUT = ("...", "…")


def matches(block: Block) -> bool:
    """A table of names, counts and total times."""
    return isinstance(block, Table) and block.form != "statistics" and _form(block) != ""


def _form(table: Table) -> str:
    columns = {_plain(name) for name in table.columns}
    if {"name", "self cpu", "# of calls"} <= columns:
        return "table"
    if {"key", "count"} <= columns and columns & {name.replace("_", " ") for name in _RAW_TIMES}:
        return "raw"
    if {"totaldurationns", "calls"} <= columns:
        return "rocprof"
    if {"kernel name", "start timestamp", "end timestamp"} <= columns or {"kernelname", "durationns"} <= columns:
        return "launches"
    if {"start (ns)", "duration (ns)", "strm", "name"} <= columns:  # nsys stats --report cuda_gpu_trace
        return "launches"
    timed = any(name.startswith("total time (") for name in columns)
    counted = columns & {"instances", "num calls", "count", "operations", "calls"}
    return "nsys" if timed and counted and columns & {"name", "operation", "range"} else ""


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all such tables under one heading; what ran on the device becomes kernels too."""
    rows: list[dict[str, Any]] = []
    kernels: list[Kernel] = []
    warnings: list[Warning] = []
    for table in (block for block in blocks if isinstance(block, Table)):
        form = _form(table)
        names = [_plain(name) for name in table.columns]
        each = [dict(zip(names, cells, strict=True)) for cells in table.rows]
        if form == "launches":
            new = _summed(each)
        else:
            read = {"table": _printed, "raw": _raw, "nsys": _nsys, "rocprof": _rocprof}[form]
            new = [row for cells in each if (row := read(cells)) is not None]
        kernels += _kernels(new, form, names)
        rows += new
        cut = sum(row["name"].endswith(_CUT) for row in new)
        if cut:
            message = (
                f"{counted(cut, 'name')} cut off ({_CUT[0]}); different kernels may have become one "
                "(max_name_column_width)"
            )
            warnings.append(Warning(code="names-cut", message=message, where=place(table)))
        message = "These are sums over the whole recording; how many steps it held, the table does not say"
        warnings.append(Warning(code="whole-recording", message=message, where=place(table)))
    return Reading(rows=rows, warnings=warnings, kernels=kernels)


def _plain(name: str) -> str:
    plain = " ".join(name.lower().replace("_", " ").replace("(", " (").split())
    return _FORMER.get(plain, plain)


def _printed(row: dict[str, str]) -> dict[str, Any] | None:
    found: dict[str, Any] = {
        "name": row["name"],
        "category": category_of(row["name"]),
        "calls": whole(row["# of calls"]),
    }
    if found["calls"] is None:
        return None
    for name, text in row.items():
        device = next((one for one in _DEVICES if one in name), "")
        where = "device" if device else "cpu"
        if name in ("self cpu", "cpu total") or (device and name in (f"self {device}", f"{device} total")):
            if (seconds := _seconds(text)) is not None:
                found[f"{'self' if 'self' in name else 'total'}_{where}_s"] = seconds
        elif name.endswith(" mem"):
            if (size := _size(text)) is not None:
                found[f"{'self_' if 'self' in name else ''}{where}_memory_bytes"] = size
        elif name == "input shapes":
            found["input_shapes"] = text[:200]
        elif (scale := _FLOPS.match(name)) and (value := cell(text).value):
            found["flops"] = value * PREFIXES[scale[1].lower()]
    return found


def _raw(row: dict[str, str]) -> dict[str, Any] | None:
    name, calls = row["key"], whole(row["count"])
    if calls is None:
        return None
    found: dict[str, Any] = {"name": name, "category": category_of(name), "calls": calls}
    for attribute, key in _RAW_TIMES.items():
        if (value := cell(row.get(attribute.replace("_", " "), "")).value) is not None:
            found[key] = scaled(value, 1e-6)
    if flops := cell(row.get("flops", "")).value:
        found["flops"] = flops
    return found


def _nsys(row: dict[str, str]) -> dict[str, Any] | None:
    name = next((row[key] for key in ("name", "operation", "range") if key in row), "")
    calls = next(
        (whole(row[key]) for key in ("instances", "num calls", "count", "operations", "calls") if key in row), None
    )
    if calls is None or not name:
        return None
    found: dict[str, Any] = {"name": name, "category": category_of(name), "calls": calls}
    for column, key in _STATISTICS:
        for header, text in row.items():
            printed = re.fullmatch(rf"{column} \((\w{{1,8}})\)", header)
            value = cell(text).value
            if printed and value is not None and (scale := unit(printed[1])):
                found[f"{key}_s"] = scaled(value, scale.scale)
    return found if "total_s" in found else None


def _rocprof(row: dict[str, str]) -> dict[str, Any] | None:
    """``*_stats.csv`` of rocprof and rocprofv3, nanoseconds."""
    calls, total = whole(row["calls"]), cell(row["totaldurationns"]).value
    name = row.get("name", "")
    if not calls or total is None or total < 0 or not name:
        return None
    found: dict[str, Any] = {
        "name": name,
        "category": category_of(name),
        "calls": calls,
        "total_s": scaled(total, 1e-9),
    }
    for column, key in (("averagens", "mean_s"), ("minns", "min_s"), ("maxns", "max_s"), ("stddev", "std_s")):
        if (value := cell(row.get(column, "")).value) is not None:
            found[key] = scaled(value, 1e-9)
    return found


def _stamp(text: str) -> int | None:
    """Nanoseconds since the machine started have more digits than a float."""
    plain = text.strip()
    return int(plain) if plain.isascii() and plain.isdigit() and len(plain) < 20 else None


def _summed(launches: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Kernels of a list of launches, the longest first: ``*_kernel_trace.csv`` of rocprofv3, ``results.csv`` before."""
    times: dict[str, list[int]] = {}
    for one in launches:
        begin, end = _stamp(one.get("start timestamp", "")), _stamp(one.get("end timestamp", ""))
        alone = _stamp(one.get("durationns") or one.get("duration (ns)", "").replace(",", ""))
        taken = end - begin if begin is not None and end is not None else alone
        name = one.get("kernel name") or one.get("kernelname") or one.get("name") or ""
        if taken is not None and taken >= 0 and name:
            times.setdefault(name, []).append(taken)
    rows = [
        {"name": name, "category": category_of(name), "calls": len(some), "total_s": scaled(sum(some), 1e-9),
         "mean_s": scaled(sum(some) / len(some), 1e-9), "min_s": scaled(min(some), 1e-9),
         "max_s": scaled(max(some), 1e-9)}
        for name, some in times.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row["total_s"])


def _kernels(rows: list[dict[str, Any]], form: str, names: list[str]) -> list[Kernel]:
    """Kernels of the device: of ``nsys stats`` the table of instances but of ranges, of the profiler rows whose time is
    all its own and on no CPU. An op's row says the time of its kernels once more, and so does a span's, which stands
    there for the host and again for the device; both are left out."""
    if form in ("nsys", "rocprof", "launches"):
        summed = "instances" in names and "range" not in names
        on_device = rows if summed or form != "nsys" else []
        calls = [row for row in on_device if _CALLS.fullmatch(row["name"])]
        on_device = [] if 2 * len(calls) > len(on_device) else [row for row in on_device if row not in calls]
        return [_kernel(row, row["total_s"]) for row in on_device]
    of_host = {row["name"] for row in rows if row.get("self_cpu_s") or row.get("total_cpu_s")}
    return [
        _kernel(row, row["self_device_s"])
        for row in rows
        if row.get("self_device_s") and row["name"] not in of_host and not _ANNOTATION.match(row["name"])
    ]


def _kernel(row: dict[str, Any], seconds: float) -> Kernel:
    return Kernel(
        name=short_name(row["name"]),
        category=on_device(row["category"]),
        count=row["calls"],
        total_s=seconds,
        flops=row.get("flops"),
    )


def _seconds(text: str) -> float | None:
    read = cell(text)
    scale = unit(read.unit) if read.unit else None
    return scaled(read.value, scale.scale) if read.value is not None and scale and scale.suffix == "_s" else None


def _size(text: str) -> float | None:
    number, _, printed = text.strip().rpartition(" ")
    value = cell(number or "-").value
    return None if value is None or printed.lower() not in _MEMORY_UNITS else value * _MEMORY_UNITS[printed.lower()]
