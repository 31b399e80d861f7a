"""Remedies: the best plans and settings next to a scenario, each really estimated; what binds it, or what makes it fit.

Neighbours are every value of one field that leaves chips and work as they are, the vocabulary filled up to whole
tiles of a matrix unit, and the best plans of a search over degrees, micro-batch, sharding and recomputation, all else
as it is. Where none of them fits, what the problem of memory advises is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from estimator.cost.efficiency import Calibrated
from estimator.estimate.assemble import effective, efficiencies_of
from estimator.estimate.estimate import Estimate, Memory, estimate
from estimator.estimate.explain import made_to_fit
from estimator.operations.op import WHOLE, fetched_at_once, filled_up
from estimator.operations.optimizer import chooses_kernel
from estimator.scenario.breakdown import WAITING
from estimator.scenario.codec import encode
from estimator.scenario.model import Model
from estimator.scenario.plan import Plan
from estimator.scenario.precision import byte_widths
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import Scenario, scenario_as_given, scenario_from_json
from estimator.scenario.training import Training
from estimator.search.axis import moved, values
from estimator.search.sweep import sweep

REMEDY_FIELDS = (
    "plan.tp", "plan.cp", "plan.pp", "plan.virtual_stages", "plan.ep", "plan.micro_batch", "plan.sharding",
    "plan.recompute", "plan.schedule", "plan.sequence_parallel", "plan.overlap", "plan.ddp_mode",
    "training.precision", "training.attention", "training.framework", "training.optimizer_kernel",
)  # fmt: skip
"""Fields whose values change how fast the same work is on the same chips."""
ALLOWED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "training.precision": {"fp32": ("tf32", "fp16-amp", "bf16-amp"), "tf32": ("fp16-amp", "bf16-amp")},
    "training.framework": {"pytorch-eager": ("pytorch-compile",)},
    "training.optimizer_kernel": {
        "default": ("fused",),
        "foreach": ("fused",),
        "fused": (),
        "for-loop": ("foreach", "fused"),
    },
}
"""Values of fields that not everything may be changed to: other numerics, other software."""
LOCKED = ("cp", "cp_kind", "tp_kind", "tp_depth", "schedule", "placement", "ep", "expert_tp", "overlap", "ddp_mode")
"""What the search for neighbouring plans leaves as it is."""
LEAST_FRAC = 0.01
"""What gains less of the step is no remedy."""
ALIKE_FRAC = 0.01
"""Of plans whose times differ by less, the one with the fewest changes comes first."""
SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class FieldChange:
    """One field of the scenario that a remedy sets."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """A neighbouring scenario and what it is estimated to take; ``saves``: the category that loses most time."""

    changes: tuple[FieldChange, ...]
    scenario: dict[str, Any]
    step_time_s: float
    peak_bytes: float
    reserved_bytes: float
    tokens_per_s: float
    saves: str


@dataclass(frozen=True, kw_only=True)
class Remedies:
    """What binds a step, by how many bytes it does not fit (0: it does), and the remedies, best first.

    ``binds_s``: of the step; ``waits``: in which the device does nothing of its own.
    """

    binds: str
    binds_s: float
    waits: bool
    over_bytes: float
    tried: int
    best: tuple[Remedy, ...]


def remedies(document: Mapping[str, Any], calibration: Calibrated | None = None) -> Remedies:
    """Find what is faster than a scenario, or what fits where it does not; raise InputProblems where it is illegal."""
    scenario = scenario_from_json(document)
    own = estimate(scenario, calibration, interval=False, explained=False)
    fits = own.memory.fits
    found: list[tuple[Remedy, frozenset[str]]] = []
    tried = 0

    def look(candidates: Iterable[dict[str, Any]]) -> None:
        nonlocal tried
        for candidate in candidates:
            changes = changed(scenario, candidate)
            if not changes:
                continue
            tried += 1
            try:
                one = estimate(scenario_from_json(candidate), calibration, interval=False, explained=False)
            except InputProblems:
                continue
            if one.memory.fits and (not fits or one.step_time_s < own.step_time_s * (1 - LEAST_FRAC)):
                found.append((_remedy(candidate, changes, own, one), frozenset(change.field for change in changes)))

    look((*_next(document, scenario), *_filled_up(document, scenario), *_planned(document, scenario)))
    if not fits and not found:
        look(_advised(document, scenario, own.memory, calibration))
    return Remedies(
        binds=own.binds,
        binds_s=own.breakdown_s[own.binds],
        waits=own.binds in WAITING,
        over_bytes=max(own.memory.reserved_bytes - own.memory.capacity_bytes, 0.0),
        tried=tried,
        best=_chosen(found),
    )


def _chosen(found: list[tuple[Remedy, frozenset[str]]]) -> tuple[Remedy, ...]:
    """The best of each set of fields, so that three remedies are three ways; none that only adds to a better one."""
    ordered: list[tuple[Remedy, frozenset[str]]] = []
    for remedy, names in sorted(found, key=lambda one: one[0].step_time_s):
        place = len(ordered)
        for at, (other, _) in enumerate(ordered):
            alike = remedy.step_time_s < other.step_time_s * (1 + ALIKE_FRAC)
            if alike and len(remedy.changes) < len(other.changes):
                place = at
                break
        ordered.insert(place, (remedy, names))
    kept: list[tuple[Remedy, frozenset[str]]] = []
    for remedy, names in ordered:
        if all(names != other and not names > other for _, other in kept):
            kept.append((remedy, names))
    return tuple(remedy for remedy, _ in kept[:SHOWN])


def _next(document: Mapping[str, Any], scenario: Scenario) -> list[dict[str, Any]]:
    """Every value of one field that keeps chips and work."""
    found = []
    for field in REMEDY_FIELDS:
        part, name = field.split(".")
        if field == "training.optimizer_kernel" and not chooses_kernel(scenario.training):
            continue
        if field == "plan.sharding" and scenario.plan.dp * scenario.plan.cp == 1:
            continue  # nothing is divided there: its gain would be that of the numbers that it keeps
        now = getattr(getattr(scenario, part), name)
        allowed = ALLOWED[field].get(now, ()) if field in ALLOWED else None
        for value in values(scenario, field):
            if value == now or (allowed is not None and value not in allowed):
                continue
            try:
                candidate = moved(document, scenario, field, value)
                there = scenario_as_given(candidate)
            except InputProblems:
                continue
            if _work(there) == _work(scenario):
                found.append(candidate)
    return found


def _filled_up(document: Mapping[str, Any], scenario: Scenario) -> list[dict[str, Any]]:
    """The vocabulary with rows that nothing uses, where the head's products have rows at odd addresses."""
    model, width = scenario.model, byte_widths(scenario.training, scenario.plan).compute
    if not model.head or fetched_at_once(model.vocab, width) == WHOLE:
        return []
    return [{**document, "model": {**encode(model), "vocab": filled_up(model.vocab, scenario.plan.tp)}}]


def _work(scenario: Scenario) -> tuple[int, int, int]:
    return scenario.plan.chips, scenario.training.seq_len, scenario.training.global_batch


def _planned(document: Mapping[str, Any], scenario: Scenario) -> list[dict[str, Any]]:
    """The best plans of the search, those in front of a smaller memory too."""
    plan = scenario.plan
    locked = {name: getattr(plan, name) for name in LOCKED}
    asked = {key: document[key] for key in ("model", "cluster", "training")} | {"locked": locked}
    try:
        result = sweep(asked, interval=False)
    except InputProblems:
        return []
    return [one.scenario for one in (*result.best, *result.pareto)]


def _advised(
    document: Mapping[str, Any], scenario: Scenario, memory: Memory, calibration: Calibrated | None
) -> list[dict[str, Any]]:
    """What the problem of memory advises, as scenarios: several changes at once are no neighbour of a plan."""
    runs = effective(scenario)
    advised = made_to_fit(runs, efficiencies_of(runs, calibration), memory.reserved_bytes, memory.capacity_bytes)
    return [
        {
            **document,
            "plan": encode(there.plan),
            "training": encode(scenario.training if there.training == runs.training else there.training),
        }
        for there in advised
    ]


def changed(scenario: Scenario, candidate: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    """Fields of plan, training and model in which a candidate differs; dp only where nothing else says it."""
    there = scenario_as_given(candidate)
    found = [
        FieldChange(field=f"{part}.{one.name}", before=getattr(a, one.name), after=getattr(b, one.name))
        for part, cls, a, b in (
            ("plan", Plan, scenario.plan, there.plan),
            ("training", Training, scenario.training, there.training),
            ("model", Model, scenario.model, there.model),
        )
        for one in fields(cls)
        if getattr(a, one.name) != getattr(b, one.name)
    ]
    follows = any(one.field in ("plan.tp", "plan.cp", "plan.pp") for one in found)
    return tuple(one for one in found if not (follows and one.field == "plan.dp"))


def _remedy(candidate: dict[str, Any], changes: tuple[FieldChange, ...], own: Estimate, one: Estimate) -> Remedy:
    return Remedy(
        changes=changes,
        scenario=candidate,
        step_time_s=one.step_time_s,
        peak_bytes=one.memory.peak_bytes,
        reserved_bytes=one.memory.reserved_bytes,
        tokens_per_s=one.tokens_per_s,
        saves=max(own.breakdown_s, key=lambda name: own.breakdown_s[name] - one.breakdown_s[name]),
    )
