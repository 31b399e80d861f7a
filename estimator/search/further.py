"""Further: fields of a plan that a search moves only where its request names them under ``search``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator.codec import decode, unknown_key
from estimator.plan import DDP_MODES, OFFLOADS, Plan
from estimator.problems import InputProblems, Problem
from estimator.scenario import Scenario
from estimator.search.space import divisors

FIELDS = ("recompute_every", "offload", "ddp_mode", "overlap")
ALL = "all"
MAX_EVERY = 32
"""Blocks per checkpoint, of all that divide the layers, that ``all`` tries at most, as the sliders of one plan do."""


def further_problems(requested: object, locked: object) -> list[Problem]:
    """List what is wrong with a request's ``search``, whatever the model and the chip."""
    if not isinstance(requested, Mapping):
        return [Problem(field="search", message="must be a JSON object", remedy=f"Keys: {', '.join(FIELDS)}.")]
    found = [unknown_key("search", str(name), list(FIELDS)) for name in requested if name not in FIELDS]
    for name in (name for name in FIELDS if name in requested):
        values = requested[name]
        if isinstance(locked, Mapping) and name in locked:
            found.append(_problem(name, "is locked as well", "Name it under locked, or under search."))
        if values != ALL and (not isinstance(values, (list, tuple)) or not values):
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
