"""Host: a step without a device's kernels, as the own times of its ATen ops on the threads that ran them."""

from __future__ import annotations

import numpy as np

from app.importers.kineto.categories import arithmetic_of, categories
from app.importers.kineto.device import optimizers
from app.importers.kineto.intervals import Wholes, groups
from app.importers.kineto.launches import phases
from app.importers.kineto.nesting import innermost
from app.importers.kineto.steps import StepWindow
from app.importers.kineto.trace_columns import Trace
from app.importers.kineto.work_spans import CODE, HOST, MESSAGE, PHASE, WorkSpans, joined
from estimator.scenario.breakdown import ARITHMETIC, Category, Phase
from runners.trace.kernel_category import category_of

_STARTS_ONLY = "c10d::"
"""Ops that start a collective, which then runs elsewhere."""


def host_work(trace: Trace, step: StepWindow) -> WorkSpans:
    """Cut a step's ops into stretches of own time; the first stretch of a call carries its FLOPs and bytes.

    Ops that only choose the one below them (linear, matmul, conv2d) count as host time, as do views and the engine.
    Collectives are ranges on threads of their own.
    """
    starts = trace.ops.floats("ts")
    inside = np.flatnonzero((starts >= step.begin) & (starts < step.end))
    threads = trace.ops.wholes("thread")[inside]
    return joined([_collectives(trace, step), *(_of_thread(trace, inside[mine], one) for one, mine in groups(threads))])


def _of_thread(trace: Trace, ops: Wholes, thread: int) -> WorkSpans:
    starts = trace.ops.floats("ts")[ops]
    low, high, owner, parents = innermost(starts, starts + trace.ops.floats("dur")[ops])
    name = trace.ops.wholes("name")[ops]
    flops, moved = arithmetic_of(trace, ops)
    category = categories(trace, name, ops)
    by_name = categories(trace, name, np.full(len(ops), -1))
    chooses = parents & np.isnan(flops) & np.isin(by_name, [CODE[one] for one in ARITHMETIC])
    starters = [i for i, one in enumerate(trace.names) if one.startswith(_STARTS_ONLY)]
    category = np.where(chooses | np.isin(name, starters), HOST, category)
    phase = phases(trace, low, np.full(len(low), thread))
    first = np.zeros(len(owner), dtype=np.bool_)
    first[np.unique(owner, return_index=True)[1]] = True
    return WorkSpans(
        name=name[owner],
        category=optimizers(category[owner], phase),
        phase=phase,
        start=low,
        end=high,
        calls=first.astype(np.int64),
        flops=_once(flops[owner], first),
        bytes=_once(moved[owner], first),
    )


def _once(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Keep a known value on the first stretch of its call, 0 on the others; what is unknown stays so."""
    return np.where(first | np.isnan(values), values, 0.0)


def _collectives(trace: Trace, step: StepWindow) -> WorkSpans:
    begins = trace.marks.floats("ts")
    inside = np.flatnonzero((begins >= step.begin) & (begins < step.end))
    names = trace.marks.wholes("name")[inside]
    speaking = [one for one in np.unique(names).tolist() if category_of(trace.names[one]) == Category.COMMUNICATION]
    mine = inside[np.isin(names, speaking)]
    unknown = np.full(len(mine), np.nan)
    return WorkSpans(
        name=trace.marks.wholes("name")[mine],
        category=np.full(len(mine), MESSAGE),
        phase=np.full(len(mine), PHASE[Phase.BACKWARD]),
        start=begins[mine],
        end=begins[mine] + trace.marks.floats("dur")[mine],
        calls=np.ones(len(mine), dtype=np.int64),
        flops=unknown,
        bytes=unknown,
    )
