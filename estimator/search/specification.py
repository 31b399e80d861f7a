"""Specification: what a request for a search may say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from estimator.codec import decode, unknown_key
from estimator.plan import Plan
from estimator.problems import InputProblems, Problem
from estimator.scenario import cluster_from_json, model_from_json, training_from_json
from estimator.search.further import further_problems

KEYS = ("model", "cluster", "training", "limits", "objective", "locked", "search")
LIMITS = ("memory_bytes", "max_step_time_s")
OBJECTIVES = ("step_time", "cost", "memory")
AXES = tuple(f.name for f in fields(Plan))


def checked(specification: object) -> Mapping[str, Any]:
    """Return a specification that can be searched; raise InputProblems that name every field that cannot be used."""
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
    problems += further_problems(specification.get("search", {}), locked)
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
