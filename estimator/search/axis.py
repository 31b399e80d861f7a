"""Axis: one field of a scenario moved along its legal values, the others following so that the plan stays whole.

tp, cp and pp keep the number of chips and let dp absorb the change; dp and the number of nodes change the cluster; the
batch follows dp; fields that are impossible without one another move together (``estimator.search.coupled_fields``).
Works on the JSON form, so that catalogue names stay names. A scenario that is impossible has axes too: some of them
lead out of it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from estimator.cost.efficiency import Calibrated
from estimator.estimate.estimate import Estimate, estimate
from estimator.scenario.fitting import divisors
from estimator.scenario.grid_shape import grid_fits
from estimator.scenario.plan import AXES, PLACEMENTS, Plan
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import Scenario, scenario_as_given, scenario_from_json
from estimator.scenario.training import Training
from estimator.scenario.units import counted
from estimator.search.coupled_fields import batch_following, following
from estimator.search.space import MAX_EXPERT_TP, MAX_MICRO_BATCH, canonical

CHOICES: dict[str, tuple[Any, ...]] = {
    f"{part}.{field.name}": field.metadata["choices"] or (field.default, not field.default)
    for part, cls in (("plan", Plan), ("training", Training))
    for field in fields(cls)
    if field.metadata["choices"] or isinstance(field.default, bool)
}
"""Fields of plan and training that are chosen from a few values; their axes are all of these."""
MAX_DEGREE = 1024
MAX_BATCH = 16_384
MAX_CHUNKS = 32
BUCKETS_MIB = (1, 5, 10, 25, 50, 100, 250, 1000)
"""Sizes of DDP's buckets to choose from, about its usual 25."""
SEQUENCES = tuple(2**power for power in range(7, 18))
AXIS_FIELDS = (
    "plan.dp",
    "plan.tp",
    "plan.tp_depth",
    "plan.cp",
    "plan.pp",
    "plan.virtual_stages",
    "plan.ep",
    "plan.expert_tp",
    "plan.shard_ranks",
    "plan.recompute_every",
    "plan.bucket_bytes",
    "plan.micro_batch",
    "training.seq_len",
    "training.global_batch",
    "cluster.nodes",
    *CHOICES,
)
"""Fields that a slider or a choice of the page moves through all their values."""


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


def axis(document: Mapping[str, Any], field: str, calibration: Calibrated | None = None) -> Axis:
    """Estimate the scenario along ``field``; raise InputProblems where field or scenario cannot be read."""
    if field not in AXIS_FIELDS:
        raise InputProblems(
            [Problem(field="field", message=f"{field!r} has no axis", remedy=f"One of: {', '.join(AXIS_FIELDS)}.")]
        )
    scenario = scenario_as_given(document)
    points = [_point(document, scenario, field, value, calibration) for value in values(scenario, field)]
    return Axis(field=field, points=tuple(points))


def values(scenario: Scenario, field: str) -> tuple[Any, ...]:
    """List what a control for ``field`` should offer, the present value included."""
    plan, training, cluster = scenario.plan, scenario.training, scenario.cluster
    if field == "plan.placement":
        return _placements(scenario)
    if field in CHOICES:
        return CHOICES[field]
    if field in ("plan.tp", "plan.cp", "plan.pp"):
        present = getattr(plan, field.removeprefix("plan."))
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
    if field == "cluster.nodes":
        return _powers(512, cluster.nodes)
    return _special(scenario, field)


def _special(scenario: Scenario, field: str) -> tuple[int, ...]:
    """Values of fields that only some plans or models have a use for."""
    model, plan = scenario.model, scenario.plan
    if field == "plan.tp_depth":
        if plan.tp_kind != "2.5d":
            return (plan.tp_depth,)
        return tuple(sorted({plan.tp_depth, *(d for d in divisors(plan.tp) if grid_fits("2.5d", plan.tp, d))}))
    if field == "plan.virtual_stages":
        per_stage = max(model.layers // plan.pp, 1) if plan.pp > 1 else 1
        return tuple(sorted({1, plan.virtual_stages, *(n for n in divisors(per_stage) if n <= MAX_CHUNKS)}))
    if field == "plan.ep":
        return tuple(sorted({plan.ep, *divisors(max(model.experts, 1))}))
    if field == "plan.expert_tp":
        return _powers(min(plan.dp * plan.cp * plan.tp, MAX_EXPERT_TP) if model.experts else 1, plan.expert_tp)
    if field == "plan.shard_ranks":
        ranks = plan.dp * plan.cp
        return tuple(sorted({0, plan.shard_ranks, *(n for n in divisors(ranks)[1:-1] if n <= MAX_DEGREE)}))
    if field == "plan.bucket_bytes":
        return tuple(sorted({plan.bucket_bytes, *(n << 20 for n in BUCKETS_MIB)}))
    assert field == "plan.recompute_every", field
    return tuple(sorted({plan.recompute_every, *(n for n in divisors(model.layers) if n <= MAX_CHUNKS)}))


def _placements(scenario: Scenario) -> tuple[str, ...]:
    """Orders that differ for this plan, in which axes of degree 1 do not count; the present one stands for its like."""
    plan = scenario.plan
    degrees = {axis: getattr(plan, axis) for axis in AXES}
    found: dict[tuple[str, ...], str] = {}
    for order in (plan.placement, *(one for one in PLACEMENTS if canonical(one, degrees))):
        found.setdefault(tuple(axis for axis in order.split("-") if degrees[axis] > 1), order)
    return tuple(sorted(found.values(), key=PLACEMENTS.index))


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
        return _batched(changed, scenario)
    _part(changed, part)[name] = value
    if part == "plan":
        _part(changed, part).update(following(plan, name, value))
    if name in ("tp", "cp", "pp"):
        others = value * plan.tp * plan.cp * plan.pp // getattr(plan, name)
        _part(changed, "plan")["dp"] = _divided(field, scenario.cluster.chips, others)
    if field == "plan.dp" and value != plan.dp:
        chips = value * plan.tp * plan.pp * plan.cp
        per_node = max(scenario.cluster.chip.chips_per_node, scenario.cluster.chips_per_node)
        if chips <= per_node:
            _cluster(changed, chips_per_node=chips, nodes=1)
        else:
            _cluster(changed, chips_per_node=per_node, nodes=_divided(field, chips, per_node))
    return _batched(changed, scenario)


def _batched(changed: dict[str, Any], scenario: Scenario) -> dict[str, Any]:
    """Let the batch follow dp where that has changed."""
    dp = _part(changed, "plan").get("dp", scenario.plan.dp)
    if dp != scenario.plan.dp:
        for path, value in batch_following(replace(scenario.plan, dp=dp), scenario.training).items():
            part, name = path.split(".")
            _part(changed, part)[name] = value
    return changed


def _point(
    document: Mapping[str, Any], scenario: Scenario, field: str, value: Any, calibration: Calibrated | None
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
                    message=f"{by} does not divide {counted(chips, 'chip')}",
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
