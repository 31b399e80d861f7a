"""Axis: one field of a scenario moved along its legal values, the others following so that the plan stays whole.

tp and pp keep the number of chips and let dp absorb the change; dp and the number of nodes change the cluster.
Works on the JSON form, so that catalogue names stay names.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from estimator.efficiency import Efficiencies
from estimator.estimate import Estimate, estimate
from estimator.plan import MODELLED, RECOMPUTES, SCHEDULES, SHARDINGS
from estimator.problems import InputProblems, Problem
from estimator.scenario import Scenario, scenario_from_json
from estimator.training import ATTENTIONS, FRAMEWORKS, PRECISIONS

CHOICES: dict[str, tuple[Any, ...]] = {
    "plan.sharding": SHARDINGS,
    "plan.recompute": RECOMPUTES,
    "plan.schedule": tuple(name for name in SCHEDULES if name in MODELLED["schedule"]),
    "plan.sequence_parallel": (False, True),
    "plan.overlap": (True, False),
    "training.precision": tuple(name for name in PRECISIONS if name != "fp8"),
    "training.attention": ATTENTIONS,
    "training.framework": FRAMEWORKS,
    "training.compile": (False, True),
    "training.optimizer": ("adamw", "sgd"),
}
MAX_DEGREE = 1024
MAX_MICRO_BATCH = 128
MAX_BATCH = 16_384
SEQUENCES = tuple(2**power for power in range(7, 18))
FIELDS = (
    "plan.dp",
    "plan.tp",
    "plan.pp",
    "plan.micro_batch",
    "training.seq_len",
    "training.global_batch",
    "cluster.nodes",
    *CHOICES,
)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One value of the field: the whole scenario there and its estimate, or the reasons why it is refused."""

    value: Any
    scenario: dict[str, Any]
    estimate: Estimate | None
    problems: tuple[Problem, ...]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """All values of one field, in order."""

    field: str
    points: tuple[Point, ...]


def axis(document: Mapping[str, Any], field: str, calibration: Efficiencies | None = None) -> Axis:
    """Estimate the scenario along ``field``; raise InputProblems where field or scenario cannot be read."""
    if field not in FIELDS:
        raise InputProblems(
            [Problem(field="field", message=f"{field!r} has no axis", remedy=f"One of: {', '.join(FIELDS)}.")]
        )
    scenario = scenario_from_json(document)
    points = [_point(document, scenario, field, value, calibration) for value in values(scenario, field)]
    return Axis(field=field, points=tuple(points))


def values(scenario: Scenario, field: str) -> tuple[Any, ...]:
    """List what a control for ``field`` should offer, the present value included."""
    if field in CHOICES:
        return CHOICES[field]
    plan, training, cluster = scenario.plan, scenario.training, scenario.cluster
    if field in ("plan.tp", "plan.pp"):
        present = plan.tp if field == "plan.tp" else plan.pp
        most = min(cluster.chips, MAX_DEGREE)
        return tuple(sorted({*_powers(most, present), *(n for n in (3, 6, 12, 24, 48) if cluster.chips % n == 0)}))
    if field == "plan.dp":
        return _powers(MAX_DEGREE, plan.dp)
    if field == "plan.micro_batch":
        local = training.global_batch // plan.dp
        return _powers(min(local, MAX_MICRO_BATCH), plan.micro_batch)
    if field == "training.seq_len":
        return tuple(sorted({*SEQUENCES, training.seq_len}))
    if field == "training.global_batch":
        least = plan.dp * plan.micro_batch
        steps = {least * 2**power for power in range(15) if least * 2**power <= MAX_BATCH}
        return tuple(sorted({*steps, training.global_batch}))
    return _powers(512, cluster.nodes)


def moved(document: Mapping[str, Any], scenario: Scenario, field: str, value: Any) -> dict[str, Any]:
    """Return the scenario's JSON with ``field`` at ``value`` and what must follow it changed too.

    Raises InputProblems where nothing can follow, e.g. a degree that does not divide the chips.
    """
    part, name = field.split(".")
    changed = copy.deepcopy(dict(document))
    plan = scenario.plan
    if part == "cluster":
        chips = value * scenario.cluster.chips_per_node
        _cluster(changed, chips_per_node=scenario.cluster.chips_per_node, nodes=value)
        _part(changed, "plan")["dp"] = _divided(field, chips, plan.tp * plan.pp * plan.cp)
        return changed
    _part(changed, part)[name] = value
    if field in ("plan.tp", "plan.pp"):
        others = value * (plan.pp if name == "tp" else plan.tp) * plan.cp
        _part(changed, "plan")["dp"] = _divided(field, scenario.cluster.chips, others)
    if field == "plan.dp":
        chips = value * plan.tp * plan.pp * plan.cp
        per_node = max(scenario.cluster.chip.chips_per_node, scenario.cluster.chips_per_node)
        if chips <= per_node:
            _cluster(changed, chips_per_node=chips, nodes=1)
        else:
            _cluster(changed, chips_per_node=per_node, nodes=_divided(field, chips, per_node))
    return changed


def _point(
    document: Mapping[str, Any], scenario: Scenario, field: str, value: Any, calibration: Efficiencies | None
) -> Point:
    try:
        changed = moved(document, scenario, field, value)
    except InputProblems as error:
        return Point(value=value, scenario=dict(document), estimate=None, problems=error.problems)
    try:
        found = estimate(scenario_from_json(changed), calibration)
    except InputProblems as error:
        return Point(value=value, scenario=changed, estimate=None, problems=error.problems)
    return Point(value=value, scenario=changed, estimate=found, problems=())


def _divided(field: str, chips: int, by: int) -> int:
    if chips % by:
        raise InputProblems(
            [
                Problem(
                    field=field,
                    message=f"{by} does not divide {chips} chips",
                    remedy="Choose a degree that divides the chips, or change the number of chips first.",
                )
            ]
        )
    return chips // by


def _powers(most: int, present: int) -> tuple[int, ...]:
    found = {1, present}
    power = 1
    while power <= most:
        found.add(power)
        power *= 2
    return tuple(sorted(found))


def _part(document: dict[str, Any], name: str) -> dict[str, Any]:
    part: dict[str, Any] = document.setdefault(name, {})
    return part


def _cluster(document: dict[str, Any], *, chips_per_node: int, nodes: int) -> None:
    cluster = document["cluster"]
    if isinstance(cluster, str):
        cluster = {"chip": cluster}
    document["cluster"] = {**cluster, "chips_per_node": chips_per_node, "nodes": nodes}
