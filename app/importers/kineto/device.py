"""Device: kernels, copies and collectives of a step as work spans, with the arithmetic of the ops behind them."""

from __future__ import annotations

import numpy as np

from app.importers.kineto.categories import arithmetic_of, categories
from app.importers.kineto.intervals import Floats, Wholes
from app.importers.kineto.launches import Launches, phases
from app.importers.kineto.steps import StepWindow
from app.importers.kineto.trace_columns import Trace
from app.importers.kineto.work_spans import CODE, HOST, PHASE, WorkSpans
from estimator.scenario.breakdown import ARITHMETIC, PLAIN, Category, Phase


def device_work(trace: Trace, launched: Launches, step: StepWindow) -> WorkSpans:
    """Describe every device event of a step."""
    index = step.launched
    start, length = trace.device.floats("ts")[index], trace.device.floats("dur")[index]
    name, op = trace.device.wholes("name")[index], launched.op[index]
    phase = phases(trace, launched.time[index], launched.thread[index])
    category = categories(trace, name, op)
    # it ran on the device, whatever its name recalls
    category = np.where(category == HOST, CODE[Category.OTHER], category)
    category = optimizers(category, phase)
    flops, moved = _shared(trace, category, length, op)
    for place in np.flatnonzero(np.isin(index, list(trace.claimed))).tolist():
        flops[place], moved[place] = trace.claimed[int(index[place])]
    return WorkSpans(
        name=name,
        category=category,
        phase=phase,
        start=start,
        end=start + length,
        calls=np.ones(len(index), dtype=np.int64),
        flops=flops,
        bytes=moved,
    )


def optimizers(category: Wholes, phase: Wholes) -> Wholes:
    """Plain kernels of the optimizer phase are the optimizer."""
    plain = np.isin(category, [CODE[name] for name in PLAIN])
    return np.where((phase == PHASE[Phase.OPTIMIZER]) & plain, CODE[Category.OPTIMIZER], category)


def _shared(trace: Trace, category: Wholes, length: Floats, op: Wholes) -> tuple[Floats, Floats]:
    """Share each op's FLOPs and bytes among its kernels by their time: split-k kernels work on one product."""
    flops, moved = np.full(len(op), np.nan), np.full(len(op), np.nan)
    workers = np.flatnonzero((op >= 0) & np.isin(category, [CODE[name] for name in ARITHMETIC]))
    if len(workers):
        of_op, whole_bytes = arithmetic_of(trace, op[workers])
        _, call = np.unique(op[workers], return_inverse=True)
        total = np.bincount(call, weights=length[workers])[call]
        share = np.where(total > 0, length[workers] / np.where(total > 0, total, 1.0), 1.0 / np.bincount(call)[call])
        flops[workers], moved[workers] = of_op * share, whole_bytes * share
    return flops, moved
