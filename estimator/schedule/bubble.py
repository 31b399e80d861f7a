"""Bubble: what a schedule adds to the critical stage, and the micro-batches that a stage holds at once."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.scenario.arrays import maximum, where
from estimator.scenario.units import Number
from estimator.schedule.micro_batch import Stages, StageTimes
from estimator.schedule.schedules import FORMULAS


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
    """Return what one step takes beyond m · slowest by its schedule's own formula in ``estimator.schedule.schedules``.

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
