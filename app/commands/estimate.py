"""``headroom estimate``: one prediction for people or as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app import tables
from app.commands.cpu import with_this_cpu
from app.commands.described import described
from app.commands.files import print_json, read_document, table, wrapped
from app.layer_csv import layer_csv, layer_frame
from estimator.estimate.estimate import Estimate
from estimator.estimate.estimate import estimate as predict
from estimator.estimate.layer_table import layer_table
from estimator.scenario.breakdown import SHOWN_MEMORY_KINDS, SHOWN_PHASES, Shown
from estimator.scenario.codec import encode
from estimator.scenario.huggingface.config import HfReading, read_hf
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import scenario_from_json, scenario_to_json
from estimator.scenario.units import bytes_text, engineering, seconds


def estimate(
    path: Path | None, as_json: bool, data: Path | None, hf: Path | None = None, table_to: Path | None = None
) -> int:
    """Predict the scenario of a file, its model from a config.json where ``hf`` names one, and print the prediction.

    ``table_to``: a file that the table of one layer is written to: Parquet or Excel by its suffix, else CSV.
    """
    as_frame = tables.needs_pandas(table_to) if table_to else False
    if path is None and hf is None:
        remedy = "Name a SCENARIO.json, or a model by --hf config.json."
        raise InputProblems([Problem(field="SCENARIO.json", message="is missing", remedy=remedy)])
    document = read_document(path) if path else _one_node()
    assumptions: tuple[str, ...] = ()
    if hf:
        reading = _model(hf)
        assumptions = reading.assumptions
        if path is None and reading.model.max_positions:
            document["training"]["seq_len"] = min(document["training"]["seq_len"], reading.model.max_positions)
        if isinstance(document, dict):
            name = reading.model.name or (hf.resolve().parent.name if hf.stem == "config" else hf.stem)
            document["model"] = encode(dataclasses.replace(reading.model, name=name))
    with_this_cpu(document, data)
    scenario = scenario_from_json(document)
    found = predict(scenario)
    if table_to and as_frame:
        tables.write_frame(table_to, layer_frame(layer_table(scenario)))
    elif table_to:
        write_text(table_to, layer_csv(layer_table(scenario)))
    found = dataclasses.replace(found, assumptions=(*found.assumptions, *assumptions))
    if as_json:
        print_json(encode(found) | {"scenario": scenario_to_json(scenario)})
    else:
        print("\n".join([*wrapped(f"scenario     {described(scenario)}", hanging=13), text(found)]))
    return 0


def _one_node() -> dict[str, Any]:
    """What is predicted for a model alone: one node of H200 under FSDP, which holds most models."""
    from app.api.catalog import FALLBACK_SCENARIO

    return {part: dict(values) for part, values in FALLBACK_SCENARIO.items() if part != "model"}


def _model(path: Path) -> HfReading:
    """Read a config.json; raise InputProblems that name the file and the key."""
    document = read_document(path)
    try:
        return read_hf(document)
    except InputProblems as error:
        raise InputProblems(
            [dataclasses.replace(problem, field=f"{path}: {problem.field}") for problem in error.problems]
        ) from None


def text(found: Estimate) -> str:
    """Write a prediction for a terminal."""
    low_s, high_s = found.interval_s
    memory = found.memory
    fits = "fits" if memory.fits else "DOES NOT FIT"
    lines = [
        f"step time    {seconds(found.step_time_s)}  ({seconds(low_s)} to {seconds(high_s)})",
        f"throughput   {engineering(found.tokens_per_s, 'tokens/s')}, "
        f"{engineering(found.tokens_per_s_per_chip, 'tokens/s')} per chip",
        f"utilisation  MFU {found.mfu:.1%}, HFU {found.hfu:.1%}",
        f"peak memory  {bytes_text(memory.peak_bytes)} of {bytes_text(memory.capacity_bytes)}: {fits}",
        *wrapped(f"limit        {found.limits}", hanging=13),
        "",
        _shares("phase", found.phases_s, SHOWN_PHASES, seconds),
        "",
        _shares("memory", memory.by_kind, SHOWN_MEMORY_KINDS, bytes_text),
    ]
    if found.problems:
        lines += ["", *(line for problem in found.problems for line in wrapped(f"problem: {problem}", hanging=2))]
    if found.assumptions:
        lines += ["", "assumed:", *(line for assumption in found.assumptions for line in wrapped(assumption, "  "))]
    return "\n".join(lines)


def _shares(title: str, values: dict[str, float], names: dict[str, Shown], write: Callable[[float], str]) -> str:
    total = sum(values.values()) or 1.0
    given = [(shown.label, values[name]) for name, shown in names.items() if values.get(name)]
    rows = [[label, write(value), f"{value / total:.1%}"] for label, value in given]
    return table([title, "", "share"], rows)


def write_text(path: Path, content: str) -> None:
    """Write a file; raise InputProblems that name it."""
    try:
        path.write_text(content, encoding="utf-8", newline="")
    except OSError as error:
        remedy = "Give a path that can be written."
        message = f"cannot be written: {error.strerror or error}"
        raise InputProblems([Problem(field=str(path), message=message, remedy=remedy)]) from None
