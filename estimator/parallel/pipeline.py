"""Pipeline: how long m micro-batches take through p stages, and how many each stage holds at once."""

from __future__ import annotations

from estimator.units import Number


def pipeline_s(stage_s: list[Number], micro_batches: Number) -> Number:
    """Time of GPipe or 1F1B over stages of given time per micro-batch (forward and backward).

    T = Σ stages + (m − 1) · slowest stage; equal stages give (m + p − 1) · t (Huang 2019, arXiv 1811.06965;
    Narayanan 2021, arXiv 2104.04473, section 2.2).
    """
    total = sum(stage_s[1:], stage_s[0])
    return total + (micro_batches - 1) * slowest(stage_s)


def slowest(stage_s: list[Number]) -> Number:
    """Time per micro-batch of the stage that sets the pace."""
    from estimator.arrays import maximum

    found = stage_s[0]
    for value in stage_s[1:]:
        found = maximum(found, value)
    return found


def in_flight(schedule: str, stage: int, stages: int, micro_batches: int) -> int:
    """Micro-batches whose activations a stage holds at its peak: all under GPipe, min(m, p − stage) under 1F1B.

    ``stage`` counts from 0 (Narayanan 2021, arXiv 2104.04473, section 2.2.1).
    """
    return micro_batches if schedule == "gpipe" else min(micro_batches, stages - stage)
