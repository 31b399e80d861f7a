"""Compare: predictions and measurements brought to one summary, and their signed differences to a baseline.

A prediction and a measurement end in the same names (estimator.scenario.breakdown), so that comparing is subtraction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from estimator.estimate.difference import Cause, Spent, Told, causes, spent_of_measurement, spent_of_prediction
from estimator.scenario.breakdown import CATEGORIES, MEMORY_KINDS, PHASES, WORK_PHASES, Phase
from estimator.scenario.hardware import peak_flops_per_s
from estimator.scenario.measurement import Measurement, disturbance, fullest_peak_bytes, scenario_run, step_time_s
from estimator.scenario.parameters import model_flops_per_token
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import Scenario, scenario_from_json, scenario_to_json

if TYPE_CHECKING:
    from estimator.estimate.estimate import Estimate
    from estimator.estimate.expected import Expected


@dataclass(frozen=True, kw_only=True)
class ComparedMemory:
    """Peaks of an item, and what the peak holds where its kinds are known."""

    peak_bytes: float | None = None
    reserved_bytes: float | None = None
    capacity_bytes: float | None = None
    by_kind: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Item:
    """What is comparable of one prediction or measurement; None and missing names mean not known.

    ``disturbance``: slowest over fastest step where something else disturbed them, else 0; no time is subtracted then.
    ``subject``: "" where its scenario is known, else the measurement that it is of: what a program of unknown scenario
    did differs from a scenario's prediction by nothing that means anything, but from its own prediction it does, and
    from another such program, as the same one traced and measured are.
    ``spent``: what the step's categories take, communication by axis, and the work behind it.
    """

    label: str
    kind: str
    step_time_s: float | None = None
    tokens_per_s: float | None = None
    mfu: float | None = None
    phases_s: dict[str, float] = field(default_factory=dict)
    breakdown_s: dict[str, float] = field(default_factory=dict)
    memory: ComparedMemory = ComparedMemory()
    status: str = "ok"
    scenario: dict[str, Any] = field(default_factory=dict)
    host_wait_by_phase_s: dict[str, float] = field(default_factory=dict)
    exposed_by_phase_s: dict[str, float] = field(default_factory=dict)
    disturbance: float = 0.0
    subject: str = ""
    spent: tuple[Spent, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Delta:
    """Item minus baseline; fractions are item / baseline - 1; only what both know, and nothing across subjects.

    ``causes`` add to ``step_time_s``.
    """

    step_time_s: float | None
    step_time_frac: float | None
    tokens_per_s_frac: float | None
    phases_s: dict[str, float]
    breakdown_s: dict[str, float]
    peak_bytes_frac: float | None
    memory_bytes: dict[str, float]
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One field of the scenarios that is not the same for all items; None where an item does not say."""

    field: str
    values: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Items, their deltas to the baseline (the baseline's own are zero) and what their scenarios differ in."""

    items: tuple[Item, ...]
    baseline: int
    deltas: tuple[Delta, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()


def of_estimate(estimate: Estimate, scenario: Scenario, label: str) -> Item:
    """Summarise a prediction."""
    memory = estimate.memory
    return Item(
        label=label,
        kind="predicted",
        step_time_s=estimate.step_time_s,
        tokens_per_s=estimate.tokens_per_s,
        mfu=estimate.mfu,
        phases_s=dict(estimate.phases_s),
        breakdown_s=dict(estimate.breakdown_s),
        memory=ComparedMemory(
            peak_bytes=memory.peak_bytes,
            reserved_bytes=memory.reserved_bytes,
            capacity_bytes=memory.capacity_bytes,
            by_kind=dict(memory.by_kind),
        ),
        scenario=scenario_to_json(scenario),
        host_wait_by_phase_s=dict(estimate.host_wait_by_phase_s),
        exposed_by_phase_s=exposed_by_phase_s(estimate),
        spent=spent_of_prediction(estimate.breakdown_s, estimate.ops, estimate.collectives),
    )


def of_expected(found: Expected, measurement: Measurement, label: str) -> Item:
    """Summarise what a profile's own ops should take."""
    own = found.estimate
    return Item(
        label=label,
        kind="predicted",
        step_time_s=own.step_time_s,
        tokens_per_s=own.tokens_per_s or None,
        mfu=own.mfu or None,
        phases_s=dict(own.phases_s),
        breakdown_s=dict(own.breakdown_s),
        memory=ComparedMemory(peak_bytes=own.memory.peak_bytes or None, capacity_bytes=own.memory.capacity_bytes),
        scenario=dict(measurement.scenario),
        host_wait_by_phase_s=dict(own.host_wait_by_phase_s),
        exposed_by_phase_s=exposed_by_phase_s(own),
        subject="" if measurement.scenario else measurement.id,
        spent=spent_of_prediction(own.breakdown_s, own.ops, own.collectives),
    )


def of_measurement(measurement: Measurement) -> Item:
    """Summarise a measurement; its step time is that of its steps, its MFU needs a complete scenario.

    MFU = F·tokens / (step time · chips · peak), F the model FLOPs of a token
    (estimator.scenario.parameters.model_flops_per_token).
    """
    step_s = step_time_s(measurement.steps_s)
    capacity_bytes = measurement.device.get("memory_bytes")
    peak_bytes = fullest_peak_bytes(measurement)
    of_fullest = peak_bytes == measurement.memory.peak_bytes  # kinds are of the rank that wrote the result
    scenario = scenario_run(measurement)
    tokens_per_s = mfu = None
    try:
        complete = scenario_from_json(scenario)
    except InputProblems:
        complete = None
    if complete is not None:
        scenario = scenario_to_json(complete)
        capacity_bytes = capacity_bytes or complete.cluster.rank_chip.memory_bytes
        if step_s:
            tokens_per_s = complete.tokens / step_s
            flops = model_flops_per_token(complete.model, complete.training.seq_len)
            peak = peak_flops_per_s(complete.cluster.rank_chip, complete.training.precision)
            mfu = flops * tokens_per_s / (complete.cluster.chips * peak)
    return Item(
        label=measurement.label or measurement.id,
        kind="measured",
        disturbance=disturbance(measurement.steps_s),
        step_time_s=step_s,
        tokens_per_s=tokens_per_s,
        mfu=mfu,
        phases_s=dict(measurement.phases_s),
        breakdown_s=dict(measurement.breakdown_s),
        memory=ComparedMemory(
            peak_bytes=peak_bytes,
            reserved_bytes=measurement.memory.reserved_bytes if of_fullest else None,
            capacity_bytes=capacity_bytes if isinstance(capacity_bytes, (int, float)) else None,
            by_kind=dict(measurement.memory.by_kind) if of_fullest else {},
        ),
        status=measurement.status,
        scenario=dict(scenario),
        subject="" if scenario else measurement.id,
        spent=spent_of_measurement(measurement),
    )


def compare(items: Sequence[Item], baseline: int = 0) -> Comparison:
    """Subtract the baseline from every item, like from like."""
    assert 0 <= baseline < len(items), "the baseline must be one of the items"
    notes: list[str] = []
    timed = [item.phases_s for item in items if item.kind == "measured" and item.phases_s]
    # A timer around a phase counts into it what the device waits for; a prediction must then do the same
    if any(not phases_s.get(Phase.HOST_WAIT) for phases_s in timed):
        items = _folded(items, fold_host_wait, "Waiting for the host", notes)
    # where communication is told apart, none of it may show
    if any(Phase.EXPOSED_COMMUNICATION not in phases_s for phases_s in timed):
        items = _folded(items, fold_exposed, "Communication that shows", notes)
    base = items[baseline]
    return Comparison(
        items=tuple(items),
        baseline=baseline,
        deltas=tuple(_delta(item, base) for item in items),
        differences=differences([item.scenario for item in items]),
        notes=tuple(notes),
    )


def _folded(items: Sequence[Item], fold: Callable[[Item], Item], what: str, notes: list[str]) -> Sequence[Item]:
    """Fold the predictions; say so where that changes any."""
    folded = [fold(item) if item.kind == "predicted" else item for item in items]
    if any(after is not before for after, before in zip(folded, items, strict=True)):
        notes.append(f"{what} is counted in the phase that waits, as the measurement has it.")
    return folded


def fold_host_wait(item: Item) -> Item:
    """Move host wait into the phases that wait; the sum of the phases stays."""
    phases_s = _moved(item.phases_s, Phase.HOST_WAIT, item.host_wait_by_phase_s)
    return item if phases_s is None else replace(item, phases_s=phases_s, host_wait_by_phase_s={})


def fold_exposed(item: Item) -> Item:
    """Move what shows of communication into the phases that wait for it; the sum of the phases stays."""
    phases_s = _moved(item.phases_s, Phase.EXPOSED_COMMUNICATION, item.exposed_by_phase_s)
    return item if phases_s is None else replace(item, phases_s=phases_s, exposed_by_phase_s={})


def _moved(phases_s: Mapping[str, float], name: str, by_phase_s: Mapping[str, float]) -> dict[str, float] | None:
    """The phases with what ``name`` takes in those that wait; None where there is nothing to move."""
    waited_s = phases_s.get(name, 0.0)
    parts = {phase: by_phase_s.get(phase, 0.0) for phase in WORK_PHASES if phase in phases_s}
    if not waited_s or not any(parts.values()):
        return None
    moved_s = math.fsum(parts.values())
    share = min(1.0, waited_s / moved_s)
    moved = {phase: seconds + share * parts.get(phase, 0.0) for phase, seconds in phases_s.items()}
    moved[name] = max(0.0, waited_s - share * moved_s)
    return moved


def exposed_by_phase_s(estimate: Estimate) -> dict[str, float]:
    """What shows of communication by the phase that waits for it, s; the parts add to what shows of the step."""
    shown_s = estimate.phases_s.get(Phase.EXPOSED_COMMUNICATION, 0.0)
    # of an op list the queue shows communication, not its collectives: each shows its share
    told = math.fsum(one.exposed_s for one in estimate.collectives) > 0
    weights: dict[str, float] = {}
    for one in estimate.collectives:
        weights[one.phase] = weights.get(one.phase, 0.0) + (one.exposed_s if told else one.seconds)
    whole = math.fsum(weights.values())
    return {phase: shown_s * weight / whole for phase, weight in weights.items()} if whole > 0 else {}


def differences(scenarios: Sequence[Mapping[str, Any]]) -> tuple[Difference, ...]:
    """List the flattened fields in which scenarios differ, in the order in which they first appear."""
    flat = [_flatten(scenario) for scenario in scenarios]
    names = dict.fromkeys(name for scenario in flat for name in scenario)
    found = []
    for name in names:
        values = tuple(scenario.get(name) for scenario in flat)
        if any(value != values[0] for value in values):
            found.append(Difference(field=name, values=values))
    return tuple(found)


def _flatten(value: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, item in value.items():
        name = f"{where}.{key}" if where else str(key)
        if isinstance(item, Mapping):
            flat |= _flatten(item, name)
        elif key != "label":
            flat[name] = item
    return flat


def comparable(item: Item, base: Item) -> bool:
    """Whether two items' difference means anything: both of known scenarios, both measured, or none of any scenario."""
    return bool(item.subject) == bool(base.subject) or item.kind == base.kind == "measured"


def _delta(item: Item, base: Item) -> Delta:
    timed = item is base or not (item.disturbance or base.disturbance)
    if not comparable(item, base):
        return Delta(
            step_time_s=None, step_time_frac=None, tokens_per_s_frac=None, phases_s={}, breakdown_s={},
            peak_bytes_frac=None, memory_bytes={},
        )  # fmt: skip
    return Delta(
        step_time_s=_minus(item.step_time_s, base.step_time_s) if timed else None,
        step_time_frac=_fraction(item.step_time_s, base.step_time_s) if timed else None,
        tokens_per_s_frac=_fraction(item.tokens_per_s, base.tokens_per_s) if timed else None,
        phases_s=_minus_by_name(item.phases_s, base.phases_s, PHASES) if timed else {},
        breakdown_s=_minus_by_name(item.breakdown_s, base.breakdown_s, CATEGORIES) if timed else {},
        peak_bytes_frac=_fraction(item.memory.peak_bytes, base.memory.peak_bytes),
        memory_bytes=_minus_by_name(item.memory.by_kind, base.memory.by_kind, MEMORY_KINDS),
        causes=causes(told(base), told(item)) if timed and item is not base else (),
    )


def told(item: Item) -> Told:
    """What an item says of its step."""
    return Told(step_time_s=item.step_time_s, spent=item.spent, phases_s=item.phases_s)


def _minus(value: float | None, base: float | None) -> float | None:
    return None if value is None or base is None else value - base


def _fraction(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base or not math.isfinite(value / base) else value / base - 1.0


def _minus_by_name(values: Mapping[str, float], base: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    return {name: values[name] - base[name] for name in names if name in values and name in base}
