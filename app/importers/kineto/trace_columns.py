"""Trace columns: a trace as a few arrays of numbers, filled while its events stream by."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from itertools import compress
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.importers.kineto.events import LARGEST, NO_ID, UNUSED, Args, Event
from app.importers.names import short_name
from runners.trace.reduced import DEVICE_CATEGORIES, PHASE_PREFIX

STEP_PREFIX = "ProfilerStep#"
BACKWARD_PREFIX = "autograd::engine::evaluate_function"
OPTIMIZER_PREFIX = "Optimizer.step"
MODULE_PREFIX = "nn.Module: "
GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch")
_LARGEST_SEQUENCE = 2**62
_LONGEST_SHAPE = 4000
_BETWEEN = b"\0"
"""Stands nowhere in JSON."""

Shape = tuple[bytes, bytes, bytes, bytes]
"""What the profiler wrote of an op's inputs, as it stands in the file: sizes, types, scalars, strides."""

Floats = NDArray[np.float64]
Wholes = NDArray[np.int64]


@dataclass(kw_only=True)
class Spans:
    """Complete events of one sort: start and length in microseconds, name, thread, and the ids that join them."""

    ts: array[float] = field(default_factory=lambda: array("d"))
    dur: array[float] = field(default_factory=lambda: array("d"))
    name: array[int] = field(default_factory=lambda: array("l"))
    thread: array[int] = field(default_factory=lambda: array("l"))
    external: array[int] = field(default_factory=lambda: array("q"))
    correlation: array[int] = field(default_factory=lambda: array("q"))
    """Of device events and launches; empty for all others."""
    extra: array[int] = field(default_factory=lambda: array("l"))

    def __len__(self) -> int:
        return len(self.ts)

    def floats(self, column: str) -> Floats:
        """One column as float64."""
        return np.frombuffer(getattr(self, column), dtype=np.float64) if len(self) else np.zeros(0)

    def wholes(self, column: str) -> Wholes:
        """One column as int64."""
        return np.frombuffer(getattr(self, column), dtype=np.int64) if len(self) else np.zeros(0, np.int64)


Key = TypeVar("Key", bound=Hashable)


class _Numbers(dict[Key, int], Generic[Key]):
    """Things numbered as they come, kept in a short form; looked up without a call where they are known."""

    def __init__(self, add: Callable[[Key], int], short: Callable[[Key], Key] = lambda key: key) -> None:
        self.add, self.short = add, short

    def __missing__(self, key: Key) -> int:
        short = self.short(key)
        if short == key:
            self[key] = self.add(key)
            return self[key]
        return self[short]


@dataclass(frozen=True)
class CollectiveArgs:
    """What a collective's kernel says about itself."""

    name: str
    in_elements: int
    out_elements: int
    ranks: int
    dtype: str
    members: str = ""
    """Ranks of its group, as a list in JSON; "" where the file does not say."""


@dataclass(kw_only=True)
class Trace:
    """All that is kept of a trace."""

    device: Spans = field(default_factory=Spans)
    """``extra``: index into ``collectives``, −1 for none."""
    ops: Spans = field(default_factory=Spans)
    """``extra``: index into ``shapes``, −1 for none."""
    sequence: array[int] = field(default_factory=lambda: array("q"))
    """Of each op: autograd's number n, ~n where it runs the backward of that number, ``NO_ID`` for none."""
    modules: Spans = field(default_factory=Spans)
    """Calls of ``nn.Module``, where Python's stack was recorded."""
    launches: Spans = field(default_factory=Spans)
    marks: Spans = field(default_factory=Spans)
    """Ranges that people and PyTorch name; ``extra`` as for ops."""
    names: list[str] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    collectives: list[CollectiveArgs] = field(default_factory=list)
    claimed: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Device event → FLOPs and bytes that Inductor's trace augmentation wrote into it."""
    devices: set[int | str | None] = field(default_factory=set)
    allocated_bytes: dict[int, int] = field(default_factory=dict)
    reserved_bytes: dict[int, int] = field(default_factory=dict)
    held: dict[int, tuple[array[float], array[float]]] = field(default_factory=dict)
    """By kind of device: when, in microseconds, and how many bytes were allocated from then on."""
    python_functions: int = 0
    events: int = 0
    unusable: int = 0
    whole_times: bool = True
    last_time: float = 0.0
    maker: str = ""
    """Of a device that only its events tell, as its kind of them is called."""

    def __post_init__(self) -> None:
        self._ids, self._shape_ids = _named(self), _shaped(self)
        self._threads: _Numbers[tuple[int | str | None, int | str | None]] = _Numbers(lambda _: len(self._threads))

    def name_id(self, name: str) -> int:
        """Number of a name; the same name has the same number."""
        return self._ids[name]

    def thread_names(self) -> dict[int, str]:
        """Threads by their number; those of device events are streams."""
        return {number: str(tid) for (_, tid), number in self._threads.items()}

    def shape_ids(self, args: list[Args]) -> list[int]:
        """Number of each op's input shapes and types, −1 where they were not recorded."""
        numbers, joined = self._shape_ids, _BETWEEN.join
        read = ((one.dims or one.old_dims, one.types, one.concrete, one.strides) for one in args)
        return [numbers[joined(parts)] if parts[0] else -1 for parts in read]


def _named(trace: Trace) -> _Numbers[str]:
    def add(name: str) -> int:
        trace.names.append(name)
        return len(trace.names) - 1

    return _Numbers(add, short_name)


def _shaped(trace: Trace) -> _Numbers[bytes]:
    def add(key: bytes) -> int:
        dims, types, concrete, strides = key.split(_BETWEEN)
        if len(dims) > _LONGEST_SHAPE:  # a list that is cut is no list, and tells nothing
            return -1
        trace.shapes.append((dims, types, concrete, strides))
        return len(trace.shapes) - 1

    def cut(key: bytes) -> bytes:
        if len(key) <= _LONGEST_SHAPE:
            return key
        dims, *others = key.split(_BETWEEN)
        return _BETWEEN.join((dims[: _LONGEST_SHAPE + 1], *(part[:_LONGEST_SHAPE] for part in others)))

    return _Numbers(add, cut)


OLD_CATEGORIES = {
    "Operator": "cpu_op", "Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Runtime": "cuda_runtime",
}  # fmt: skip
"""As PyTorch 1.8 spells them."""
_OLD_MARKS = (STEP_PREFIX, "Optimizer.", "enumerate(DataLoader)")
"""What PyTorch 1.8 writes among the ops."""
_BATCH_EVENTS = 1000
"""So many go into the columns at once: what a batch costs no longer counts, and its events still fit a cache."""
_MTIA, _MTIA_WAITS = "mtia_ccp_events", ("event_wait", "event_record")
_NO_ARGS = Args()


def collect(slices: Iterable[list[Event]]) -> Trace:
    """Fill a Trace from all events, category by category; what has no usable time is counted, not kept."""
    trace = Trace()
    waiting: defaultdict[str, list[Event]] = defaultdict(list)
    kept = 0
    for events in slices:
        trace.events += len(events)
        kept += len(events)
        for event in events:
            waiting[event.cat].append(event)
        if kept > _BATCH_EVENTS:
            _flush(trace, waiting)
            kept = 0
    _flush(trace, waiting)
    return trace


def _flush(trace: Trace, waiting: dict[str, list[Event]]) -> None:
    for category, group in waiting.items():
        _take(trace, OLD_CATEGORIES.get(category, category), group, old=category in OLD_CATEGORIES)
    waiting.clear()


def _take(trace: Trace, category: str, events: list[Event], *, old: bool) -> None:
    if category == "python_function":
        trace.python_functions += len(events)
        _put(trace, trace.modules, [event for event in events if event.name.startswith(MODULE_PREFIX)])
    elif category == "cpu_op":
        if old:
            _put(trace, trace.marks, [event for event in events if event.name.startswith(_OLD_MARKS)])
            events = [event for event in events if not event.name.startswith(_OLD_MARKS)]
        _ops(trace, events)
    elif category in DEVICE_CATEGORIES:
        _device(trace, events)
    elif category == _MTIA:
        trace.maker = "Meta MTIA"
        _device(trace, [event for event in events if event.name not in _MTIA_WAITS])
    elif category.endswith(("_runtime", "_driver")):
        _put(trace, trace.launches, events)
    elif category == "user_annotation":
        kept, args = _put(trace, trace.marks, events)
        if kept:
            trace.marks.extra[-len(kept) :] = array("l", trace.shape_ids(args))
    elif category not in UNUSED:
        for event in events:
            if event.name == "[memory]":
                _memory(trace, event)


def _put(trace: Trace, spans: Spans, events: list[Event]) -> tuple[list[Event], list[Args]]:
    """Append events to the columns; return those that were usable, and what their args say."""
    if not events:
        return [], []
    kept = events
    length = np.array([event.dur for event in events], np.float64)
    if length.min() < 0.0 or {event.ph for event in events} != {"X"}:
        kept = [event for event in events if event.dur >= 0.0 and event.ph == "X"]
        trace.unusable += sum(event.ph in ("X", "") for event in events) - len(kept)
        length = np.array([event.dur for event in kept], np.float64)
    args = [event.args or _NO_ARGS for event in kept]
    try:
        columns = _columns(trace, spans, kept, args, length)
    except OverflowError:  # ids, or times, that no column holds
        usable = [_in_range(event) for event in kept]
        trace.unusable += usable.count(False)
        kept, args = list(compress(kept, usable)), list(compress(args, usable))
        columns = _columns(trace, spans, kept, args, np.array([event.dur for event in kept], np.float64))
    for name, column in columns.items():
        getattr(spans, name).frombytes(column.tobytes())
    return kept, args


def _columns(
    trace: Trace, spans: Spans, events: list[Event], args: list[Args], length: Floats
) -> dict[str, Floats | Wholes]:
    """Columns in the bytes of arrays, which NumPy makes faster; raise OverflowError where a number is too large."""
    names, whole = trace._ids, np.int64
    columns: dict[str, Floats | Wholes] = {
        "ts": np.array([event.ts for event in events], np.float64),
        "dur": length,
        "external": np.array([one.external for one in args], whole),
    }
    if spans is trace.device or spans is trace.launches:
        columns["correlation"] = np.array([one.correlation for one in args], whole)
    if events:
        first = columns["ts"]
        if max(-first.min(), first.max(), length.max()) > LARGEST:
            raise OverflowError
        trace.last_time = max(trace.last_time, float((first + length).max()))
        if (columns["external"] == NO_ID).all():
            columns["external"] = np.array([one.old_external for one in args], whole)
    columns["name"] = np.array([names[event.name] for event in events], whole)
    columns["thread"] = _thread_numbers(trace, events)
    columns["extra"] = np.full(len(events), -1, whole)
    return columns


def _thread_numbers(trace: Trace, events: list[Event]) -> Wholes:
    """Number each event's thread; the profiler writes thread by thread, so a batch mostly has one."""
    threads = trace._threads
    if len({event.tid for event in events}) == len({event.pid for event in events}) == 1:
        return np.full(len(events), threads[events[0].pid, events[0].tid], np.int64)
    return np.array([threads[event.pid, event.tid] for event in events], np.int64)


def _in_range(event: Event) -> bool:
    args = event.args or _NO_ARGS
    ids = (args.external, args.correlation, args.old_external)
    return abs(event.ts) <= LARGEST and event.dur <= LARGEST and all(-(2**63) <= one < 2**63 for one in ids)


def _ops(trace: Trace, events: list[Event]) -> None:
    kept, args = _put(trace, trace.ops, events)
    if kept:
        trace.ops.extra[-len(kept) :] = array("l", trace.shape_ids(args))
        numbers = [one.sequence if 0 <= one.sequence < _LARGEST_SEQUENCE else NO_ID for one in args]
        if {one.forward_thread for one in args} != {0}:
            pairs = zip(numbers, args, strict=True)
            numbers = [~number if one.forward_thread and number != NO_ID else number for number, one in pairs]
        trace.sequence.extend(numbers)


def _device(trace: Trace, events: list[Event]) -> None:
    at = len(trace.device)
    kept, args = _put(trace, trace.device, events)
    if not kept:
        return
    trace.devices.update({event.pid for event in kept})
    if trace.whole_times:
        length = trace.device.floats("dur")[at:]
        trace.whole_times = bool(np.all(length == np.floor(length)))
    for place, one in [(at + i, one) for i, one in enumerate(args) if one.collective]:
        trace.device.extra[place] = len(trace.collectives)
        trace.collectives.append(_message(one))
    for i, one in enumerate(args):
        if one.kernel_flop is not None:
            trace.claimed[at + i] = (one.kernel_flop, (one.kernel_num_gb or 0.0) * 1e9)


def _message(args: Args) -> CollectiveArgs:
    return CollectiveArgs(
        args.collective[:100],
        args.in_elements,
        args.out_elements,
        args.group_size,
        args.dtype,
        args.ranks[:_LONGEST_SHAPE],
    )


def _memory(trace: Trace, event: Event) -> None:
    args = event.args
    if args is None or args.allocated == NO_ID or args.allocated > LARGEST:
        return
    kind = args.device_type
    if 0.0 <= event.ts <= LARGEST:
        at, held = trace.held.setdefault(kind, (array("d"), array("d")))
        at.append(event.ts)
        held.append(float(args.allocated))
    if args.allocated > trace.allocated_bytes.get(kind, 0):
        trace.allocated_bytes[kind] = args.allocated
    if trace.reserved_bytes.get(kind, 0) < args.reserved <= LARGEST:
        trace.reserved_bytes[kind] = args.reserved


def marks(trace: Trace, prefix: str) -> list[int]:
    """Indices of the annotations whose name begins so, in order of time."""
    wanted = {i for i, name in enumerate(trace.names) if name.startswith(prefix)}
    found = [i for i in range(len(trace.marks)) if trace.marks.name[i] in wanted]
    return sorted(found, key=lambda i: trace.marks.ts[i])


__all__ = ["BACKWARD_PREFIX", "NO_ID", "PHASE_PREFIX", "STEP_PREFIX", "Spans", "Trace", "collect", "marks"]
