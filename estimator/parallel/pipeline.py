"""Pipeline: what a schedule adds to the pace of the slowest stage, and the micro-batches that a stage holds at once."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.arrays import maximum, where
from estimator.parallel.schedules import FORMULAS
from estimator.parallel.stages import Stages, StageTimes
from estimator.problems import Problem
from estimator.units import Number

__all__ = ["Bubble", "StageTimes", "bubble_s", "in_flight", "schedule_problems"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bubble:
    """What a step takes beyond micro-batches times the slowest stage: idle time, and messages that nothing hides."""

    idle_s: Number
    send_s: Number


def bubble_s(
    schedule: str,
    *,
    first: StageTimes,
    middle: StageTimes,
    last: StageTimes,
    stages: Number,
    micro_batches: Number,
    virtual_stages: Number,
    send_s: Number,
) -> Bubble:
    """Return what one step takes beyond m · slowest by its schedule's own formula in ``estimator.parallel.schedules``.

    What messages of ``send_s`` each add to that is apart. For GPipe and 1F1B without messages the step is
    Σ stages + (m − 1) · slowest. ``middle`` stands for every stage between the first and the last; two stages have
    none, and one stage has no bubble.
    """
    found = Stages(first=first, middle=middle, last=last, count=stages)
    idle_s, both_s = FORMULAS[schedule].beyond_s(found, micro_batches, virtual_stages, send_s)
    idle_s = where(stages > 1, idle_s, 0.0)
    return Bubble(idle_s=idle_s, send_s=where(stages > 1, maximum(both_s - idle_s, 0.0), 0.0))


def in_flight(
    schedule: str, stage: Number, stages: Number, micro_batches: Number, virtual_stages: Number = 1
) -> Number:
    """Micro-batches whose activations a stage holds at its peak, in units of one micro-batch on the whole rank.

    ``stage`` counts from 0. GPipe: all. 1F1B: min(m, p − stage) (Narayanan 2021, arXiv 2104.04473, section 2.2.1).
    Interleaved: min(m, (2(p − 1 − stage) + (v − 1)p + 1)/v), on the first stage p(1 + (p − 1)/(pv)). Where W waits,
    activations wait too: ZB-H1 min(m, p) (Qi 2023, arXiv 2401.10241), ZB-V min(m, p, (m + 1 + stage)/2).
    """
    return FORMULAS[schedule].held(stage, stages, micro_batches, virtual_stages)


def schedule_problems(schedule: str, stages: int, micro_batches: int, virtual_stages: int) -> list[Problem]:
    """List what a schedule does not allow: chunks that it has not, groups that do not fill."""
    if stages == 1:
        return []
    found = []
    if schedule == "zero-bubble-v" and virtual_stages > 2:
        found.append(_problem("plan.virtual_stages", f"zero-bubble-v runs two chunks per rank, not {virtual_stages}",
                              "Set virtual_stages to 2, or schedule to interleaved."))  # fmt: skip
    elif schedule not in ("interleaved", "zero-bubble-v") and virtual_stages > 1:
        found.append(_problem("plan.virtual_stages", f"{schedule} runs one chunk per rank, not {virtual_stages}",
                              "Set virtual_stages to 1, or schedule to interleaved."))  # fmt: skip
    if schedule == "interleaved" and virtual_stages > 1 and micro_batches % stages:
        found.append(_problem("training.global_batch", f"interleaving takes micro-batches in groups of pp = {stages};"
                              f" {micro_batches} per step do not fill them",
                              "Choose global_batch so that global_batch / (dp·micro_batch) is a multiple of pp,"
                              " or set schedule to 1f1b."))  # fmt: skip
    return found


def _problem(field: str, message: str, remedy: str) -> Problem:
    return Problem(field=field, message=message, remedy=remedy)
