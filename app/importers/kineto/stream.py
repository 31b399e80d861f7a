"""Stream: the events of a trace in slices of a few megabytes, so that its size does not matter; damage is repaired
event by event, and counted."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from app.importers import json_scan
from app.importers.imported import ImportRefused
from app.importers.kineto.events import BROKEN, LIST, USUAL, Event, lenient
from app.importers.source import Source
from estimator.scenario.units import MIB

CHUNK_BYTES = MIB // 8
_LONGEST_EVENT_BYTES = 32 * MIB
_LONGEST_METADATA_BYTES = 32 * MIB
_CUT = re.compile(rb'\}\s*+,\s*+\{\s*+"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"')
_MANY_UNUSUAL = 20
"""From so many slices of late on, trying the usual categories first costs more than it saves."""
_CUT_WINDOW = 4 * 1024
_CONTROL = bytes(32 if code < 32 else code for code in range(256))
"""Raw control characters become spaces: harmless between tokens, and legal inside names."""
_LINES = bytes(32 if code in b"\t\n\r" else code for code in range(256))
"""The same for those between tokens, whose replacement repairs nothing."""
_NOT_A_NUMBER = re.compile(rb"(?<=[:,\[\s])[-+]?(?:nan|inf(?:inity)?)(?=\s*+[,\]}])", re.IGNORECASE)
_BAD_ESCAPE = re.compile(rb'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')


@dataclass(kw_only=True)
class StreamReport:
    """What the reading met: the trace's own metadata, and how much of it was damaged."""

    metadata: dict[str, Any] = field(default_factory=dict)
    cleaned: int = 0
    skipped: int = 0
    truncated: bool = False
    closed: bool = False
    """Whether the list of events ends; a compressed file may be damaged behind it."""
    metadata_lost: bool = False
    unusual: int = 0
    """Slices of late that hold events of another category than the usual."""


def events(source: Source, report: StreamReport) -> Iterator[list[Event]]:
    """Yield the trace's events in file order; raise ImportRefused where there are none to find."""
    chunks = source.chunks(CHUNK_BYTES)
    buffer = _to_first_event(chunks, report)
    tail = yield from _slices(buffer, chunks, report)
    if tail is not None:
        report.closed = True
        _read_tail(tail, chunks, report)
    if source.damage:
        report.truncated = True


def _to_first_event(chunks: Iterator[bytes], report: StreamReport) -> bytes:
    """Read up to the array of events; keep what stands before it as metadata."""
    data = b""
    for chunk in chunks:
        data += chunk
        data = data.removeprefix(b"\xef\xbb\xbf")
        if json_scan.opening(data) == "[":
            return data[data.index(b"[") + 1 :]
        for key, after in json_scan.keys(data):
            if key == "traceEvents":
                opened = re.compile(rb"\s*+\[").match(data, after)
                if opened is None and len(data) > after + 1000:
                    raise _no_events("traceEvents is not a list")
                if opened is not None:
                    before = data[:after].rstrip()
                    before = before[: before.rindex(b'"traceEvents"')] if b'"traceEvents"' in before else b"{"
                    _metadata(before.rstrip(b" \t\r\n,") + b"}", report)
                    return data[opened.end() :]
        if len(data) > _LONGEST_METADATA_BYTES:
            raise _no_events(f"no traceEvents within the first {_LONGEST_METADATA_BYTES:,} bytes")
    if json_scan.cut_off(data):
        message = f"the file is cut off after {len(data):,} bytes, before the first event"
        raise ImportRefused("kineto", "the end", message, "Copy the file again, whole.")
    raise _no_events("it has no list of traceEvents")


def _slices(buffer: bytes, chunks: Iterator[bytes], report: StreamReport) -> Generator[list[Event], None, bytes | None]:
    """Decode slice after slice; return what follows the array, or None where the file ends inside it."""
    done = 0
    waiting, length, due = [buffer], len(buffer), 0
    for chunk in chunks:
        waiting.append(chunk)
        length += len(chunk)
        if length < due:
            continue
        joined = bytearray().join([b"[", *waiting])  # decoded where it stands: a copy costs as much as reading it
        cut = _last_cut(joined)
        if cut < 0:
            if length > _LONGEST_EVENT_BYTES:
                message = f"one event is longer than {_LONGEST_EVENT_BYTES:,} bytes"
                raise ImportRefused("kineto", f"byte {done} of the events", message, "Export the trace again.")
            waiting, due = [bytes(joined[1:])], min(2 * length, _LONGEST_EVENT_BYTES + 1)  # again when it has doubled
            continue
        found, tail = _decoded(joined, cut, report)
        yield found
        if tail is not None:
            return tail + joined[cut:]
        done += cut - 1
        rest = bytes(joined[cut + 1 :]).lstrip(b" \t\r\n,")
        waiting, length, due = [rest], len(rest), 0
    found, tail = _repaired(b"".join(waiting), report)
    yield found
    if tail is None:
        report.truncated = True
    return tail


def _last_cut(buffer: bytearray) -> int:
    """Find the end of the last event that another one surely follows; the closing brace is included."""
    window = _CUT_WINDOW
    while True:
        start = max(0, len(buffer) - window)
        cut = -1
        for found in _CUT.finditer(buffer, start):
            cut = found.start() + 1
        if cut >= 0 or start == 0:
            return cut
        window *= 8


def _decoded(joined: bytearray, cut: int, report: StreamReport) -> tuple[list[Event], bytes | None]:
    """Decode what begins a list and is whole up to ``cut``; return its events and, where the array ends in it, what
    follows up to there. A comma or a space, which stands at ``cut``, may be lost.
    """  # fmt: skip
    between, joined[cut] = joined[cut], ord("]")
    with memoryview(joined) as whole:
        for decoder in (USUAL, LIST) if report.unusual < _MANY_UNUSUAL else (LIST,):
            try:
                found = decoder.decode(whole[: cut + 1])
            except BROKEN:
                report.unusual += 1
                continue
            report.unusual = max(0, report.unusual - 1)
            return found, None
    joined[cut] = between
    return _repaired(bytes(joined[1:cut]), report)


def _repaired(data: bytes, report: StreamReport) -> tuple[list[Event], bytes | None]:
    """Decode what may be damaged, or hold the end of the array; likewise."""
    end = json_scan.array_end(data)
    tail = data[end + 1 :] if end >= 0 else None
    if end >= 0:
        data = data[:end]
        try:
            return LIST.decode(b"[" + data + b"]"), tail
        except BROKEN:
            pass
    cleaned = _clean(data)
    repaired = cleaned != data.translate(_LINES)
    if cleaned != data and tail is None and (end := json_scan.array_end(cleaned)) >= 0:
        tail, cleaned = cleaned[end + 1 :], cleaned[:end]
    try:
        found = LIST.decode(b"[" + cleaned + b"]")
        repaired = True
    except BROKEN:
        found = _one_by_one(cleaned, report)
    report.cleaned += repaired
    return found, tail


def _one_by_one(data: bytes, report: StreamReport) -> list[Event]:
    found = []
    for piece in json_scan.objects(data):
        event = lenient(piece)
        if event is None:
            report.skipped += 1
        else:
            found.append(event)
    return found


def _clean(data: bytes) -> bytes:
    """Replace what some writers leave in: control characters, bare nan and inf, lone backslashes, broken UTF-8."""
    data = data.translate(_CONTROL)
    data = _NOT_A_NUMBER.sub(b"null", data)
    data = _BAD_ESCAPE.sub(rb"\\\\", data)
    return data.decode("utf-8", "replace").encode()


def _metadata(data: bytes, report: StreamReport) -> None:
    for attempt in (data, _clean(data)):
        try:
            found = msgspec.json.decode(attempt)
        except BROKEN:
            continue
        if isinstance(found, dict):
            report.metadata |= {key: value for key, value in found.items() if key not in report.metadata}
            return
    report.metadata_lost = True


def _read_tail(tail: bytes, chunks: Iterator[bytes], report: StreamReport) -> None:
    """Some versions write their metadata after the events."""
    for chunk in chunks:
        tail += chunk
        if len(tail) > _LONGEST_METADATA_BYTES:
            report.metadata_lost = True
            return
    text = tail.strip(b" \t\r\n,")
    if text not in (b"", b"}", b"]"):
        _metadata(b"{" + text, report)


def _no_events(message: str) -> ImportRefused:
    return ImportRefused(
        "kineto", "", f"this looks like a trace, but {message}", "Export it again with prof.export_chrome_trace(...)."
    )
