"""Repetition: where a training loop that marks no steps goes round, by what it does once in each of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.importers.kineto.intervals import Floats
from app.importers.kineto.trace_columns import OPTIMIZER_PREFIX, STEP_PREFIX, Trace, marks
from estimator.scenario.breakdown import Category, Phase
from runners.trace.kernel_category import category_of
from runners.trace.reduced import PHASE_PREFIX

LOADER_PREFIX = "enumerate(DataLoader)"
_COUNTER = re.compile(r"[\W_]*\d{1,12}$")
_LEAST, _COVERED_FRAC = 3, 0.8


@dataclass(frozen=True, kw_only=True)
class StepBounds:
    """Where the host begins and ends each step, in microseconds of the trace, in order."""

    name: Sequence[str]
    begin: Floats
    end: Floats


def repeated_steps(trace: Trace) -> tuple[StepBounds, str] | None:
    """Return the steps that a trace without marks repeats, and what told them; None where nothing does.

    From one update of the optimizer to the next; a single update makes all of the recording one step, without bounds,
    and so do ranges that name its phases. Else from one batch of the data loader to the next, else what an author's own
    range covers again and again.
    """
    updates = marks(trace, OPTIMIZER_PREFIX)
    first = [i for i in updates if trace.marks.name[i] == trace.marks.name[updates[0]]] if updates else []
    if len(first) == 1:
        return StepBounds(name=[], begin=np.zeros(0), end=np.zeros(0)), "update of the optimizer"
    if first:
        ends = np.array([trace.marks.ts[i] + trace.marks.dur[i] for i in first])
        return _between(ends), "update of the optimizer"
    optimized = marks(trace, f"{PHASE_PREFIX}{Phase.OPTIMIZER}")
    if len(optimized) > 1:
        return _between(np.array([trace.marks.ts[i] + trace.marks.dur[i] for i in optimized])), "optimizer phase"
    if marks(trace, PHASE_PREFIX):
        return StepBounds(name=[], begin=np.zeros(0), end=np.zeros(0)), "row of phases"
    loaded = marks(trace, LOADER_PREFIX)
    if len(loaded) >= _LEAST:
        return _between(np.array([trace.marks.ts[i] for i in loaded])), "batch of the data loader"
    return _own_ranges(trace)


def _between(at: Floats) -> StepBounds:
    names = [f"{STEP_PREFIX}{number}" for number in range(len(at) - 1)]
    # a step ends just before the next one begins, which what is launched there belongs to
    return StepBounds(name=names, begin=at[:-1], end=np.nextafter(at[1:], -np.inf))


def _own_ranges(trace: Trace) -> tuple[StepBounds, str] | None:
    groups: dict[tuple[str, int], list[int]] = {}
    for i in range(len(trace.marks)):
        name = trace.names[trace.marks.name[i]]
        plain = _COUNTER.sub("", name)
        if (
            plain
            and not name.startswith(PHASE_PREFIX)
            and category_of(name) not in (Category.COMMUNICATION, Category.HOST)
        ):
            groups.setdefault((plain, trace.marks.thread[i]), []).append(i)
    best, longest = None, 0.0
    for (plain, _), members in groups.items():
        if len(members) < _LEAST:
            continue
        ordered = sorted(members, key=lambda i: trace.marks.ts[i])
        begin = np.array([trace.marks.ts[i] for i in ordered])
        end = begin + np.array([trace.marks.dur[i] for i in ordered])
        inside = float(np.sum(end - begin))
        apart = bool(np.all(begin[1:] >= end[:-1]))
        if apart and inside >= _COVERED_FRAC * (end[-1] - begin[0]) and inside > longest:
            names = [f"{STEP_PREFIX}{number}" for number in range(len(begin))]
            best, longest = (StepBounds(name=names, begin=begin, end=end), f"range {plain[:60]!r}"), inside
    whole = _span(trace)
    return best if best is not None and longest >= _COVERED_FRAC * whole / 2 else None


def _span(trace: Trace) -> float:
    starts = trace.ops.floats("ts")
    return float(np.max(starts + trace.ops.floats("dur")) - np.min(starts)) if len(starts) else 0.0
