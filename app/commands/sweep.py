"""``headroom sweep``: all plans for a model on a cluster, for people or as JSON."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.commands.calibration import read_calibrations
from app.commands.cpu import with_this_cpu
from app.commands.files import print_json, read_object, wrapped
from app.commands.plans import plans_text, written
from app.commands.risk import at_risk
from estimator.cost.efficiency import Calibrated
from estimator.scenario.codec import encode
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import cluster_from_json, training_from_json
from estimator.scenario.units import bytes_text, counted, engineering, seconds
from estimator.search.sweep import Found, Sweep
from estimator.search.sweep import sweep as search


def sweep(
    path: Path, as_json: bool, data: Path | None, wide: bool = False, calibration: Sequence[Path] | None = None
) -> int:
    """Search the specification of a file and print the best plans and the Pareto front; ``wide``: all columns."""
    example = (
        '{"model": "llama3-8b", "cluster": {"chip": "h100-sxm"}, "training": {"seq_len": 4096, "global_batch": 64}}'
    )
    document = read_object(path, "a search", example)
    if "plan" in document:
        remedy = "Leave it out; fields that must stay as they are go into 'locked'."
        raise InputProblems([Problem(field="plan", message="is what a search finds", remedy=remedy)])
    with_this_cpu(document, data)
    calibrated = read_calibrations(calibration)
    found = search(document, calibrated)
    for words in found.assumptions:
        print(f"headroom: {path}: {words}", file=sys.stderr)
    if as_json:
        print_json(found)
    else:
        print(text(found, wide, document))
    if not found.best:
        print(f"headroom: {path}: {_nearest(document, calibrated)}", file=sys.stderr)
        return NOTHING_FITS
    return 0


NOTHING_FITS = 1
"""Exit code of a search that found no plan."""
_ANY_BYTES = 1e15
"""A chip's memory that every plan fits in."""


def _nearest(document: Mapping[str, Any], calibration: Calibrated | None) -> str:
    """What the plan that misses the limits by least would take: the fastest that fits, else the smallest."""
    limits = {name: value for name, value in document.get("limits", {}).items() if name != "max_step_time_s"}
    fitting = search({**document, "limits": limits, "objective": "step_time"}, calibration, interval=False)
    if fitting.best:
        return (
            f"the fastest plan that fits takes {seconds(fitting.best[0].step_time_s)} a step:{_plan(fitting.best[0])}"
        )
    cluster = cluster_from_json(document["cluster"])
    roomy = {**encode(cluster), "chip": encode(dataclasses.replace(cluster.chip, memory_bytes=_ANY_BYTES))}
    every = search({**document, "limits": {}, "cluster": roomy, "objective": "memory"}, calibration, interval=False)
    least = every.best[0]
    capacity = min(cluster.rank_chip.memory_bytes, limits.get("memory_bytes", cluster.rank_chip.memory_bytes))
    need = f"{bytes_text(least.peak_bytes)} of {bytes_text(capacity)}"
    return f"the plan of least memory needs {need} a chip:{_plan(least)}"


def _plan(found: Found) -> str:
    usual, given = written({}), written(found.scenario["plan"])
    return "".join(f" {name}={value}" for name, value in given.items() if value != usual[name])


def text(found: Sweep, wide: bool, given: Mapping[str, Any]) -> str:
    """Write the search of a specification for a terminal."""
    tried = f"{counted(found.plans_tried, 'plan')} tried in {seconds(found.seconds)}"
    lines = [f"{tried} ({engineering(found.plans_per_s, 'plans/s')}), {found.plans_fitting} fit"]
    if not found.best:
        return "\n".join([*lines, _nothing(given)])
    lines += wrapped(_assumed(given["training"]), hanging=2)
    first = f"; the first fits{risk}" if (risk := at_risk(found.best[0].out_of_memory_frac)) else ""
    lines += ["", f"best by {found.objective}{first}:", plans_text(found.best, wide)]
    lines += ["", f"{_front(found)}:", plans_text(found.pareto, wide)]
    return "\n".join(lines)


def _nothing(given: Mapping[str, Any]) -> str:
    write = {"memory_bytes": bytes_text, "max_step_time_s": seconds}
    within = " and ".join(f"limits.{name} = {write[name](value)}" for name, value in given.get("limits", {}).items())
    asked = "offload" in given.get("search", {}) or "offload" in given.get("locked", {})
    can = not asked and cluster_from_json(given["cluster"]).chip.host_bytes_per_s
    offload = ', or try plans that keep state in the host\'s memory: "search": {"offload": "all"}' if can else ""
    return f"No plan fits within {within or 'the memory of the chips'}: allow more, or take more chips{offload}."


def _assumed(given: Mapping[str, Any]) -> str:
    values = dataclasses.asdict(training_from_json(given))
    said = ", ".join(f"{name} {str(value).lower()}" for name, value in values.items() if name not in given)
    return f"training, where the file leaves it out: {said}" if said else ""


def _front(found: Sweep) -> str:
    chips = round(found.pareto[0].cost_chip_s / found.pareto[0].step_time_s)
    return f"none is better in both time and memory (cost follows time: {counted(chips, 'chip')})"
