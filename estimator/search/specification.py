"""Specification: what a request for a search may say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from estimator.scenario.codec import decode, unknown_keys
from estimator.scenario.fitting import divisors
from estimator.scenario.hardware import Cluster
from estimator.scenario.plan import DDP_MODES, OFFLOADS, Plan
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import Scenario, cluster_from_json, model_from_json, training_from_json
from estimator.scenario.training import Training
from estimator.search.grid import AXES as GRID_AXES
from estimator.search.grid import MOST_AXES

KEYS = ("model", "cluster", "training", "limits", "objective", "locked", "search", "grid")
LIMITS = ("memory_bytes", "max_step_time_s")
OBJECTIVES = ("step_time", "cost", "memory")
AXES = tuple(f.name for f in fields(Plan))
MAX_CHIPS = 1_000_000
"""Several times the largest cluster that anybody has announced."""


def checked(specification: object) -> Mapping[str, Any]:
    """Return a specification that can be searched; raise InputProblems that name every field that cannot be used."""
    if not isinstance(specification, Mapping):
        raise InputProblems([Problem(field="(document)", message="must be a JSON object", remedy="Write {...}.")])
    problems = unknown_keys("", specification, KEYS)
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
    problems += further_problems(specification.get("search", {}), locked)
    problems += _grid_problems(specification.get("grid", []))
    limits = specification.get("limits", {})
    if isinstance(limits, Mapping):
        problems += [
            Problem(field=f"limits.{key}", message="must be a number above 0", remedy="Give a positive number.")
            for key, value in limits.items()
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0
        ]
    if specification.get("objective", "step_time") not in OBJECTIVES:
        message = f"{specification['objective']!r} is not known"
        problems.append(Problem(field="objective", message=message, remedy=f"One of: {', '.join(OBJECTIVES)}."))
    readers = {"model": model_from_json, "cluster": cluster_from_json, "training": training_from_json}
    for key, read in readers.items():
        if key in specification:
            try:
                part = read(specification[key])
            except InputProblems as error:
                problems += error.problems
            else:
                problems += _too_large(part) if isinstance(part, Cluster) else []
    if problems:
        raise InputProblems(problems)
    return specification


def _too_large(cluster: Cluster) -> list[Problem]:
    if cluster.chips <= MAX_CHIPS:
        return []
    per_node = cluster.chips_per_node
    message = f"{cluster.nodes} nodes of {per_node} are {cluster.chips} chips, and a search takes at most {MAX_CHIPS}"
    remedy = f"Give at most {MAX_CHIPS // per_node} nodes of {per_node}."
    return [Problem(field="cluster.nodes", message=message, remedy=remedy)]


def _grid_problems(axes: object) -> list[Problem]:
    if not isinstance(axes, (list, tuple)) or len(axes) > MOST_AXES or len(set(map(str, axes))) < len(axes):
        remedy = f'Give up to {MOST_AXES} different fields, as in ["tp", "pp"].'
        return [Problem(field="grid", message="must be a list of fields of a plan", remedy=remedy)]
    return _told_of_training(unknown_keys("grid", axes, GRID_AXES))


TRAINING = tuple(f.name for f in fields(Training))


def _told_of_training(problems: list[Problem]) -> list[Problem]:
    """The problems; keys that nobody knows because they are of the training say where they belong."""
    return [
        replace(
            one,
            message="is of the training, which a search leaves as it is",
            remedy=f"Give it as training.{name}, one value for each search.",
        )
        if (name := one.field.rpartition(".")[2]) in TRAINING
        else one
        for one in problems
    ]


def _checked_keys(specification: Mapping[str, Any], name: str, known: tuple[str, ...]) -> list[Problem]:
    value = specification.get(name, {})
    if not isinstance(value, Mapping):
        return [Problem(field=name, message="must be a JSON object", remedy=f"Keys: {', '.join(known)}.")]
    return _told_of_training(unknown_keys(name, value, known))


FURTHER_FIELDS = ("recompute_every", "offload", "ddp_mode", "overlap")
"""Fields of the plan that a search moves on request."""
ALL = "all"
MAX_VALUES = 64
MAX_EVERY = 32
"""Blocks per checkpoint, of all that divide the layers, that ``all`` tries at most, as the sliders of one plan do."""


def further_problems(requested: object, locked: object) -> list[Problem]:
    """List what is wrong with a request's ``search``, whatever the model and the chip."""
    if not isinstance(requested, Mapping):
        return [Problem(field="search", message="must be a JSON object", remedy=f"Keys: {', '.join(FURTHER_FIELDS)}.")]
    found = _told_of_training(unknown_keys("search", requested, FURTHER_FIELDS))
    for name in (name for name in FURTHER_FIELDS if name in requested):
        values = requested[name]
        if isinstance(locked, Mapping) and name in locked:
            found.append(_problem(name, "is locked as well", "Name it under locked, or under search."))
        if isinstance(values, (list, tuple)) and len(values) > MAX_VALUES:
            found.append(_problem(name, f"{len(values)} values", f"Give at most {MAX_VALUES}, or {ALL!r}."))
        elif values != ALL and (not isinstance(values, (list, tuple)) or not values):
            found.append(_problem(name, f"must be a list of values, or {ALL!r}", f"Write [...], or {ALL!r}."))
        elif values != ALL:
            for value in values:
                try:
                    decode(Plan, {name: value}, "search")
                except InputProblems as error:
                    found += error.problems
    return found


def further_values(requested: Mapping[str, Any], base: Scenario) -> dict[str, tuple[Any, ...]]:
    """Return the values to try for each field, its default first; raise InputProblems where none of them can be."""
    found = {
        name: legal_values(name, base) if values == ALL else tuple(dict.fromkeys(values))
        for name, values in requested.items()
    }
    problems = []
    layers, chip = base.model.layers, base.cluster.chip
    if max(found.get("recompute_every", (1,))) > layers:
        message = f"one checkpoint for {max(found['recompute_every'])} blocks of {layers}"
        problems.append(_problem("recompute_every", message, f"Give at most {layers}."))
    if not chip.host_bytes_per_s and set(found.get("offload", ())) - {"none"}:
        message = f"no bandwidth to host memory is known for {chip.label or chip.name}"
        problems.append(_problem("offload", message, "Leave it out, or give cluster.chip.host_bytes_per_s."))
    if problems:
        raise InputProblems(problems)
    default = Plan()
    return {
        name: tuple(sorted(values, key=lambda value, name=name: value != getattr(default, name)))  # type: ignore[misc]
        for name, values in found.items()
    }


def legal_values(name: str, base: Scenario) -> tuple[Any, ...]:
    """List what ``all`` stands for: what this model and this chip allow."""
    if name == "recompute_every":
        return tuple(every for every in divisors(base.model.layers) if every <= MAX_EVERY)
    if name == "offload":
        return OFFLOADS if base.cluster.chip.host_bytes_per_s else OFFLOADS[:1]
    return DDP_MODES if name == "ddp_mode" else (True, False)


def _problem(name: str, message: str, remedy: str) -> Problem:
    return Problem(field=f"search.{name}", message=message, remedy=remedy)
