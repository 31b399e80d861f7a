"""Sweep: every legal plan for a model on a number of chips; the best, and the Pareto front of time, memory and cost."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from estimator.codec import decode, unknown_key
from estimator.efficiency import Efficiencies
from estimator.estimate import Estimate, estimate
from estimator.plan import RECOMPUTES, Plan
from estimator.problems import InputProblems, Problem
from estimator.scenario import cluster_from_json, model_from_json, scenario_from_json, training_from_json

KEYS = ("model", "cluster", "training", "limits", "objective", "locked")
LIMITS = ("memory_bytes", "max_step_time_s")
OBJECTIVES = ("step_time", "cost", "memory")
AXES = ("dp", "tp", "pp", "micro_batch", "sharding", "recompute", "schedule", "sequence_parallel")
SHARDINGS = ("ddp", "zero1", "fsdp")
MAX_MICRO_BATCH = 16
MAX_PLANS = 20_000
"""A search answers within about a minute; larger spaces must lock an axis."""
KEPT = 10


@dataclass(frozen=True, kw_only=True)
class Found:
    """One plan that fits, with what decides between plans; cost is chip-seconds per step."""

    scenario: dict[str, Any]
    step_time_s: float
    peak_bytes: float
    reserved_bytes: float
    cost_chip_s: float
    tokens_per_s: float
    mfu: float


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What a search found; ``best`` by the objective, ``pareto`` where none is better in every respect."""

    objective: str
    plans_tried: int
    plans_fitting: int
    plans_per_s: float
    seconds: float
    best: tuple[Found, ...]
    pareto: tuple[Found, ...]


def sweep(specification: object, calibration: Efficiencies | None = None) -> Sweep:
    """Try every legal plan; raise InputProblems naming the field of a bad specification.

    ``specification``: a scenario without plan, plus optional ``limits``, ``objective``, ``locked`` {axis: value}.
    """
    spec = _checked(specification)
    limits: Mapping[str, float] = spec.get("limits", {})
    objective: str = spec.get("objective", "step_time")
    base = {key: spec[key] for key in ("model", "cluster", "training")}
    start = time.perf_counter()
    found: list[Found] = []
    tried = 0
    capacity = float(limits.get("memory_bytes", float("inf")))
    slowest = float(limits.get("max_step_time_s", float("inf")))
    for plan in plans(base, spec.get("locked", {})):
        if tried >= MAX_PLANS:
            raise InputProblems(
                [
                    Problem(
                        field="locked",
                        message=f"more than {MAX_PLANS} plans to try",
                        remedy="Lock an axis, e.g. locked.tp, or choose a smaller cluster or global_batch.",
                    )
                ]
            )
        document = {**base, "plan": plan}
        try:
            result = estimate(scenario_from_json(document), calibration, interval=False)
        except InputProblems:
            continue
        tried += 1
        if result.memory.fits and result.memory.reserved_bytes <= capacity and result.step_time_s <= slowest:
            found.append(_found(document, result))
    seconds = time.perf_counter() - start
    found.sort(key=lambda item: _key(item, objective))
    return Sweep(
        objective=objective,
        plans_tried=tried,
        plans_fitting=len(found),
        plans_per_s=tried / seconds,
        seconds=seconds,
        best=tuple(found[:KEPT]),
        pareto=tuple(pareto(found)),
    )


def plans(base: Mapping[str, Any], locked: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the plans whose degrees multiply to the cluster's chips, within what is ``locked``."""
    chips = cluster_from_json(base["cluster"]).chips
    batch = training_from_json(base["training"]).global_batch

    def allowed(axis: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return (locked[axis],) if axis in locked else values

    for tp in allowed("tp", _divisors(chips)):
        for pp in allowed("pp", _divisors(chips // tp) if chips % tp == 0 else ()):
            if chips % (tp * pp):
                continue
            dp = chips // (tp * pp)
            if locked.get("dp", dp) != dp or batch % dp:
                continue
            sizes = tuple(size for size in _divisors(batch // dp) if size <= MAX_MICRO_BATCH)
            for micro_batch in allowed("micro_batch", sizes):
                for sharding in allowed("sharding", SHARDINGS if dp > 1 else ("ddp",)):
                    for recompute in allowed("recompute", RECOMPUTES):
                        for schedule in allowed("schedule", ("1f1b",)):
                            for split in allowed("sequence_parallel", (False, True) if tp > 1 else (False,)):
                                yield {
                                    "dp": dp,
                                    "tp": tp,
                                    "pp": pp,
                                    "micro_batch": micro_batch,
                                    "sharding": sharding,
                                    "recompute": recompute,
                                    "schedule": schedule,
                                    "sequence_parallel": split,
                                }


def pareto(found: list[Found]) -> list[Found]:
    """Keep what no other plan beats in time, memory and cost at once, fastest first."""
    front: list[Found] = []
    for item in sorted(found, key=lambda f: (f.step_time_s, f.peak_bytes, f.cost_chip_s)):
        if not any(
            other.step_time_s <= item.step_time_s
            and other.peak_bytes <= item.peak_bytes
            and other.cost_chip_s <= item.cost_chip_s
            for other in front
        ):
            front.append(item)
    return front


def _found(document: dict[str, Any], result: Estimate) -> Found:
    return Found(
        scenario=document,
        step_time_s=result.step_time_s,
        peak_bytes=result.memory.peak_bytes,
        reserved_bytes=result.memory.reserved_bytes,
        cost_chip_s=result.step_time_s * result.chips,
        tokens_per_s=result.tokens_per_s,
        mfu=result.mfu,
    )


def _key(item: Found, objective: str) -> float:
    return {"step_time": item.step_time_s, "cost": item.cost_chip_s, "memory": item.peak_bytes}[objective]


def _checked(specification: object) -> Mapping[str, Any]:
    if not isinstance(specification, Mapping):
        raise InputProblems([Problem(field="(document)", message="must be a JSON object", remedy="Write {...}.")])
    problems = [unknown_key("", str(key), list(KEYS)) for key in specification if key not in KEYS]
    problems += [
        Problem(field=key, message="is missing", remedy=f"Add {key!r}.")
        for key in ("model", "cluster", "training")
        if key not in specification
    ]
    problems += _checked_keys(specification, "limits", LIMITS)
    problems += _checked_keys(specification, "locked", AXES)
    locked = specification.get("locked", {})
    if isinstance(locked, Mapping):
        try:
            decode(Plan, {key: value for key, value in locked.items() if key in AXES}, "locked")
        except InputProblems as error:
            problems += error.problems
    limits = specification.get("limits", {})
    if isinstance(limits, Mapping):
        problems += [
            Problem(field=f"limits.{key}", message="must be a number above 0", remedy="Give a positive number.")
            for key, value in limits.items()
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0
        ]
    if specification.get("objective", "step_time") not in OBJECTIVES:
        problems.append(Problem(field="objective", message="is not known", remedy=f"One of: {', '.join(OBJECTIVES)}."))
    readers = {"model": model_from_json, "cluster": cluster_from_json, "training": training_from_json}
    for key, read in readers.items():
        if key in specification:
            try:
                read(specification[key])
            except InputProblems as error:
                problems += error.problems
    if problems:
        raise InputProblems(problems)
    return specification


def _checked_keys(specification: Mapping[str, Any], name: str, known: tuple[str, ...]) -> list[Problem]:
    value = specification.get(name, {})
    if not isinstance(value, Mapping):
        return [Problem(field=name, message="must be a JSON object", remedy=f"Keys: {', '.join(known)}.")]
    return [unknown_key(name, str(key), list(known)) for key in value if key not in known]


def _divisors(value: int) -> tuple[int, ...]:
    small = [n for n in range(1, math.isqrt(value) + 1) if value % n == 0]
    return tuple(sorted({*small, *(value // n for n in small)}))
