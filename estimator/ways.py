"""Ways: how one block can be split over a group of ranks, each with the reasons why a model refuses it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from estimator.legality import context_problems, tensor_problems
from estimator.parallel.grid_shape import grid_fits, grid_of
from estimator.plan import Plan
from estimator.problems import Problem
from estimator.scenario import Scenario
from estimator.search.space import divisors


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to split a block: its plan, what it needs to know of its grid, and why it is refused, if it is."""

    name: str
    label: str
    plan: Plan
    problems: tuple[Problem, ...] = ()


def tensor_ways(scenario: Scenario, ranks: int) -> tuple[Way, ...]:
    """List 1D with sequence parallelism (without, where it cannot be) and the grids that ``ranks`` make."""
    split = _plan(scenario, tp=ranks, sequence_parallel=True)
    found = [Way(name="1d", label="1D", plan=split)]
    if tensor_problems(scenario.model, split, scenario.training):
        found = [Way(name="1d", label="1D, sums", plan=_plan(scenario, tp=ranks))]
    depth = _depth(scenario, ranks)
    for kind in ("2d", "2.5d", "3d"):
        found.append(
            Way(name=kind, label=kind.upper(), plan=_plan(scenario, tp=ranks, tp_kind=kind,
                                                          tp_depth=depth if kind == "2.5d" else 1))
        )  # fmt: skip
    return tuple(_judged(scenario, way) for way in found)


def sequence_ways(scenario: Scenario, ranks: int) -> tuple[Way, ...]:
    """List Megatron's tensor and sequence parallelism and the three context parallel ones."""
    found = [Way(name="megatron", label="Megatron SP", plan=_plan(scenario, tp=ranks, sequence_parallel=True))]
    for kind, label in (("ulysses", "Ulysses"), ("ring", "ring"), ("all-gather", "all-gather")):
        found.append(Way(name=kind, label=label, plan=_plan(scenario, cp=ranks, cp_kind=kind)))
    return tuple(_judged(scenario, way) for way in found)


def _plan(scenario: Scenario, **degrees: Any) -> Plan:
    kept = {name: getattr(scenario.plan, name) for name in ("sharding", "recompute", "micro_batch")}
    return Plan(**kept, **degrees)


def _judged(scenario: Scenario, way: Way) -> Way:
    """Ask the model and the group; which micro-batch or length fits is a matter of the axis."""
    found = tensor_problems(scenario.model, way.plan, scenario.training)
    found += context_problems(scenario.model, way.plan, scenario.training)
    kept = tuple(
        problem
        for problem in found
        if problem.field not in ("plan.micro_batch", "training.seq_len") and "seq_len" not in problem.message
    )
    return replace(way, problems=kept)


def _depth(scenario: Scenario, ranks: int) -> int:
    """Depth of 2.5D: the scenario's own, else the deepest that is no deeper than wide, else the shallowest beyond 1."""
    fits = [d for d in divisors(ranks) if 1 < d < ranks and grid_fits("2.5d", ranks, d)]
    if scenario.plan.tp_kind == "2.5d" and scenario.plan.tp_depth in fits:
        return scenario.plan.tp_depth
    flat = [d for d in fits if d <= int(grid_of("2.5d", ranks, d))]
    return max(flat) if flat else min(fits, default=2)
