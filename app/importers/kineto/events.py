"""Events: the fields of a trace event that are used; everything else in it is never kept."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec

Whole = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
Number = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]
_LONGEST_NAME = 1000


class Args(msgspec.Struct, gc=False):
    """What an event's ``args`` say, as far as it is used."""

    external: Whole | None = msgspec.field(name="External id", default=None)
    correlation: Whole | None = None
    bytes: Whole | None = None
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw())
    types: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw())
    concrete: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=msgspec.Raw())
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default=msgspec.Raw())
    sequence: Whole | None = msgspec.field(name="Sequence number", default=None)
    forward_thread: Whole | None = msgspec.field(name="Fwd thread id", default=None)
    collective: str | None = msgspec.field(name="Collective name", default=None)
    in_elements: Whole | None = msgspec.field(name="In msg nelems", default=None)
    out_elements: Whole | None = msgspec.field(name="Out msg nelems", default=None)
    group_size: Whole | None = msgspec.field(name="Group size", default=None)
    dtype: str | None = None
    ranks: str | None = msgspec.field(name="Process Group Ranks", default=None)
    allocated: Whole | None = msgspec.field(name="Total Allocated", default=None)
    reserved: Whole | None = msgspec.field(name="Total Reserved", default=None)
    device_type: Whole | None = msgspec.field(name="Device Type", default=None)
    kernel_flop: Number | None = None
    kernel_num_gb: Number | None = None


class Event(msgspec.Struct, gc=False):
    """One event of a Chrome trace; times in microseconds, whatever ``displayTimeUnit`` says."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: Number = 0.0
    dur: Number = -1.0
    pid: int | str | None = None
    tid: int | str | None = None
    args: Args | None = None


BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no JSON, of other types than expected, or nested without end."""

LIST = msgspec.json.Decoder(list[Event])
ONE = msgspec.json.Decoder(Event)
_ANY = msgspec.json.Decoder()
_WHOLES = ("External id", "correlation", "bytes", "In msg nelems", "Out msg nelems", "Group size", "Total Allocated",
           "Total Reserved", "Device Type", "Sequence number", "Fwd thread id")  # fmt: skip
_TEXTS = ("Collective name", "dtype", "Process Group Ranks")
_LISTS = ("Input Dims", "Input type", "Concrete Inputs", "Input Strides")


def lenient(data: bytes) -> Event | None:
    """Decode one event with fields of unexpected types: usable ones are converted, others dropped; None if hopeless."""
    try:
        found = _ANY.decode(data)
    except BROKEN:
        return None
    if not isinstance(found, dict):
        return None
    stamp, length = _number(found.get("ts", 0.0)), _number(found.get("dur", -1.0))
    if stamp is None or length is None or not isinstance(found.get("name", ""), str):
        return None
    event = {
        "ph": found.get("ph") if isinstance(found.get("ph"), str) else "",
        "cat": found.get("cat") if isinstance(found.get("cat"), str) else "",
        "name": found.get("name", "")[:_LONGEST_NAME],
        "ts": stamp,
        "dur": length,
        "pid": _identity(found.get("pid")),
        "tid": _identity(found.get("tid")),
    }
    arguments = found.get("args")
    if isinstance(arguments, dict):
        event["args"] = _arguments(arguments)
    try:
        return ONE.decode(msgspec.json.encode(event))
    except BROKEN:
        return None


def _arguments(found: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name in _WHOLES:
        value = _number(found.get(name))
        if value is not None and abs(value) < 2**62:
            kept[name] = int(value)
    for name in _TEXTS:
        if isinstance(found.get(name), str):
            kept[name] = found[name]
    for name in _LISTS:
        if isinstance(found.get(name), list):
            kept[name] = found[name]
    return kept


def _number(value: Any) -> float | None:
    """Return a finite number of sane size; digits in a string count as one."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if math.isfinite(value) and abs(value) <= 1e18 else None


def _identity(value: Any) -> int | str | None:
    if isinstance(value, bool) or not isinstance(value, (int, str, float)):
        return None
    return value if isinstance(value, (int, str)) else str(value)
