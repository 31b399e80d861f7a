"""No plan: why a search has no legal plan at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from estimator.scenario.legality import legality
from estimator.scenario.plan import AXES, Plan
from estimator.scenario.problems import Problem
from estimator.scenario.scenario import Scenario
from estimator.scenario.units import counted


def nothing_legal(base: Scenario, locked: Mapping[str, Any]) -> list[Problem]:
    """List what of the locked fields leaves no plan; at least one problem, with a remedy."""
    chips = base.cluster.chips
    degrees = {axis: int(locked[axis]) for axis in AXES if axis in locked}
    product = prod(degrees.values())
    found = [
        Problem(
            field=f"locked.{axis}",
            message=f"{axis} = {degree} does not divide {counted(chips, 'chip')}",
            remedy=f"Lock {axis} to a divisor of {chips}, or release it.",
        )
        for axis, degree in degrees.items()
        if chips % degree
    ]
    if not found and chips % product:
        names = " · ".join(f"{axis} {degree}" for axis, degree in degrees.items())
        message = f"{names} = {product} does not divide {counted(chips, 'chip')}"
        remedy = f"Choose degrees whose product divides {chips}, or release one."
        found.append(Problem(field="locked", message=message, remedy=remedy))
    if not found:
        # The same checks as for a scenario, of which only those about locked fields can be the reason.
        plan = replace(Plan(), **locked)
        found = [
            replace(problem, field=f"locked.{problem.field.removeprefix('plan.')}")
            for problem in legality(base.model, plan, base.training)
            if problem.field.removeprefix("plan.") in locked
        ]
    return found or [
        Problem(
            field="locked" if locked else "training.global_batch",
            message=f"no plan of {counted(chips, 'chip')}, as locked, divides"
            f" {counted(base.training.global_batch, 'sequence')} per step",
            remedy="Release a field, or choose a global_batch with more divisors.",
        )
    ]
