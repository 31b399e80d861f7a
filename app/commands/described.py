"""Described: a scenario in one line, as commands say what they predicted."""

from __future__ import annotations

from dataclasses import fields

from estimator.scenario.plan import Plan
from estimator.scenario.scenario import Scenario
from estimator.scenario.training import Training

BARE = ("sharding", "schedule", "precision", "framework")
"""Fields whose values say by themselves what they are."""


def described(scenario: Scenario) -> str:
    """Name model and chips, then what of plan and training is not at its default, or matters at any value."""
    cluster, plan = scenario.cluster, scenario.plan
    nodes = f" in {cluster.nodes} nodes" if cluster.nodes > 1 else ""
    where = f"{cluster.chips:,} × {cluster.chip.label or cluster.chip.name or 'chip'}{nodes}"
    said = _said(plan, ("dp", "sharding", "micro_batch") if plan.dp > 1 else ("micro_batch",))
    said += _said(scenario.training, ("precision",))
    return f"{scenario.model.name or scenario.model.network} on {where}, {', '.join(said)}"


def _said(part: Plan | Training, always: tuple[str, ...]) -> list[str]:
    found = []
    for field in fields(part):
        value = getattr(part, field.name)
        if value == field.default and field.name not in always:
            continue
        if isinstance(value, bool):
            found.append(field.name if value else f"no {field.name}")
        else:
            found.append(str(value) if field.name in BARE else f"{field.name} {value}")
    return found
