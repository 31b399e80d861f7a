"""From a profiler trace of one step to kernels by name and seconds by category; standard library only."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from estimator.scenario.aten_cost import bytes_of, flops_of
from estimator.scenario.breakdown import ARITHMETIC, PLAIN, Category, Phase
from estimator.scenario.measurement import Kernel
from estimator.scenario.timeline import Timeline
from runners.trace.kernel_category import category_of
from runners.trace.recorded import Span, recorded

DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
PHASE_PREFIX = "phase:"
NO_PHASE = ""


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """One step: kernels by name, and by phase and category the seconds in which the device worked, none twice."""

    kernels: tuple[Kernel, ...]
    phases_s: dict[str, dict[str, float]]
    timeline: Timeline | None = None

    def busy_s(self, category: str) -> float:
        """Seconds of one category in all phases."""
        return sum(phase.get(category, 0.0) for phase in self.phases_s.values())


@dataclass(slots=True)
class _Piece:
    """One kernel or one op's self time, in microseconds."""

    name: str
    category: str
    phase: str
    start: float
    length: float
    flops: float | None = None
    bytes: float | None = None


def reduce_trace(
    events: Iterable[Mapping[str, Any]], scores: tuple[int, int] | None = None, *, device: bool | None = None
) -> Reduced:
    """Reduce the ``traceEvents`` of torch.profiler's Chrome trace that hold one step marked with ``phase:`` ranges.

    With device kernels in it they are what counts: a second belongs to the kernel that began first, and to
    communication only while nothing else runs. Without them the ATen ops are, by their self times. ``scores`` is
    (micro-batch · heads, sequence length): eager attention's products and S² element-wise ops are known by it.
    ``device`` says which of the two it must be.
    """
    complete = [event for event in events if event.get("ph") == "X" and "dur" in event]
    phases = _Phases(complete)
    if device is None:
        device = any(event.get("cat") in DEVICE_CATEGORIES for event in complete)
    pieces = (_device_pieces if device else _host_pieces)(complete, phases, scores)
    by_phase: dict[str, dict[str, float]] = {}
    for piece, seconds in _exclusive(pieces) if device else ((p, p.length * 1e-6) for p in pieces):
        categories = by_phase.setdefault(piece.phase, {})
        categories[piece.category] = categories.get(piece.category, 0.0) + seconds
    return Reduced(kernels=_by_name(pieces), phases_s=by_phase, timeline=_timeline(pieces, complete, phases, device))


def _timeline(
    pieces: list[_Piece], complete: list[Mapping[str, Any]], phases: _Phases, device: bool
) -> Timeline | None:
    """The step from its first mark on; of a device's step the host's lane is its ops."""
    if not phases.ranges or not pieces:
        return None
    begin = phases.ranges[0][0]
    end = max(max(end for _, end, _ in phases.ranges), max(one.start + one.length for one in pieces))
    spans = [
        Span(one.category, one.name, one.phase, (one.start - begin) * 1e-6, (one.start + one.length - begin) * 1e-6)
        for one in pieces
    ]
    if device:
        spans += [
            Span(Category.HOST, e["name"], phases.at(e["ts"]), (e["ts"] - begin) * 1e-6,
                 (e["ts"] + e["dur"] - begin) * 1e-6)
            for e in complete if e.get("cat") == "cpu_op"
        ]  # fmt: skip
    return recorded(spans, (end - begin) * 1e-6)


class _Phases:
    """Which phase the host was in at a time of the trace."""

    def __init__(self, events: list[Mapping[str, Any]]) -> None:
        marks = [e for e in events if e.get("cat") == "user_annotation" and e["name"].startswith(PHASE_PREFIX)]
        self.ranges: list[tuple[float, float, str]] = sorted(
            (e["ts"], e["ts"] + e["dur"], e["name"].removeprefix(PHASE_PREFIX)) for e in marks
        )
        self.starts = [start for start, _, _ in self.ranges]

    def at(self, time: float) -> str:
        index = bisect_right(self.starts, time) - 1
        if index >= 0 and time <= self.ranges[index][1]:
            return self.ranges[index][2]
        return NO_PHASE


def _device_pieces(complete: list[Mapping[str, Any]], phases: _Phases, scores: tuple[int, int] | None) -> list[_Piece]:
    launched = {
        e["args"]["correlation"]: e["ts"]
        for e in complete
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})
    }
    ops = {
        e["args"]["External id"]: e for e in complete if e.get("cat") == "cpu_op" and "External id" in e.get("args", {})
    }
    pieces: list[_Piece] = []
    of_op: dict[Any, list[_Piece]] = {}
    for event in complete:
        if event.get("cat") not in DEVICE_CATEGORIES:
            continue
        arguments = event.get("args", {})
        phase = phases.at(launched.get(arguments.get("correlation"), event["ts"]))
        op = ops.get(arguments.get("External id"))
        category = _category(event["name"], phase, op, scores)
        piece = _Piece(event["name"], category, phase, event["ts"], event["dur"])
        pieces.append(piece)
        if category_of(event["name"]) in ARITHMETIC:
            of_op.setdefault(arguments.get("External id"), []).append(piece)
    for identity, parts in of_op.items():
        _share_arithmetic(ops.get(identity), parts)
    return pieces


def _share_arithmetic(op: Mapping[str, Any] | None, parts: list[_Piece]) -> None:
    """Give an op's FLOPs and bytes to its kernels by their time: split-k and reduction kernels share one product."""
    if op is None:
        return
    flops, bytes_ = _arithmetic(op)
    total = sum(part.length for part in parts)
    for part in parts:
        share = part.length / total if total else 1 / len(parts)
        part.flops = None if flops is None else flops * share
        part.bytes = None if bytes_ is None else bytes_ * share


def _host_pieces(complete: list[Mapping[str, Any]], phases: _Phases, scores: tuple[int, int] | None) -> list[_Piece]:
    """Self times of ATen ops, nested by thread; collectives are annotations on threads of their own."""
    pieces = []
    threads: dict[Any, list[Mapping[str, Any]]] = {}
    for event in complete:
        if event.get("cat") == "cpu_op":
            threads.setdefault((event.get("pid"), event.get("tid")), []).append(event)
        elif event.get("cat") == "user_annotation" and category_of(event["name"]) == Category.COMMUNICATION:
            phase = phases.at(event["ts"])
            pieces.append(_Piece(event["name"], Category.COMMUNICATION, phase, event["ts"], event["dur"]))
    for events in threads.values():
        for event, self_time, parent in _self_times(events):
            phase = phases.at(event["ts"])
            category = _category(event["name"], phase, event, scores)
            flops, bytes_ = _arithmetic(event)
            if parent and flops is None and category_of(event["name"]) in ARITHMETIC:
                category = Category.HOST  # linear, matmul and their like only choose the op below them
            pieces.append(_Piece(event["name"], category, phase, event["ts"], self_time, flops, bytes_))
    return pieces


def _self_times(events: list[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], float, bool]]:
    """Each op with its time outside the ops that it calls, and whether it calls any."""
    ordered = sorted(events, key=lambda e: (e["ts"], -e["dur"]))
    own = [float(event["dur"]) for event in ordered]
    parents = [False] * len(ordered)
    stack: list[int] = []
    for index, event in enumerate(ordered):
        while stack and ordered[stack[-1]]["ts"] + ordered[stack[-1]]["dur"] <= event["ts"]:
            stack.pop()
        if stack:
            own[stack[-1]] -= event["dur"]
            parents[stack[-1]] = True
        stack.append(index)
    return [(event, max(0.0, time), parent) for event, time, parent in zip(ordered, own, parents, strict=True)]


def _category(name: str, phase: str, op: Mapping[str, Any] | None, scores: tuple[int, int] | None) -> str:
    """By name; but plain ops of the optimizer are the optimizer, and those on the score matrix are attention."""
    category = Category.HOST if name.startswith("c10d::") else category_of(name)  # that op only starts the collective
    if category == Category.OTHER and op is not None and not name.startswith(("Mem", "mem")):
        category = category_of(op["name"]) if category_of(op["name"]) != Category.HOST else Category.OTHER
    if phase == Phase.OPTIMIZER and category in PLAIN:
        return Category.OPTIMIZER
    if op is not None and scores is not None and category in (Category.MATMUL, Category.ELEMENTWISE):
        heads, length = scores
        product = op["name"] in ("aten::bmm", "aten::baddbmm")
        for shape in op.get("args", {}).get("Input Dims", []):
            on_scores = len(shape) > 2 and list(shape[-2:]) == [length, length]
            if (product or on_scores) and math.prod(shape[:-2]) == heads:
                return Category.ATTENTION
    return category


def _arithmetic(op: Mapping[str, Any]) -> tuple[float | None, float | None]:
    arguments = op.get("args", {})
    shapes, types = arguments.get("Input Dims"), arguments.get("Input type")
    if not shapes:
        return None, None
    scalars = [str(one) for one in arguments.get("Concrete Inputs") or ()]
    return flops_of(op["name"], shapes, scalars), bytes_of(op["name"], shapes, types or [])


def _exclusive(pieces: list[_Piece]) -> Iterable[tuple[_Piece, float]]:
    """Seconds of each kernel that no earlier one covers; communication only gets what all others leave."""
    covered: list[tuple[float, float]] = []
    work = sorted((p for p in pieces if p.category != Category.COMMUNICATION), key=lambda p: p.start)
    reached = float("-inf")
    for piece in work:
        begin, end = max(piece.start, reached), piece.start + piece.length
        yield piece, max(0.0, end - begin) * 1e-6
        if end > reached:
            covered.append((begin, end))
            reached = end
    reached, starts = float("-inf"), [begin for begin, _ in covered]
    for piece in sorted((p for p in pieces if p.category == Category.COMMUNICATION), key=lambda p: p.start):
        begin, end = max(piece.start, reached), piece.start + piece.length
        hidden = 0.0
        for low, high in covered[max(0, bisect_right(starts, begin) - 1) :]:
            if low >= end:
                break
            hidden += max(0.0, min(end, high) - max(begin, low))
        yield piece, max(0.0, end - begin - hidden) * 1e-6
        reached = max(reached, end)


def _by_name(pieces: list[_Piece]) -> tuple[Kernel, ...]:
    groups: dict[tuple[str, str], list[_Piece]] = {}
    for piece in pieces:
        groups.setdefault((piece.name, piece.category), []).append(piece)
    kernels = [
        Kernel(
            name=name,
            category=category,
            count=len(parts),
            total_s=sum(part.length for part in parts) * 1e-6,
            flops=_known_sum([part.flops for part in parts]),
            bytes=_known_sum([part.bytes for part in parts]),
        )
        for (name, category), parts in groups.items()
    ]
    return tuple(sorted(kernels, key=lambda kernel: -kernel.total_s))


def _known_sum(values: list[float | None]) -> float | None:
    """Add up, or None where one is unknown: half a sum would be a wrong one."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
