"""Sweep: every legal plan for a model on a number of chips; the best, and the Pareto front of time, memory and cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from estimator.cost.efficiency import Calibrated
from estimator.estimate.assemble import effective, efficiencies_of
from estimator.estimate.estimate import estimate
from estimator.estimate.explain import passed_over_words
from estimator.scenario.hardware import peak_flops_per_s
from estimator.scenario.parameters import model_flops_per_token
from estimator.scenario.plan import Plan
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import (
    Scenario,
    cluster_from_json,
    model_from_json,
    scenario_from_json,
    standing_problems,
    training_from_json,
)
from estimator.search.evaluate import evaluated
from estimator.search.front import Candidate, Front
from estimator.search.grid import Grid
from estimator.search.no_plan import nothing_legal
from estimator.search.space import Space, too_much
from estimator.search.specification import checked, further_values

MAX_PLANS = 100_000_000
"""A search answers within about a minute and a half; larger spaces must lock a field."""
WRITTEN = ("dp", "tp", "pp", "micro_batch", "sharding", "recompute", "schedule", "sequence_parallel")
KEPT = 10


@dataclass(frozen=True, kw_only=True)
class Found:
    """One plan that fits, with what decides between plans; cost is chip-seconds per step.

    ``ties``: further plans with the same time and memory to rounding, of which this is the simplest. ``interval_s``: as
    an estimate of it says, the step time twice where it was not asked for. ``capacity_bytes``: memory that a rank has.
    ``out_of_memory_frac``: the risk that it needs more, as that estimate says; None where it was not asked for.
    """

    scenario: dict[str, Any]
    step_time_s: float
    interval_s: tuple[float, float]
    peak_bytes: float
    reserved_bytes: float
    capacity_bytes: float
    cost_chip_s: float
    tokens_per_s: float
    mfu: float
    ties: int = 0
    out_of_memory_frac: float | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The best plan of those whose fields have these values, in the order of the specification's ``grid``.

    ``found.interval_s`` is the step time twice: cells are many, and their intervals are not asked for.
    """

    values: tuple[Any, ...]
    found: Found


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What a search found; ``best`` by the objective, ``pareto`` where none is better in every respect.

    ``grid``: the best plan in each cell of the fields that the specification named, none where it named none.
    ``assumptions``: what holds for every plan beside the specification, as that a calibration is of another chip.
    """

    objective: str
    plans_tried: int
    plans_fitting: int
    plans_per_s: float
    seconds: float
    best: tuple[Found, ...]
    pareto: tuple[Found, ...]
    grid: tuple[Cell, ...] = ()
    assumptions: tuple[str, ...] = ()


def sweep(
    specification: object,
    calibration: Calibrated | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    interval: bool = True,
) -> Sweep:
    """Try every legal plan; raise InputProblems naming the field of a bad specification.

    ``specification``: a scenario without plan, plus optional ``limits``, ``objective``, ``locked`` {field: value} and
    ``search`` {field: values}, which names what else is to be moved; ``grid``: up to two fields of a plan, by whose
    values the best plans are told too. Without ``interval`` both ends of each are the step time.
    ``progress`` hears the plans tried and those fitting so far, many times a second; what it raises ends the search.
    """
    spec = checked(specification)
    limits: Mapping[str, float] = spec.get("limits", {})
    objective: str = spec.get("objective", "step_time")
    start = time.perf_counter()
    base = effective(_base(spec))
    tried = fitting = 0

    def beat() -> None:
        if progress is not None:
            progress(tried, fitting)

    space = Space(base, spec.get("locked", {}), further_values(spec.get("search", {}), base), beat)
    problems = standing_problems(replace(base, plan=space.fixed))
    if problems:
        raise InputProblems([replace(p, field=p.field.replace("plan.", "locked.")) for p in problems])
    e = efficiencies_of(base, calibration)
    chips = base.cluster.chips
    capacity = min(base.cluster.rank_chip.memory_bytes, float(limits.get("memory_bytes", float("inf"))))
    slowest = float(limits.get("max_step_time_s", float("inf")))
    front = Front(objective=objective, kept=KEPT)
    grid = Grid(tuple(spec.get("grid", ())), objective=objective)
    for block in evaluated(space, e, capacity_bytes=capacity):
        tried += block.tried
        usable = np.flatnonzero(block.step_s <= slowest)
        fitting += len(usable)
        front.add(block, usable)
        grid.add(block, usable)
        beat()
        if tried > MAX_PLANS:
            raise too_much(f"more than {MAX_PLANS} plans to try")
    if not tried:
        raise InputProblems(nothing_legal(base, space.locked))
    seconds = time.perf_counter() - start
    document = {key: spec[key] for key in ("model", "cluster", "training")}

    def found(candidate: Candidate) -> Found:
        beat()
        one = _found(document, base, candidate, chips)
        if not interval:
            return one
        known = estimate(scenario_from_json(one.scenario), calibration)
        return replace(one, interval_s=known.interval_s, out_of_memory_frac=known.memory.out_of_memory_frac)

    def cell(of: tuple[tuple[Any, ...], Candidate]) -> Cell:
        beat()
        return Cell(values=of[0], found=_found(document, base, of[1], chips))

    return Sweep(
        objective=objective,
        plans_tried=tried,
        plans_fitting=fitting,
        plans_per_s=tried / seconds,
        seconds=seconds,
        best=tuple(map(found, front.best())),
        pareto=tuple(map(found, front.pareto())),
        grid=tuple(map(cell, grid.cells())),
        assumptions=passed_over_words(base.cluster.chip, calibration),
    )


def _base(spec: Mapping[str, Any]) -> Scenario:
    return Scenario(
        model=model_from_json(spec["model"]),
        cluster=cluster_from_json(spec["cluster"]),
        plan=Plan(),
        training=training_from_json(spec["training"]),
    )


def _found(document: Mapping[str, Any], base: Scenario, candidate: Candidate, chips: int) -> Found:
    plan = candidate.plan
    defaults = Plan()
    changed = {
        f.name: getattr(plan, f.name)
        for f in fields(Plan)
        if f.name in WRITTEN or getattr(plan, f.name) != getattr(defaults, f.name)
    }
    tokens = base.tokens
    flops = model_flops_per_token(base.model, base.training.seq_len) * tokens
    peak = peak_flops_per_s(base.cluster.rank_chip, base.training.precision)
    return Found(
        scenario={**document, "plan": changed},
        step_time_s=candidate.step_s,
        interval_s=(candidate.step_s, candidate.step_s),
        peak_bytes=candidate.peak_bytes,
        reserved_bytes=candidate.reserved_bytes,
        capacity_bytes=base.cluster.rank_chip.memory_bytes,
        cost_chip_s=candidate.step_s * chips,
        tokens_per_s=tokens / candidate.step_s,
        mfu=flops / (candidate.step_s * chips * peak),
        ties=candidate.ties,
    )
