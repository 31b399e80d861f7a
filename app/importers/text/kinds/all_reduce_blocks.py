"""Collective benchmark blocks: ``Backend: NCCL … World size: 2 … Overall average time: 0.047 ms … bandwidth``."""

from __future__ import annotations

import re
import statistics
from typing import Any

from app.importers.bandwidth import READINGS, bus_factor, errors
from app.importers.text.kinds.collective_rows import kind_of, measured
from app.importers.text.layout.document import Block, Document, Fields, KeyValue, place
from app.importers.text.reading import Decisions, Reading
from app.importers.text.values.cells import cell
from app.importers.text.values.figures import Findings, put, whole
from app.importers.text.values.header import Column, column
from app.importers.text.values.units import unit
from estimator.scenario.measurement import Warning
from estimator.scenario.units import MIB, counted

KIND = "collectives"
_SIZE = re.compile(
    r"(\d[\d,]{0,18}(?:\.\d{1,9})?)\s*([kKMGT]?i?B)\b(?:\s*\((\d[\d,]{0,18})\s+(\w{1,12})\s+elements\))?"
)
_ELEMENT_BYTES = {"float32": 4, "fp32": 4, "float": 4, "float16": 2, "bfloat16": 2, "half": 2, "float64": 8, "int8": 1}
_TIMES = {"mean": ("average", "time"), "min": ("min", "time"), "max": ("max", "time"), "std": ("standard deviation",)}
_FITS = 0.02
_SNAP = 0.005


def matches(block: Block) -> bool:
    """A block with a bandwidth, times, and either a world size or times of each rank."""
    if not isinstance(block, Fields) or block.get("bandwidth") is None:
        return False
    return block.get("world size") is not None or len(_ranks(block)) >= 2


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all such blocks under one heading; a block that lost its head is completed only by what follows."""
    fields = [block for block in blocks if isinstance(block, Fields)]
    warnings: list[Warning] = []
    rows = [_row(block) for block in fields]
    code, scale, bus = _bandwidth(rows)
    if code:
        meant = f"{'bus' if bus else 'algorithm'} bandwidth in {'GiB/s' if scale != 1e9 else 'GB/s'}"
        message = f"The printed 'GB/s' is {meant}: so it follows from size, time and ranks of every whole block"
        warnings.append(Warning(code=code, message=message, where=place(fields[0])))
    elif any("printed_bandwidth" in row for row in rows):
        message = "The printed bandwidth fits neither bus nor algorithm bandwidth; it was left out"
        warnings.append(Warning(code="bandwidth-unclear", message=message, where=place(fields[0])))
    if any(_is_binary(block) for block in fields):
        message = "'MB' means MiB here: the number of elements beside it says so"
        warnings.append(Warning(code="mb-is-mib", message=message, where=place(fields[0])))
    whole_rows = [row for row in rows if row["size_bytes"] and row["mean_s"]]
    for block, row in zip(fields, rows, strict=True):
        printed = row.pop("printed_bandwidth", None)
        if printed is not None and code:
            row["bus_bytes_per_s" if bus else "algorithm_bytes_per_s"] = printed * scale
        if not row["size_bytes"] or not row["world_size"]:
            warnings.append(
                _complete(row, whole_rows, printed * scale if printed and code else None, bus, place(block))
            )
    collectives = [found for row in rows if (found := measured(row)) is not None]
    return Reading(rows=rows, warnings=warnings, collectives=collectives, skipped=len(rows) - len(collectives))


def _row(block: Fields) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": kind_of(block.title or "all-reduce")}
    backend, device = block.get("backend"), block.get("device")
    if backend:
        row["backend"] = backend.value.lower()
    if device:
        row["device"] = "cuda" if re.search(r"gpu|cuda", device.value, re.IGNORECASE) else device.value.lower()
    ranks, world = _ranks(block), block.get("world size")
    row["world_size"] = whole(world.value) if world else 0
    row["size_bytes"] = _size(_sized(block))
    if (iterations := block.get("iterations")) and (count := whole(iterations.value)) is not None:
        row["iterations"] = count
    row["mean_s"] = None
    for name, words in _TIMES.items():
        _time(row, name, _entry(block, words))
    row["rank_mean_s"] = [_seconds(entry) for entry in ranks]
    printed = block.get("bandwidth")
    if printed and (value := cell(printed.value).value):
        row["printed_bandwidth"] = value
    return row


def _entry(block: Fields, words: tuple[str, ...]) -> KeyValue | None:
    """Find a time by its key; a key whose beginning was cut off counts where its rest can only be this one."""
    found = block.get(*words)
    if found is not None or not block.entries or block.get("world size"):
        return found
    first = block.entries[0]
    rest = first.key.lower()
    whole_keys = ["overall average time", "overall min time", "overall max time", "standard deviation"]
    fits = [key for key in whole_keys if key.endswith(rest)]
    return first if len(fits) == 1 and all(word in fits[0] for word in words) else None


def _sized(block: Fields) -> KeyValue | None:
    return next((entry for entry in block.entries if "size" in entry.key.lower() and _SIZE.search(entry.value)), None)


def _ranks(block: Fields) -> list[KeyValue]:
    return [entry for entry in block.entries if re.fullmatch(r"rank \d{1,6}", entry.key.lower())]


def _time(row: dict[str, Any], name: str, entry: KeyValue | None) -> None:
    if entry is not None:
        row[f"{name}_s"] = _seconds(entry)


def _seconds(entry: KeyValue) -> float | None:
    row: dict[str, Any] = {}
    put(row, "time", entry.value, _NO_HEADER, Findings())
    return row.get("time_s")


_NO_HEADER: Column = column("time")


def _is_binary(block: Fields) -> bool:
    """Whether elements times their size contradict the decimal reading of the printed size."""
    entry = _sized(block)
    found = _SIZE.search(entry.value) if entry else None
    size, printed = _size(entry), unit(found[2]) if found else None
    if found is None or size is None or printed is None or not printed.loose:
        return False
    decimal = float(found[1].replace(",", "")) * printed.scale
    return decimal > 0 and abs(size / decimal - 1.0) > _FITS


def _size(entry: KeyValue | None) -> float | None:
    """Read '10 MB (2621440 float32 elements)'; the elements settle the bytes, else MB are MiB as in such scripts."""
    found = _SIZE.search(entry.value) if entry else None
    if found is None:
        return None
    if found[3] and found[4].lower() in _ELEMENT_BYTES:
        return float(found[3].replace(",", "")) * _ELEMENT_BYTES[found[4].lower()]
    size = unit(found[2])
    return float(found[1].replace(",", "")) * size.scale if size else None


def _bandwidth(rows: list[dict[str, Any]]) -> tuple[str, float, bool]:
    """Find the one reading of 'GB/s' that fits every whole block."""
    usable = [r for r in rows if r["size_bytes"] and r["mean_s"] and r["world_size"] and "printed_bandwidth" in r]
    worst = dict.fromkeys((code for code, _, _ in READINGS), 0.0)
    for row in usable:
        found = errors(row["kind"], row["world_size"], row["size_bytes"], row["mean_s"], row["printed_bandwidth"])
        worst = {code: max(worst[code], found[code]) for code in worst}
    fitting = [reading for reading in READINGS if usable and worst[reading[0]] <= _FITS]
    if not fitting:
        return "", 1.0, False
    code, bus, scale = min(fitting, key=lambda reading: worst[reading[0]])
    return code, scale, bus


def _complete(
    row: dict[str, Any], others: list[dict[str, Any]], bandwidth: float | None, bus: bool, where: str
) -> Warning:
    """Fill a block that lost its head: ranks from their lines, the mean from theirs, the size from its bandwidth."""
    said = ["This block lost its head"]
    ranks = [value for value in row["rank_mean_s"] if value]
    if not row["world_size"] and ranks:
        row["world_size"] = len(ranks)
        said.append(f"{counted(len(ranks), 'rank')} from its lines for each rank")
    if row["mean_s"] is None and ranks:
        row["mean_s"] = statistics.fmean(ranks)
        said.append("the mean is that of its ranks")
    if not row["size_bytes"] and bandwidth and row["mean_s"] and row["world_size"]:
        size = bandwidth * row["mean_s"] / (bus_factor(row["kind"], row["world_size"]) if bus else 1.0)
        near = [other["size_bytes"] for other in others if abs(other["size_bytes"] / size - 1) <= _SNAP]
        row["size_bytes"] = near[0] if near else size
        said.append(f"the size of {row['size_bytes'] / MIB:.6g} MiB follows from its bandwidth and mean")
    for key in ("backend", "device"):
        names = {other.get(key) for other in others}
        if key not in row and len(names) == 1 and (name := names.pop()):
            row[key] = name
            said.append(f"{key} is that of all other blocks")
    row["reconstructed"] = True
    return Warning(code="truncated-block", message="; ".join(said), where=where)
