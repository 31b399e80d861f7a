"""From samples by rank and step to one step: medians that add up."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from estimator.scenario.breakdown import (
    CATEGORIES,
    PHASES,
    WAITING,
    WORK_CATEGORIES,
    WORK_PHASES,
    Category,
    Phase,
    complete,
)
from estimator.scenario.measurement import Warning
from estimator.scenario.units import seconds as seconds_text
from runners.ranks import Ranks, gather
from runners.trace.reduced import Reduced

HOST_BOUND_FRAC = 0.2
"""Share of a step in which the device waits for the host from which a result says so."""

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


def phases_with_waiting(
    by_rank: Sequence[Sequence[Sample]], exposed_s: float | Mapping[str, float]
) -> dict[str, float]:
    """Median phases (mean over ranks) scaled to add to the median step, exposed communication taken out of them.

    Where only its sum is known, that of data parallel gradients, it is taken out of backward.
    """
    step_s = statistics.median(slowest(by_rank))
    steps = list(zip(*by_rank, strict=True))
    names = [name for name in steps[0][0] if name != "step"]
    phases = {name: statistics.median(_mean(name, step) for step in steps) for name in names}
    total = sum(phases.values())
    phases = {name: seconds * step_s / total for name, seconds in phases.items()}
    exposed = exposed_s if isinstance(exposed_s, Mapping) else {Phase.BACKWARD: exposed_s}
    taken = {name: min(seconds, phases[name]) for name, seconds in exposed.items() if name in WORK_PHASES}
    for name, seconds in taken.items():
        phases[name] -= seconds
    return {**phases, Phase.EXPOSED_COMMUNICATION: sum(taken.values())}


def phases_and_breakdown(phases: dict[str, float], profiled: Reduced) -> tuple[dict[str, float], dict[str, float]]:
    """Split waiting for the host from work by the profiled step; both results add to the step.

    Where the profiled step was busier than a measured phase is long (profiling slows small ops), its share shrinks.
    """
    exposed_s = phases[Phase.EXPOSED_COMMUNICATION]
    bubble_s = phases.get(Phase.BUBBLE, 0.0)
    split = {Phase.EXPOSED_COMMUNICATION: exposed_s, Phase.BUBBLE: bubble_s, Phase.HOST_WAIT: 0.0}
    breakdown: dict[str, float] = {}
    for phase in WORK_PHASES:
        busy = {name: s for name, s in profiled.phases_s.get(phase, {}).items() if name in WORK_CATEGORIES}
        total = sum(busy.values())
        split[phase] = min(total, phases[phase])
        split[Phase.HOST_WAIT] += phases[phase] - split[phase]
        for name, seconds in busy.items():
            breakdown[name] = breakdown.get(name, 0.0) + (seconds * split[phase] / total if total else 0.0)
    breakdown |= {category: split[phase] for category, phase in WAITING.items()}
    return complete(split, PHASES), complete(breakdown, CATEGORIES)


def communication_by_rank(ranks: Ranks, profiled: Reduced) -> dict[str, Any]:
    """Collect what each rank's profiled step says of communication; all ranks must call it."""
    kernels_s = sum(kernel.total_s for kernel in profiled.kernels if kernel.category == Category.COMMUNICATION)
    names = [*WORK_PHASES, ""]
    mine = [profiled.phases_s.get(name, {}).get(Category.COMMUNICATION, 0.0) for name in names]
    every = gather(ranks, [kernels_s, *mine])
    exposed = [sum(row[1:-1]) for row in every]
    return {
        "kernels_s": [row[0] for row in every],
        "kernels_minimum_s": min(row[0] for row in every),
        "kernels_mean_s": statistics.fmean(row[0] for row in every),
        "exposed_s": {name: [row[1 + index] for row in every] for index, name in enumerate(WORK_PHASES)},
        "exposed_minimum_s": min(exposed),
        "exposed_mean_s": statistics.fmean(exposed),
    }


def exposed_by_phase(
    by_rank: Sequence[Sequence[Sample]], communication: Mapping[str, Any], profiled: Reduced
) -> dict[str, float]:
    """Mean over ranks of what communication adds to each phase, less where profiling made the phase longer."""
    phases = phases_with_waiting(by_rank, 0.0)
    found = {}
    for name in WORK_PHASES:
        exposed_s = statistics.fmean(communication["exposed_s"][name])
        work_s = sum(s for category, s in profiled.phases_s.get(name, {}).items() if category in WORK_CATEGORIES)
        found[name] = exposed_s * min(1.0, phases[name] / (exposed_s + work_s)) if exposed_s else 0.0
    return found


def host_bound(phases_s: Mapping[str, float], communication: Mapping[str, Any]) -> list[Warning]:
    """Say where the device waits for the host a good part of the step: the host was measured, not the device."""
    step_s, wait_s = sum(phases_s.values()), phases_s[Phase.HOST_WAIT]
    if wait_s < HOST_BOUND_FRAC * step_s:
        return []
    waits, step = seconds_text(wait_s), seconds_text(step_s)
    message = f"launches take longer than the device works: it waits for the host {waits} of {step}"
    exposed_s = phases_s[Phase.EXPOSED_COMMUNICATION]
    if exposed_s and communication:
        exposed, least = seconds_text(exposed_s), seconds_text(communication["exposed_minimum_s"])
        message += f", and {exposed} of exposed communication are mostly waiting ({least} in the rank that waits least)"
    return [Warning(code="host_bound", message=f"{message}; larger sizes measure the device")]


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
