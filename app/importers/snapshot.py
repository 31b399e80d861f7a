"""CUDA memory snapshots (``torch.cuda.memory._dump_snapshot``): memory over time, and what held it at its peak.

The file is a pickle of dicts, lists, numbers and texts, or the same as JSON, as ``python -m runners`` writes it. A
pickle is read by an unpickler that knows no class and no function at all, so that nothing of it can run; what asks for
one is refused.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.source import Source
from estimator.scenario.measurement import MeasuredMemory, Measurement, Origin, Warning
from estimator.scenario.units import MIB

_MOST_BYTES = 512 * MIB
_LARGEST = 2**63 - 1
"""Of a size, an address, or a time in microseconds since 1970: what torch's own integers hold."""
_POINTS, _HOLDERS, _FRAMES = 1000, 100, 4
_ACTIVE = ("active_allocated", "active_pending_free", "active_awaiting_free")
_OWN_FRAMES = ("/torch/", "\\torch\\", "<frozen", "??")
_BROKEN = (
    pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError,
    RecursionError,
)  # fmt: skip


class _Plain(pickle.Unpickler):
    """Builds what pickle has opcodes for, and nothing that needs a name."""

    def find_class(self, module: str, name: str) -> Any:
        raise ImportRefused("snapshot", "", _CODE.format(name=f"{module}.{name}"[:80]), _REMEDY)

    def persistent_load(self, pid: Any) -> Any:
        raise ImportRefused("snapshot", "", _CODE.format(name="something outside the file"), _REMEDY)


_CODE = "this is a pickle that asks for {name}, which could run code, so it is not opened"
_REMEDY = (
    "Upload a memory snapshot of torch.cuda.memory._dump_snapshot, or export the data as JSON, CSV or text; a profile "
    "by prof.export_chrome_trace('trace.json.gz')."
)


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Memory of one size from one place in the program."""

    size: int
    place: str


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Turn each device's history into a measurement; raise ImportRefused where the pickle is something else."""
    data = source.read("snapshot", _MOST_BYTES)
    form = "JSON" if data.lstrip().startswith(b"{") else "pickle"
    try:
        document = msgspec.json.decode(data) if form == "JSON" else _Plain(io.BytesIO(data)).load()
    except _BROKEN as error:
        message = f"this {form} is damaged or cut off ({type(error).__name__})"
        raise ImportRefused("snapshot", "", message, "Copy the file again, whole.") from None
    if isinstance(document, list):  # before PyTorch 2.0: the segments alone
        document = {"segments": document, "device_traces": []}
    if not isinstance(document, dict) or not isinstance(document.get("segments"), list):
        raise ImportRefused("snapshot", "", f"this {form} is no memory snapshot: it has no segments", _REMEDY)
    segments = [one for one in document["segments"] if isinstance(one, dict)]
    histories = document.get("device_traces")
    histories = histories if isinstance(histories, list) else []
    devices = sorted({_whole(one.get("device")) for one in segments} | {i for i, one in enumerate(histories) if one})
    measurements = tuple(_of_device(device, segments, histories, filename) for device in devices[:1024])
    if not measurements:
        message = "the snapshot holds no memory of any device"
        raise ImportRefused("snapshot", "segments", message, "Dump it while tensors are on the device.")
    warnings = tuple(warning for one in measurements for warning in one.warnings)
    return Imported(measurements=measurements, warnings=warnings)


def _of_device(device: int, segments: list[dict[str, Any]], histories: list[Any], filename: str) -> Measurement:
    mine = [one for one in segments if _whole(one.get("device")) == device]
    history = histories[device] if device < len(histories) and isinstance(histories[device], list) else []
    entries = [one for one in history if isinstance(one, dict)]
    held = {address: holder for one in mine for address, holder in _blocks(one)}
    at_end = sum(holder.size for holder in held.values())
    reserved = sum(_whole(one.get("total_size")) for one in mine)
    times, allocated, peak_at = _timeline(entries, at_end)
    peak = max(allocated, default=at_end)
    holders = _at(entries, held, peak_at)
    known = sum(size * count for (size, _), count in holders)
    warnings = []
    if peak > known:
        message = f"{peak - known:,} bytes at the peak were taken before the history began; who took them is unknown"
        warnings.append(Warning(code="history-incomplete", message=message))
    if any(one.get("action") == "oom" for one in entries):
        message = "The history holds an allocation that failed: the device was out of memory"
        warnings.append(Warning(code="oom-in-history", message=message))
    every = max(1, len(times) // _POINTS)
    kept = sorted({*range(0, len(times), every), *([peak_at] if times else [])})
    start = times[0] if times else 0
    rows: list[dict[str, Any]] = [
        {"entry": i, "time_s": (times[i] - start) * 1e-6, "allocated_bytes": float(allocated[i])} for i in kept
    ]
    rows += [
        {"place": place, "blocks": count, "each_bytes": float(size), "held_bytes": float(size * count)}
        for (size, place), count in holders[:_HOLDERS]
    ]
    return Measurement(
        label=filename[:200] if device == 0 else f"{filename[:190]}, device {device}",
        origin=Origin(kind="upload", format="snapshot", producer="PyTorch"),
        device={"count": 1},
        memory=MeasuredMemory(peak_bytes=float(peak), reserved_bytes=float(reserved) if mine else None),
        rows=tuple(rows),
        environment={"device_index": device, "entries": len(entries)},
        warnings=tuple(warnings),
    )


def _blocks(segment: dict[str, Any]) -> Iterator[tuple[int, Holder]]:
    address = _whole(segment.get("address"))
    blocks = segment.get("blocks")
    for block in blocks if isinstance(blocks, list) else []:
        if isinstance(block, dict):
            size = _whole(block.get("size"))
            if block.get("state") in _ACTIVE:
                yield _whole(block.get("address")) or address, Holder(size=size, place=_place(block.get("frames")))
            address += size


def _timeline(entries: list[dict[str, Any]], at_end: int) -> tuple[list[int], list[int], int]:
    """Bytes in use after each entry, and at which they were most.

    Walked backwards from what is in use at the end, since the history drops its oldest entries: a sum from zero would
    be wrong by all that was there before.
    """
    now, times, allocated = at_end, [], []
    for entry in reversed(entries):
        times.append(_whole(entry.get("time_us")))
        allocated.append(now)
        size = _whole(entry.get("size"))
        if entry.get("action") == "alloc":
            now -= size
        elif entry.get("action") == "free_completed":
            now += size
    times.reverse()
    allocated.reverse()
    peak_at = max(range(len(allocated)), key=allocated.__getitem__) if allocated else -1
    return times, allocated, peak_at


def _at(entries: list[dict[str, Any]], held: dict[int, Holder], until: int) -> list[tuple[tuple[int, str], int]]:
    """What was in use after entry ``until``, by size and place, the largest sums first."""
    live = dict(held)
    for entry in reversed(entries[until + 1 :]):
        address = _whole(entry.get("addr"))
        if entry.get("action") == "alloc":
            live.pop(address, None)
        elif entry.get("action") == "free_completed":
            live[address] = Holder(size=_whole(entry.get("size")), place="")
    wanted = {address for address, holder in live.items() if not holder.place}
    for entry in reversed(entries[: until + 1]):  # where it was taken stands with its allocation
        address = _whole(entry.get("addr"))
        if address in wanted and entry.get("action") == "alloc":
            live[address] = Holder(size=live[address].size, place=_place(entry.get("frames")))
            wanted.discard(address)
    counts: dict[tuple[int, str], int] = {}
    for holder in live.values():
        key = (holder.size, holder.place)
        counts[key] = counts.get(key, 0) + 1
    return sorted(counts.items(), key=lambda item: -item[0][0] * item[1])


def _place(frames: Any) -> str:
    """The innermost places of the program's own code; files by their last name alone, as paths name people."""
    found: list[str] = []
    for frame in frames if isinstance(frames, list) else []:
        if not isinstance(frame, dict) or len(found) == _FRAMES:
            continue
        file, name = frame.get("filename"), frame.get("name")
        if isinstance(file, str) and isinstance(name, str) and not any(own in file for own in _OWN_FRAMES):
            last = file.replace("\\", "/").rsplit("/", 1)[-1]
            found.append(f"{last[:60]}:{_whole(frame.get('line'))} {name[:60]}")
    return " < ".join(found)


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else 0
