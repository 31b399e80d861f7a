"""XPlane (``*.xplane.pb`` of ``jax.profiler.trace``): what XLA recorded, before it becomes a ``trace.json.gz``.

A protobuf message whose few fields are read here by their numbers (tsl/profiler/protobuf/xplane.proto): planes, which
are devices, hold lines of events, whose names and values stand once in tables of the plane. Events become those of
``app.importers.xla``, which knows no cap here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.protobuf import fields, text, varint
from app.importers.source import Source
from app.importers.xla import Args, Event, measured
from estimator.scenario.units import MIB

_MOST_BYTES = 512 * MIB
_PLANES = 1
_NAME, _LINES, _EVENT_NAMES, _VALUE_NAMES = 2, 3, 4, 5
"""Of a plane."""
_LINE_NAME, _LINE_BEGIN_NS, _LINE_EVENTS, _LINE_SHOWN = 2, 3, 4, 11
_WHICH, _OFFSET_PS, _DURATION_PS, _VALUES = 1, 2, 3, 4
"""Of an event; a value is named by its first field too."""
_SHOWN, _OWN_VALUES = 4, 5
"""Of an event's entry in the table of names, beside its name."""
_NUMBERS, _TEXTS, _DOUBLE, _REFERENCE = (3, 4), (5, 6), 2, 7
"""Of a value: what it may be."""
_TAKEN = {
    "hlo_op": "hlo_op", "hlo_category": "hlo_category", "step_num": "step_num", "model_flops": "model_flops",
    "flops": "model_flops", "bytes_accessed": "bytes_accessed",
}  # fmt: skip
"""Names of values, and the argument of an event that each becomes."""
_BEGINS = (b"/host:", b"/device:", b"Task Env", b"#Chip")
_PS_IN_US, _NS_IN_US = 1e-6, 1e-3
_REMEDY = "Copy the xplane.pb again, whole, or upload the trace.json.gz beside it."


def is_xplane(head: bytes) -> bool:
    """Whether a file begins with a plane of a name that XLA gives."""
    if not head.startswith(b"\n"):
        return False
    try:
        length, at = varint(head, 1)
        named = next((value for number, value in fields(head[at : at + length], cut=True) if number == _NAME), b"")
    except (ValueError, IndexError):
        return False
    return isinstance(named, bytes) and named.startswith(_BEGINS)


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read the ops of the first device, of its typical step where steps are marked; raise ImportRefused without any."""
    try:
        planes = [part for number, part in fields(source.read("xplane", _MOST_BYTES)) if number == _PLANES]
        events = [event for at, plane in enumerate(planes) if isinstance(plane, bytes) for event in _plane(plane, at)]
    except (ValueError, IndexError, struct.error):
        raise ImportRefused("xplane", "", "this recording is damaged or cut off", _REMEDY) from None
    return measured(events, filename, limits)


def _plane(plane: bytes, pid: int) -> Iterator[Event]:
    name, lines = "", []
    names: dict[int, tuple[str, list[bytes]]] = {}
    values: dict[int, str] = {}
    for number, part in fields(plane):
        if not isinstance(part, bytes):
            continue
        if number == _NAME:
            name = text(part)
        elif number == _LINES:
            lines.append(part)
        elif number == _EVENT_NAMES:
            key, entry = _entry(part)
            names[key] = _event_name(entry)
        elif number == _VALUE_NAMES:
            key, entry = _entry(part)
            values[key] = next((text(one) for field, one in fields(entry) if field == _NAME), "")
    yield Event(ph="M", name="process_name", pid=pid, args=Args(name=name))
    shared = {key: _arguments(own, values) for key, (_, own) in names.items() if own}
    for tid, line in enumerate(lines):
        yield from _line(line, pid, tid, names, values, shared)


def _line(
    line: bytes,
    pid: int,
    tid: int,
    names: Mapping[int, tuple[str, list[bytes]]],
    values: Mapping[int, str],
    shared: Mapping[int, dict[str, str]],
) -> Iterator[Event]:
    name, begin_ns, events = "", 0, []
    for number, part in fields(line):
        if number == _LINE_EVENTS and isinstance(part, bytes):
            events.append(part)
        elif number == _LINE_BEGIN_NS and isinstance(part, int):
            begin_ns = part
        elif number == _LINE_SHOWN or (number == _LINE_NAME and not name):
            name = text(part)
    yield Event(ph="M", name="thread_name", pid=pid, tid=tid, args=Args(name=name))
    for event in events:
        which = offset_ps = duration_ps = 0
        own: list[bytes] = []
        for number, part in fields(event):
            if isinstance(part, bytes):
                own += [part] if number == _VALUES else []
            elif number == _WHICH:
                which = part
            elif number == _OFFSET_PS:
                offset_ps = part
            elif number == _DURATION_PS:
                duration_ps = part
        said = {**shared.get(which, {}), **_arguments(own, values)}
        yield Event(
            ph="X",
            name=names.get(which, ("", []))[0],
            pid=pid,
            tid=tid,
            ts=begin_ns * _NS_IN_US + offset_ps * _PS_IN_US,
            dur=duration_ps * _PS_IN_US,
            args=Args(**said) if said else None,
        )


def _event_name(entry: bytes) -> tuple[str, list[bytes]]:
    """The name under which an event is shown, and the values that all of its kind share."""
    name, own = "", []
    for number, part in fields(entry):
        if number == _SHOWN or (number == _NAME and not name):
            name = text(part) or name
        elif number == _OWN_VALUES and isinstance(part, bytes):
            own.append(part)
    return name, own


def _arguments(parts: list[bytes], values: Mapping[int, str]) -> dict[str, str]:
    found = {}
    for part in parts:
        which, said = 0, ""
        for number, value in fields(part):
            if number == _WHICH and isinstance(value, int):
                which = value
            elif number == _DOUBLE and isinstance(value, bytes):
                said = repr(struct.unpack("<d", value)[0])
            elif number == _REFERENCE and isinstance(value, int):
                said = values.get(value, "")
            elif number in _NUMBERS or number in _TEXTS:
                said = text(value)
        if taken := _TAKEN.get(values.get(which, "")):
            found[taken] = said
    return found


def _entry(part: bytes) -> tuple[int, bytes]:
    """A key and its message, as protobuf writes a map."""
    key, message = 0, b""
    for number, value in fields(part):
        if number == 1 and isinstance(value, int):
            key = value
        elif number == 2 and isinstance(value, bytes):
            message = value
    return key, message
