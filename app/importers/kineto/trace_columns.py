"""Trace columns: a trace as a few arrays of numbers, filled while its events stream by."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.importers.kineto.events import Event
from runners.trace.reduced import DEVICE_CATEGORIES, PHASE_PREFIX

STEP_PREFIX = "ProfilerStep#"
BACKWARD_PREFIX = "autograd::engine::evaluate_function"
OPTIMIZER_PREFIX = "Optimizer.step"
MODULE_PREFIX = "nn.Module: "
GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch")
NO_ID = -(2**63)
_LONGEST_NAME = 300
_LONGEST_SHAPE = 4000

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
    extra: array[int] = field(default_factory=lambda: array("l"))

    def __len__(self) -> int:
        return len(self.ts)

    def floats(self, column: str) -> Floats:
        """One column as float64."""
        return np.frombuffer(getattr(self, column), dtype=np.float64) if len(self) else np.zeros(0)

    def wholes(self, column: str) -> Wholes:
        """One column as int64."""
        return np.frombuffer(getattr(self, column), dtype=np.int64) if len(self) else np.zeros(0, np.int64)


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
    python_functions: int = 0
    events: int = 0
    unusable: int = 0
    whole_times: bool = True
    last_time: float = 0.0
    _ids: dict[str, int] = field(default_factory=dict)
    _threads: dict[tuple[int | str | None, int | str | None], int] = field(default_factory=dict)
    _shape_ids: dict[Shape, int] = field(default_factory=dict)

    def name_id(self, name: str) -> int:
        """Number of a name; the same name has the same number."""
        name = name[:_LONGEST_NAME]
        found = self._ids.get(name)
        if found is None:
            found = self._ids[name] = len(self.names)
            self.names.append(name)
        return found

    def thread_id(self, event: Event) -> int:
        """Number of an event's process and thread (device and stream for kernels)."""
        return self._threads.setdefault((event.pid, event.tid), len(self._threads))

    def thread_names(self) -> dict[int, str]:
        """Threads by their number; those of device events are streams."""
        return {number: str(tid) for (_, tid), number in self._threads.items()}

    def shape_id(self, event: Event) -> int:
        """Number of an op's input shapes and types, −1 where they were not recorded."""
        args = event.args
        if args is None:
            return -1
        dims = bytes(args.dims)
        if not dims or len(dims) > _LONGEST_SHAPE:
            return -1
        # a list that is cut is no list, and tells nothing
        key = (
            dims,
            bytes(args.types)[:_LONGEST_SHAPE],
            bytes(args.concrete)[:_LONGEST_SHAPE],
            bytes(args.strides)[:_LONGEST_SHAPE],
        )
        found = self._shape_ids.get(key)
        if found is None:
            found = self._shape_ids[key] = len(self.shapes)
            self.shapes.append(key)
        return found


def collect(slices: Iterable[list[Event]]) -> Trace:
    """Fill a Trace from all events; what has no usable time is counted, not kept."""
    trace = Trace()
    for events in slices:
        trace.events += len(events)
        for event in events:
            _take(trace, event)
    return trace


def _take(trace: Trace, event: Event) -> None:
    category = event.cat
    if category == "python_function":
        trace.python_functions += 1
        if event.name.startswith(MODULE_PREFIX):
            _put(trace, trace.modules, event, 0)
    elif category == "cpu_op":
        if _put(trace, trace.ops, event, trace.shape_id(event)):
            trace.sequence.append(_sequence(event))
    elif category in DEVICE_CATEGORIES:
        _device(trace, event)
    elif category.endswith(("_runtime", "_driver")):
        _put(trace, trace.launches, event, 0)
    elif category == "user_annotation":
        _put(trace, trace.marks, event, trace.shape_id(event))
    elif event.name == "[memory]":
        _memory(trace, event)


def _put(trace: Trace, spans: Spans, event: Event, extra: int) -> bool:
    if event.dur < 0.0 or event.ph != "X":
        trace.unusable += event.ph in ("X", "")
        return False
    args = event.args
    spans.ts.append(event.ts)
    spans.dur.append(event.dur)
    spans.name.append(trace.name_id(event.name))
    spans.thread.append(trace.thread_id(event))
    external = args.external if args is not None else None
    correlation = args.correlation if args is not None else None
    spans.external.append(NO_ID if external is None else external)
    spans.correlation.append(NO_ID if correlation is None else correlation)
    spans.extra.append(extra)
    end = event.ts + event.dur
    if end > trace.last_time:
        trace.last_time = end
    return True


def _sequence(event: Event) -> int:
    args = event.args
    if args is None or args.sequence is None or args.sequence < 0:
        return NO_ID
    return ~args.sequence if args.forward_thread else args.sequence


def _device(trace: Trace, event: Event) -> None:
    args = event.args
    extra = -1
    if args is not None and args.collective:
        extra = len(trace.collectives)
        trace.collectives.append(
            CollectiveArgs(
                args.collective[:100],
                args.in_elements or 0,
                args.out_elements or 0,
                args.group_size or 0,
                args.dtype or "",
                (args.ranks or "")[:_LONGEST_SHAPE],
            )
        )
    if not _put(trace, trace.device, event, extra):
        return
    trace.devices.add(event.pid)
    if trace.whole_times and not event.dur.is_integer():
        trace.whole_times = False
    if args is not None and args.kernel_flop is not None:
        trace.claimed[len(trace.device) - 1] = (args.kernel_flop, (args.kernel_num_gb or 0.0) * 1e9)


def _memory(trace: Trace, event: Event) -> None:
    args = event.args
    if args is None or args.allocated is None:
        return
    kind = args.device_type or 0
    if args.allocated > trace.allocated_bytes.get(kind, 0):
        trace.allocated_bytes[kind] = args.allocated
    if args.reserved is not None and args.reserved > trace.reserved_bytes.get(kind, 0):
        trace.reserved_bytes[kind] = args.reserved


def marks(trace: Trace, prefix: str) -> list[int]:
    """Indices of the annotations whose name begins so, in order of time."""
    wanted = {i for i, name in enumerate(trace.names) if name.startswith(prefix)}
    found = [i for i in range(len(trace.marks)) if trace.marks.name[i] in wanted]
    return sorted(found, key=lambda i: trace.marks.ts[i])


__all__ = ["BACKWARD_PREFIX", "PHASE_PREFIX", "STEP_PREFIX", "Spans", "Trace", "collect", "marks"]
