"""From samples by rank and step to one step: medians that add up."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from estimator.scenario.breakdown import CATEGORIES, PHASES, Category, Phase, complete
from runners.trace.reduced import Reduced

MEASURED_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
WORK = (Category.MATMUL, Category.ATTENTION, Category.ELEMENTWISE, Category.OPTIMIZER, Category.OTHER)

Sample = dict[str, float]
"""Seconds of one step on one rank: ``step`` and each measured phase."""


def slowest(by_rank: Sequence[Sequence[Sample]]) -> list[float]:
    """Step times of the whole run: of each step the rank that took longest."""
    return [max(sample["step"] for sample in step) for step in zip(*by_rank, strict=True)]


def exposed_communication_s(with_it: Sequence[float], without_it: Sequence[float]) -> float:
    """Median step with communication minus median step without, not below zero; 0 where nothing communicates."""
    if not without_it:
        return 0.0
    return max(0.0, statistics.median(with_it) - statistics.median(without_it))


def phases_with_waiting(by_rank: Sequence[Sequence[Sample]], exposed_s: float) -> dict[str, float]:
    """Median phases (mean over ranks) scaled to add to the median step, exposed communication out of backward."""
    step_s = statistics.median(slowest(by_rank))
    steps = list(zip(*by_rank, strict=True))
    phases = {name: statistics.median(_mean(name, step) for step in steps) for name in MEASURED_PHASES}
    total = sum(phases.values())
    phases = {name: seconds * step_s / total for name, seconds in phases.items()}
    exposed_s = min(exposed_s, phases[Phase.BACKWARD])
    phases[Phase.BACKWARD] -= exposed_s
    return {**phases, Phase.EXPOSED_COMMUNICATION: exposed_s}


def phases_and_breakdown(phases: dict[str, float], profiled: Reduced) -> tuple[dict[str, float], dict[str, float]]:
    """Split waiting for the host from work by the profiled step; both results add to the step.

    Where the profiled step was busier than a measured phase is long (profiling slows small ops), its share shrinks.
    """
    exposed_s = phases[Phase.EXPOSED_COMMUNICATION]
    split = {Phase.EXPOSED_COMMUNICATION: exposed_s, Phase.HOST_WAIT: 0.0}
    breakdown = {Category.COMMUNICATION: exposed_s}
    for phase in MEASURED_PHASES:
        busy = {name: s for name, s in profiled.phases_s.get(phase, {}).items() if name in WORK}
        total = sum(busy.values())
        split[phase] = min(total, phases[phase])
        split[Phase.HOST_WAIT] += phases[phase] - split[phase]
        for name, seconds in busy.items():
            breakdown[name] = breakdown.get(name, 0.0) + (seconds * split[phase] / total if total else 0.0)
    breakdown[Category.HOST] = split[Phase.HOST_WAIT]
    return complete(split, PHASES), complete(breakdown, CATEGORIES)


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Median, extremes, and the middle half's width of a list of seconds."""
    ordered = sorted(values)
    quarters = statistics.quantiles(ordered, n=4, method="inclusive") if len(ordered) > 1 else [ordered[0]] * 3
    return {
        "count": len(ordered),
        "median_s": statistics.median(ordered),
        "minimum_s": ordered[0],
        "maximum_s": ordered[-1],
        "interquartile_range_s": quarters[2] - quarters[0],
    }


def _mean(name: str, step: Sequence[Sample]) -> float:
    return statistics.fmean(sample[name] for sample in step)
