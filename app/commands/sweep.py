"""``headroom sweep``: all plans for a model on a cluster, for people or as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.commands.calibration import read_calibrations
from app.commands.cpu import with_this_cpu
from app.commands.files import print_json, read_object, wrapped
from app.commands.plans import plans_text
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import cluster_from_json, training_from_json
from estimator.scenario.units import bytes_text, counted, engineering, seconds
from estimator.search.sweep import Sweep
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
    found = search(document, read_calibrations(calibration))
    if as_json:
        print_json(found)
    else:
        print(text(found, wide, document))
    return 0


def text(found: Sweep, wide: bool, given: Mapping[str, Any]) -> str:
    """Write the search of a specification for a terminal."""
    tried = f"{counted(found.plans_tried, 'plan')} tried in {seconds(found.seconds)}"
    lines = [f"{tried} ({engineering(found.plans_per_s, 'plans/s')}), {found.plans_fitting} fit"]
    if not found.best:
        return "\n".join([*lines, _nothing(given)])
    lines += wrapped(_assumed(given["training"]), hanging=2)
    lines += ["", f"best by {found.objective}:", plans_text(found.best, wide)]
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
