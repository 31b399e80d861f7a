"""Nsight Compute as CSV, a row for each metric (``--csv``) or for each launch (``--csv --page raw``): kernels with the
FLOPs and bytes that were counted while they ran.

FLOPs: additions, products and twice the fused ones of the threads' instructions, and the operations of the tensor cores
(``sm__ops_path_tensor_…``, from Hopper on). Bytes: those of the device's memory.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from app.importers.counted import CountedLaunches, counted_kernels, kernel_row
from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.names import short_name
from app.importers.source import Source
from estimator.scenario.measurement import Kernel, Measurement, Origin, Warning
from estimator.scenario.units import counted

_HEADER = re.compile(r'^"ID",("Process ID"|"Kernel Name")', re.MULTILINE)
_UNITS = {
    "s": 1.0, "second": 1.0, "ms": 1e-3, "msecond": 1e-3, "us": 1e-6, "usecond": 1e-6, "ns": 1e-9, "nsecond": 1e-9,
    "byte": 1.0, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "tbyte": 1e12,
    "inst": 1.0, "kinst": 1e3, "minst": 1e6, "ginst": 1e9, "": 1.0, "cycle": 1.0,
}  # fmt: skip
_TIMES = ("gpu__time_duration.sum", "Duration")
_CYCLES = ("sm__cycles_elapsed.max", "smsp__cycles_elapsed.max", "Elapsed Cycles")
_INSTRUCTIONS = {
    f"{sm}__sass_thread_inst_executed_op_{kind}{what}_pred_on": 2.0 if what == "fma" else 1.0
    for sm in ("smsp", "sm")
    for kind in "dfh"
    for what in ("add", "mul", "fma")
}
_TENSOR = re.compile(r"sm__ops_path_tensor_src_[a-z0-9_]{1,60}$")
_NOT_TENSOR = ("_sparsity_on", "_sparsity_off")
"""Parts of another counter."""
_MEMORY = ("dram__bytes",), ("dram__bytes_read", "dram__bytes_write")
_SUMS = (".sum", ".sum.per_second", ".sum.per_cycle_elapsed")
_REMEDY = "Export it again: ncu --import REPORT.ncu-rep --csv --page raw --print-units base --print-fp > kernels.csv."

Metrics = dict[str, float]


def is_text(text: str) -> bool:
    """Whether a text is such an export; what the program printed may stand before it."""
    return bool(_HEADER.search(text)) and '"Kernel Name"' in text


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read every launch; raise ImportRefused where none has a time."""
    text = source.read("ncu").decode("utf-8", "replace")
    found = _HEADER.search(text)
    if found is None:
        raise ImportRefused("ncu", "", "it has no line that begins with ID", _REMEDY)
    csv.field_size_limit(1 << 20)
    try:
        rows = list(csv.reader(text[found.start() :].splitlines()))
    except csv.Error as error:
        raise ImportRefused("ncu", "", f"this is not valid CSV ({error})", _REMEDY) from None
    header, rows = rows[0], rows[1:]
    launches = _long(header, rows) if "Metric Name" in header else _wide(header, rows)
    kernels, skipped = _kernels(launches)
    if not kernels:
        raise ImportRefused("ncu", "", "no launch has a time (gpu__time_duration.sum, or Duration)", _REMEDY)
    message = "Nsight Compute holds the clocks down and empties the caches by default, so kernels take longer than else"
    warnings = [Warning(code="ncu-clocks", message=message)]
    with_flops = sum(kernel.flops is not None for kernel in kernels)
    if with_flops < len(kernels):
        message = (
            f"No count of FLOPs in {len(kernels) - with_flops} of {counted(len(kernels), 'kernel')}; "
            "record --set roofline, or from Hopper on --metrics regex:sm__ops_path_tensor_src"
        )
        warnings.append(Warning(code="no-flops", message=message))
    devices = {name for _, name, _ in launches if name}
    measurement = Measurement(
        label=filename[:200],
        origin=Origin(kind="upload", format="ncu", producer="Nsight Compute"),
        device={"name": devices.pop()} if len(devices) == 1 else {},
        kernels=tuple(kernels[: limits.kernels]),
        rows=tuple(kernel_row(kernel) for kernel in kernels[: limits.rows]),
        warnings=tuple(warnings),
    )
    return Imported(measurements=(measurement,), warnings=tuple(warnings), skipped=skipped)


Launch = tuple[str, str, Metrics]
"""Kernel, device where it has a name, and metrics in SI."""


def _long(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Launch]:
    """A row for each metric of a launch."""
    at = {name: place for place, name in enumerate(header)}
    needed = ("ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value")
    if not set(needed) <= set(at):
        raise ImportRefused("ncu", "the header", "a column is missing: " + ", ".join(set(needed) - set(at)), _REMEDY)
    rows = [row for row in rows if len(row) > max(at[name] for name in needed)]  # columns of rules may be missing
    decimal = _decimal(row[at["Metric Value"]] for row in rows)
    found: dict[str, Launch] = {}
    for row in rows:
        launch = found.setdefault(row[at["ID"]], (row[at["Kernel Name"]], _device(row, at), {}))
        value = _value(row[at["Metric Value"]], row[at["Metric Unit"]], decimal)
        if value is not None:
            launch[2].setdefault(row[at["Metric Name"]], value)
    return list(found.values())


def _wide(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Launch]:
    """A row for each launch, the units in the first one."""
    at = {name: place for place, name in enumerate(header)}
    if "Kernel Name" not in at or not rows:
        raise ImportRefused("ncu", "the header", "a column is missing: Kernel Name", _REMEDY)
    units = rows[0] if rows[0] and not rows[0][0].strip() else None
    metric = {name: place for name, place in at.items() if "__" in name or name in (*_TIMES, *_CYCLES)}
    decimal = _decimal(row[place] for row in rows if len(row) == len(header) for place in metric.values())
    found: list[Launch] = []
    for row in rows[1:] if units else rows:
        if len(row) != len(header):
            continue
        metrics = {}
        for name, place in metric.items():
            value = _value(row[place], units[place] if units and len(units) == len(header) else "", decimal)
            if value is not None:
                metrics[name] = value
        found.append((row[at["Kernel Name"]], _device(row, at), metrics))
    return found


def _device(row: Sequence[str], at: Mapping[str, int]) -> str:
    """Newer versions write a name, older ones its number."""
    name = row[at["Device"]] if "Device" in at else ""
    return "" if name.strip().isdigit() else name[:100]


def _kernels(launches: Iterable[Launch]) -> tuple[list[Kernel], int]:
    """Launches of a kernel added up, the longest first; those without a time are counted."""
    groups: dict[str, list[CountedLaunches]] = defaultdict(list)
    skipped = 0
    for name, _, metrics in launches:
        seconds = next((metrics[time] for time in _TIMES if metrics.get(time, 0.0) > 0), None)
        if seconds is None or not name:
            skipped += 1
            continue
        launch = CountedLaunches(seconds=seconds, flops=_flops(metrics, seconds), bytes=_bytes(metrics, seconds))
        groups[short_name(name)].append(launch)
    return counted_kernels(groups), skipped


def _counts(metrics: Metrics, seconds: float) -> Iterator[tuple[str, float]]:
    """Counters by the part of their name before the way that they were summed."""
    cycles = next((metrics[name] for name in _CYCLES if name in metrics), None)
    said: set[str] = set()
    for ending, scale in zip(_SUMS, (1.0, seconds, cycles), strict=True):
        for name, value in metrics.items():
            base = name.removesuffix(ending)
            if base != name and base not in said and scale is not None:
                said.add(base)
                yield base, value * scale


def _flops(metrics: Metrics, seconds: float) -> float | None:
    threads: dict[str, float] = {}
    tensor: list[float] = []
    for name, count in _counts(metrics, seconds):
        if name in _INSTRUCTIONS:
            threads[name.removeprefix("smsp").removeprefix("sm")] = count * _INSTRUCTIONS[name]
        elif _TENSOR.match(name) and not name.endswith(_NOT_TENSOR):
            tensor.append(count)
    return sum(threads.values()) + sum(tensor) if threads or tensor else None


def _bytes(metrics: Metrics, seconds: float) -> float | None:
    counts = dict(_counts(metrics, seconds))
    for names in _MEMORY:
        if all(name in counts for name in names):
            return sum(counts[name] for name in names)
    rate = metrics.get("Memory Throughput")
    return rate * seconds if rate is not None and rate > 1e6 else None  # a share of the peak has the same name


def _decimal(cells: Iterable[str]) -> str:
    """The sign before decimals: numbers are written as the machine's language has them. Raises ImportRefused."""
    signs: set[str] = set()
    for text in cells:
        if not re.fullmatch(r"[\d.,]{3,40}", text):
            continue
        for sign, other in (".,", ",."):
            if text.count(sign) > 1 or (sign in text and other in text and text.index(sign) < text.index(other)):
                signs.add(other)  # this one parts thousands
            elif text.count(sign) == 1 and other not in text and not re.search(rf"\{sign}\d{{3}}$", text):
                signs.add(sign)
    if len(signs) > 1:
        message = "some numbers have decimal commas, some decimal points"
        raise ImportRefused("ncu", "", message, _REMEDY)
    return signs.pop() if signs else "."


def _value(text: str, unit: str, decimal: str) -> float | None:
    plain = text.strip().replace("," if decimal == "." else ".", "").replace(decimal, ".")
    of, _, per = unit.strip().lower().partition("/")
    scale = _UNITS.get(of, 1.0)
    if per:
        scale /= _UNITS.get(per, 1.0)
    try:
        value = float(plain) * scale
    except ValueError:
        return None
    return value if 0.0 <= value < 1e24 else None
