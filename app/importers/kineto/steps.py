"""Steps: the windows of a trace that are one training step each, whole ones only."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np

from app.importers.kineto.repetition import StepBounds, repeated_steps
from app.importers.kineto.trace_columns import STEP_PREFIX, Floats, Trace, Wholes, marks
from estimator.scenario.measurement import Warning, disturbance, step_time_s

_CUT_FRAC = 0.9
_SLOW_FRAC = 1.2


@dataclass(frozen=True, kw_only=True)
class StepWindow:
    """One window, in microseconds of the trace, and the device events that the host launched in it."""

    name: str
    begin: float
    end: float
    host_begin: float
    host_end: float
    launched: Wholes

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return (self.end - self.begin) * 1e-6


def steps(trace: Trace, launch_time: Floats, warnings: list[Warning]) -> tuple[list[StepWindow], StepWindow]:
    """Return the whole steps of a trace, none where it shows none, and the window to be looked at closely: the step of
    median length, the fastest where they were disturbed, else all of it.

    Windows tile: a step begins where the host begins it, or later, when the device has finished the step before;
    it ends where the next begins. Without marks of the profiler, what a training loop repeats marks its steps. What the
    device still ran from before the recording belongs to no step, and the first one begins behind it.
    """
    marked = marks(trace, STEP_PREFIX)
    begin = np.array([trace.marks.ts[i] for i in marked])
    bounds = StepBounds(
        name=[trace.names[trace.marks.name[i]] for i in marked],
        begin=begin,
        end=begin + np.array([trace.marks.dur[i] for i in marked]),
    )
    if not marked:
        repeated = repeated_steps(trace)
        if repeated is None or _idle(repeated[0], trace, launch_time):
            message = (
                "The trace has no step marks and repeats nothing that tells its steps, so it gives no step time, only "
                "what single operations took. Call profiler.step() at the end of each step, under a schedule"
            )
            warnings.append(Warning(code="no-step-marks", message=message))
            return [], _whole(trace, launch_time)
        bounds, mark = repeated
        message = f"The trace has no step marks; it was told by each {mark} where a step ends and the next begins"
        warnings.append(Warning(code="steps-by-repetition", message=message))
        if not len(bounds.begin):  # all of the recording is one
            whole = _whole(trace, launch_time)
            return [whole], whole
    found = _windows(bounds, trace, launch_time)
    kept = _without_cut(found, trace, warnings)
    ordered = sorted(kept, key=lambda step: step.seconds)
    typical = ordered[(len(ordered) - 1) // 2]
    lengths_s = [step.seconds for step in kept]
    if disturbed := disturbance(lengths_s) > 0:  # its parts are those of the step time that is told
        typical = next(step for step in ordered if step.seconds == step_time_s(lengths_s))
    if len(kept) == 1:
        message = "Only one whole step was recorded; two or three more would show how steady it is"
        warnings.append(Warning(code="single-step", message=message, where=typical.name))
    elif kept[0].seconds > _SLOW_FRAC * statistics.median(step.seconds for step in kept[1:]):
        message = (
            "The first recorded step is slower than the others (allocation, autotuning): "
            f"parts and timeline are those of the {'fastest' if disturbed else 'median'} step"
        )
        warnings.append(Warning(code="first-step-slow", message=message, where=kept[0].name))
    return kept, typical


def _idle(bounds: StepBounds, trace: Trace, launch_time: Floats) -> bool:
    """Whether a device was recorded, but nothing was launched on it in half of the windows."""
    if not len(trace.device) or not len(bounds.begin):
        return False
    times = np.sort(launch_time)
    return float(np.median(np.searchsorted(times, bounds.end) - np.searchsorted(times, bounds.begin))) == 0.0


def _windows(bounds: StepBounds, trace: Trace, launch_time: Floats) -> list[StepWindow]:
    name, host_begin, host_end = bounds.name, bounds.begin, bounds.end
    indices = range(len(name))
    device_end = trace.device.floats("ts") + trace.device.floats("dur")
    owner = np.searchsorted(host_begin, launch_time, side="right") - 1
    owner = np.where((owner >= 0) & (launch_time <= host_end[np.maximum(owner, 0)]), owner, -1)
    left_over = np.max(device_end[np.isneginf(launch_time)], initial=-np.inf)
    finished = np.full(len(indices), -np.inf)
    np.maximum.at(finished, owner[owner >= 0], device_end[owner >= 0])
    before = np.maximum.accumulate(np.concatenate(([left_over], finished[:-1])))
    begin = np.maximum(host_begin, before)
    end = np.maximum(host_end, finished)
    follows = [_number(name[k + 1]) == _number(name[k]) + 1 for k in range(len(indices) - 1)]
    order = np.argsort(owner, kind="stable")
    cuts = np.searchsorted(owner[order], np.arange(len(indices) + 1))
    return [
        StepWindow(
            name=name[k],
            begin=float(begin[k]),
            end=float(max(begin[k + 1], begin[k])) if k + 1 < len(indices) and follows[k] else float(end[k]),
            host_begin=float(host_begin[k]),
            host_end=float(host_end[k]),
            launched=order[cuts[k] : cuts[k + 1]],
        )
        for k in range(len(indices))
    ]


def _number(name: str) -> int:
    digits = name.removeprefix(STEP_PREFIX)
    return int(digits) if digits.isdigit() and len(digits) < 12 else -2


def _whole(trace: Trace, launch_time: Floats) -> StepWindow:
    own = np.flatnonzero(np.isfinite(launch_time))
    if len(trace.device):
        ends = trace.device.floats("ts") + trace.device.floats("dur")
        left_over = np.max(ends[np.isneginf(launch_time)], initial=-np.inf)
        begin = max(float(np.min(np.minimum(launch_time, trace.device.floats("ts"))[own])), float(left_over))
        end = float(np.max(ends[own]))
    else:
        spans = [trace.ops, trace.marks]
        begin = float(np.concatenate([one.floats("ts") for one in spans]).min())
        end = float(np.concatenate([one.floats("ts") + one.floats("dur") for one in spans]).max())
    return StepWindow(name="", begin=begin, end=end, host_begin=-np.inf, host_end=np.inf, launched=own)


def _without_cut(found: list[StepWindow], trace: Trace, warnings: list[Warning]) -> list[StepWindow]:
    """Leave out a first or last step with clearly fewer events than the others: the profiler cut it."""
    if len(found) < 2:
        return found
    if len(trace.device):
        counts = [len(step.launched) for step in found]
    else:
        begins = np.sort(trace.ops.floats("ts"))
        counts = [int(np.searchsorted(begins, step.end) - np.searchsorted(begins, step.begin)) for step in found]
    kept = list(found)
    for index in (len(found) - 1, 0):
        others = [count for i, count in enumerate(counts) if i != index]
        if counts[index] < _CUT_FRAC * statistics.median(others) and len(kept) > 1:
            kept.remove(found[index])
            message = "This step holds clearly fewer events than the others (it was cut off); it was left out"
            warnings.append(Warning(code="step-cut", message=message, where=found[index].name))
    return kept
