"""Launches: from a kernel to the call that launched it, the op around that call, and the phase of the step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.importers.kineto.intervals import contains, groups, union
from app.importers.kineto.nesting import enclosing
from app.importers.kineto.trace_columns import (
    BACKWARD_PREFIX,
    GRAPH_LAUNCHES,
    NO_ID,
    Floats,
    Spans,
    Trace,
    Wholes,
    marks,
)
from app.importers.kineto.work_spans import PHASE
from estimator.scenario.breakdown import WORK_PHASES, Phase
from runners.trace.reduced import PHASE_PREFIX

OPTIMIZER_MARK = "Optimizer."
BACKWARD = PHASE[Phase.BACKWARD]


@dataclass(frozen=True, kw_only=True)
class Launches:
    """For each device event: when and on which thread the host launched it, and by which op (−1: unknown).

    Work left over from before the recording has no launch, and runs before all that has one: its time is −∞. What has
    no launch and runs later counts from its own start.
    """

    time: Floats
    thread: Wholes
    op: Wholes
    by_graph: int
    unattributed: int
    left_over: int
    unlaunched: int
    """Those without a launch that are not left over, where launches were recorded at all."""


def launches(trace: Trace) -> Launches:
    """Join device events with ops: by External id, else by correlation and the op around the call.

    Launch records come from the runtime and from the driver interface; Triton and cuBLAS use the latter alone.
    """
    device = trace.device
    launch = matched(device.wholes("correlation"), trace.launches.wholes("correlation"))
    known = launch >= 0
    safe = np.maximum(launch, 0)
    times, threads = trace.launches.floats("ts"), trace.launches.wholes("thread")
    time = np.where(known, times[safe], device.floats("ts")) if len(times) else device.floats("ts").copy()
    left = _left_over(device.floats("ts"), known)
    time[left] = -np.inf
    thread = np.where(known, threads[safe], -1) if len(times) else np.full(len(device), -1, dtype=np.int64)
    op = matched(device.wholes("external"), trace.ops.wholes("external"))
    if len(times):
        through_launch = matched(trace.launches.wholes("external"), trace.ops.wholes("external"))
        op = np.where((op < 0) & known, through_launch[safe], op)
        op = _by_time(trace, op, launch)
    graphs = {i for i, name in enumerate(trace.names) if name.startswith(GRAPH_LAUNCHES)}
    by_graph = 0
    if graphs and len(times):
        launched_by = trace.launches.wholes("name")[safe]
        by_graph = int(np.count_nonzero(known & np.isin(launched_by, list(graphs))))
    return Launches(
        time=time,
        thread=thread,
        op=op,
        by_graph=by_graph,
        unattributed=int(np.count_nonzero((op < 0) & ~left)),
        left_over=int(np.count_nonzero(left)),
        unlaunched=int(np.count_nonzero(~known & ~left)) if known.any() else 0,
    )


def _left_over(start: Floats, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Device events without a launch that start before the first one that has one."""
    return ~known & (start < np.min(start[known], initial=np.inf)) if known.any() else np.zeros(len(start), np.bool_)


def matched(wanted: Wholes, keys: Wholes) -> Wholes:
    """Index into ``keys`` of each wanted id, −1 where there is none or the id is missing."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    found = np.searchsorted(keys[order], wanted, side="right") - 1
    index = order[np.maximum(found, 0)]
    hit = (found >= 0) & (keys[index] == wanted) & (wanted != NO_ID)
    return np.where(hit, index, -1)


def _by_time(trace: Trace, op: Wholes, launch: Wholes) -> Wholes:
    """For events whose ids lead nowhere: the innermost op around their launch, on its thread."""
    lost = np.flatnonzero((op < 0) & (launch >= 0))
    if not len(lost) or not len(trace.ops):
        return op
    op = op.copy()
    starts, ends = trace.ops.floats("ts"), trace.ops.floats("ts") + trace.ops.floats("dur")
    op_threads, launch_threads = trace.ops.wholes("thread"), trace.launches.wholes("thread")
    times = trace.launches.floats("ts")
    ops_of = dict(groups(op_threads))
    for thread, members in groups(launch_threads[launch[lost]]):
        mine, ops = lost[members], ops_of.get(thread)
        if ops is None:
            continue
        found = enclosing(starts[ops], ends[ops], times[launch[mine]])
        op[mine] = np.where(found >= 0, ops[np.maximum(found, 0)], -1)
    return op


def phases(trace: Trace, time: Floats, thread: Wholes) -> Wholes:
    """Tell the phase that the host was in at each time on each thread, counted as in estimator.scenario.breakdown.

    Ranges named ``phase:…`` decide where they exist, each up to the next. Else the optimizer is the time inside its
    step's range, backward the time inside the autograd engine on the same thread, and forward the rest.
    """
    marked = marks(trace, PHASE_PREFIX)
    if marked:
        begins = np.array([trace.marks.ts[i] for i in marked])
        names = [trace.names[trace.marks.name[i]].removeprefix(PHASE_PREFIX) for i in marked]
        codes = np.array([PHASE.get(name, BACKWARD) if name in WORK_PHASES else BACKWARD for name in names])
        index = np.searchsorted(begins, time, side="right") - 1
        return np.where(index >= 0, codes[np.maximum(index, 0)], PHASE[Phase.FORWARD])
    found = np.full(len(time), PHASE[Phase.FORWARD])
    engine = [i for i, name in enumerate(trace.names) if name.startswith(BACKWARD_PREFIX)]
    engine_ops = np.flatnonzero(np.isin(trace.ops.wholes("name"), engine))
    ops_of = {one: engine_ops[members] for one, members in groups(trace.ops.wholes("thread")[engine_ops])}
    for one, mine in groups(thread):
        if one in ops_of:
            found[mine[contains(*_ranges(trace.ops, ops_of[one]), time[mine])]] = BACKWARD
    optimizer = _ranges(trace.marks, np.array(marks(trace, OPTIMIZER_MARK), dtype=np.int64))
    found[contains(*optimizer, time)] = PHASE[Phase.OPTIMIZER]
    return found


def _ranges(spans: Spans, indices: Wholes) -> tuple[Floats, Floats]:
    starts = spans.floats("ts")[indices]
    return union(starts, starts + spans.floats("dur")[indices])
