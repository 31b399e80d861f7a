"""Timeline: the typical step of a trace over time: the host's ops, kernels, collectives, memory."""

from __future__ import annotations

import numpy as np

from app.importers.kineto.intervals import union
from app.importers.kineto.steps import StepWindow
from app.importers.kineto.trace_columns import Trace
from app.importers.kineto.work_spans import WorkSpans
from estimator.scenario.breakdown import CATEGORIES, PHASES, Category
from estimator.scenario.timeline import Timeline
from runners.trace.recorded import Span, recorded

_CPU, _CUDA = 0, 1


def step_timeline(trace: Trace, work: WorkSpans, step: StepWindow) -> Timeline | None:
    """Lay out one step; None where it holds nothing."""
    starts, ends = (work.start - step.begin) * 1e-6, (work.end - step.begin) * 1e-6
    spans = [
        Span(CATEGORIES[category], trace.names[name], PHASES[phase], start_s, end_s)
        for name, category, phase, start_s, end_s in zip(
            work.name.tolist(), work.category.tolist(), work.phase.tolist(), starts.tolist(), ends.tolist(), strict=True
        )
    ]
    if len(trace.device):
        begins = trace.ops.floats("ts")
        inside = (begins >= step.begin) & (begins < step.end)
        busy = union(begins[inside], (begins + trace.ops.floats("dur"))[inside])
        spans += [
            Span(Category.HOST, "ops", "", start_s, end_s)
            for start_s, end_s in zip(*(((one - step.begin) * 1e-6).tolist() for one in busy), strict=True)
        ]
    return recorded(spans, step.seconds, _memory(trace, step))


def _memory(trace: Trace, step: StepWindow) -> list[tuple[float, float]]:
    """Bytes of the device through the step; of a CPU only where there is no other."""
    kind = _CUDA if _CUDA in trace.held else _CPU
    if kind not in trace.held or (kind == _CPU and len(trace.device)):
        return []
    at, held = (np.asarray(column) for column in trace.held[kind])
    order = np.argsort(at, kind="stable")
    inside = order[(at[order] >= step.begin) & (at[order] <= step.end)]
    return list(zip(((at[inside] - step.begin) * 1e-6).tolist(), held[inside].tolist(), strict=True))
