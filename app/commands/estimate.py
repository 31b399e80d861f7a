"""``headroom estimate``: one prediction for people or as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from app import tables
from app.commands.calibration import read_calibrations
from app.commands.cpu import with_this_cpu
from app.commands.described import described
from app.commands.files import print_json, read_document, table, wrapped
from app.commands.laying import option_of, read_laying
from app.commands.risk import at_risk
from app.config_names import EVERY_MODELS, config_name
from app.layer_csv import layer_csv, layer_frame
from estimator.cost.efficiency import Calibrated
from estimator.estimate.estimate import Estimate
from estimator.estimate.estimate import estimate as predict
from estimator.estimate.expected import of_a_cpu
from estimator.estimate.layer_table import layer_table
from estimator.estimate.layout.lay_out import Laying, estimate_laid_out
from estimator.estimate.of_op_list import cluster_for
from estimator.estimate.op_list_report import alike
from estimator.scenario import catalog
from estimator.scenario.breakdown import SHOWN_MEMORY_KINDS, SHOWN_PHASES, WORK_PHASES, Shown
from estimator.scenario.codec import encode
from estimator.scenario.huggingface.config import HfReading, read_hf
from estimator.scenario.op_list import from_json as op_list_from_json
from estimator.scenario.op_list import is_op_list
from estimator.scenario.op_rows import rows_are
from estimator.scenario.problems import InputProblems, Problem, fields_named
from estimator.scenario.scenario import scenario_from_json, scenario_to_json
from estimator.scenario.units import bytes_text, counted, engineering, seconds
from estimator.search.remedies import Remedies, remedies


def estimate(
    path: Path | None,
    as_json: bool,
    data: Path | None,
    hf: Path | None = None,
    table_to: Path | None = None,
    chip: str = "",
    calibration: Sequence[Path] | None = None,
    plan: Sequence[str] = (),
    split: Sequence[str] = (),
) -> int:
    """Predict the scenario or the op list of a file and print the prediction.

    ``hf``: a config.json that the model is taken from. ``table_to``: a file that the table of one layer is written to:
    Parquet or Excel by its suffix, else CSV. ``chip``: another one than an op list was made for. ``calibration``: a
    file of efficiencies. ``plan``: fields that an op list is laid out by, as in dp=8; ``split``: how its linears are.
    """
    as_frame = tables.needs_pandas(table_to) if table_to else False
    efficiencies = read_calibrations(calibration)
    if path is None and hf is None:
        remedy = "Name a SCENARIO.json, or a model by --hf config.json."
        raise InputProblems([Problem(field="SCENARIO.json", message="is missing", remedy=remedy)])
    document = read_document(path) if path else _one_node()
    if is_op_list(document):
        given = [name for name, value in (("--hf", hf), ("--table", table_to)) if value]
        if given:
            message, remedy = "is for scenarios; this is an op list", "Leave it out."
            raise InputProblems([Problem(field=name, message=message, remedy=remedy) for name in given])
        return _op_list(document, as_json, data, chip, efficiencies, read_laying(plan, split))
    for option, asked, field in (
        ("--chip", chip, "cluster.chip"),
        ("--plan", plan, "plan"),
        ("--split", split, "plan"),
    ):
        if asked:
            remedy = f"Leave it out, and say it in {field}."
            raise InputProblems([Problem(field=option, message="is for op lists; this is a scenario", remedy=remedy)])
    assumptions: tuple[str, ...] = ()
    if hf:
        reading = _reading(hf)
        assumptions = reading.assumptions
        if path is None and reading.model.max_positions:
            document["training"]["seq_len"] = min(document["training"]["seq_len"], reading.model.max_positions)
        if isinstance(document, dict):
            document["model"] = encode(reading.model)
    with_this_cpu(document, data)
    scenario = scenario_from_json(document)
    found = predict(scenario, efficiencies)
    if table_to and as_frame:
        tables.write_frame(table_to, layer_frame(layer_table(scenario)))
    elif table_to:
        write_text(table_to, layer_csv(layer_table(scenario)))
    found = dataclasses.replace(found, assumptions=(*found.assumptions, *assumptions))
    if as_json:
        print_json(encode(found) | {"scenario": scenario_to_json(scenario)})
    else:
        better = better_lines(found, remedies(scenario_to_json(scenario), efficiencies))
        print("\n".join([*wrapped(f"scenario     {described(scenario)}", hanging=13), text(found, better=better)]))
    return 0


def _op_list(
    document: Any, as_json: bool, data: Path | None, chip: str, efficiencies: Calibrated | None, laying: Laying
) -> int:  # fmt: skip
    found = op_list_from_json(document)
    doubt = with_this_cpu({"cluster": {"chip": chip or found.chip}}, data)
    with fields_named(option_of):
        cluster = cluster_for(found, chip)
        predicted = estimate_laid_out(found, laying, chip, efficiencies)
    cpu = of_a_cpu(found, chip, cluster.chip)
    predicted = dataclasses.replace(predicted, assumptions=(*cpu, *predicted.assumptions))
    if as_json:
        print_json(encode(predicted) | {"program": found.program, "chip": cluster.chip.name})
        return 0
    ranks = f"rank {found.rank} of {found.world_size}" if found.world_size > 1 else "one rank"
    if laying.moves:
        ranks = f"laid out over {counted(predicted.chips, 'rank')}"
    calls = counted(len(found.calls), "call")
    about = f"op list      {found.program} ({found.source}), {ranks} on {cluster.chip.label}, {calls}"
    lines = [*wrapped(about, hanging=13)]
    if found.loop_s and not laying.moves:
        measured_on = catalog.known("chips", found.chip) or cluster.chip
        says = f"; predicted {predicted.step_time_s / found.loop_s - 1:+.0%}"
        if measured_on != cluster.chip:  # what another chip takes is no error of the prediction
            says = f" on {measured_on.label}"
        elif doubt:
            says += "; it says nothing, as this CPU was busy when it was measured"
        lines += wrapped(f"measured     {seconds(found.loop_s)}{says}", hanging=13)
    print("\n".join([*lines, text(predicted, rows_are(found)), "", module_table(predicted)]))
    return 0


MOST_MODULES = 20
LEAST_WAITS_FRAC = 1e-6


def module_table(found: Estimate) -> str:
    """Write where a program's step goes: the same place of every layer added up, the longest first, then what waits."""
    sums: dict[str, list[float]] = {}
    for module in found.modules:
        columns = [*(module.phases_s[phase] for phase in WORK_PHASES), module.seconds, module.launches]
        kept = sums.setdefault(alike(module.path), [0.0] * len(columns))
        kept[:] = [old + new for old, new in zip(kept, columns, strict=True)]
    longest = sorted(sums.items(), key=lambda item: -item[1][-2])
    further = [columns for _, columns in longest[MOST_MODULES:]]
    if further:
        added = [sum(values) for values in zip(*further, strict=True)]
        longest = [*longest[:MOST_MODULES], (f"… and {counted(len(further), 'further module')}; --json has all", added)]
    step_s = found.step_time_s or 1.0
    rows = [
        [path, *(seconds(value) for value in columns[:-1]), f"{columns[-2] / step_s:.1%}", f"{columns[-1]:,.0f}"]
        for path, columns in longest
    ]
    waits_s = found.step_time_s - sum(columns[-2] for columns in sums.values())
    if waits_s > LEAST_WAITS_FRAC * step_s:
        rows.append(
            ["waits of the device", *("" for _ in WORK_PHASES), seconds(waits_s), f"{waits_s / step_s:.1%}", ""]
        )
    header = ["module", *(SHOWN_PHASES[phase].label for phase in WORK_PHASES), "all", "of the step", "kernels"]
    return table(header, rows)


def _one_node() -> dict[str, Any]:
    """What is predicted for a model alone: one node of H200 under FSDP, which holds most models."""
    from app.api.catalog import FALLBACK_SCENARIO

    return {part: dict(values) for part, values in FALLBACK_SCENARIO.items() if part != "model"}


def _reading(path: Path) -> HfReading:
    """Read a config.json, its model named; raise InputProblems that name the file and the key."""
    document = read_document(path)
    with fields_named(lambda key: f"{path}: {key}"):
        reading = read_hf(document)
    filename = path.name if path.name == EVERY_MODELS else path.stem
    name = reading.model.name or config_name(document, reading.model, filename)
    return dataclasses.replace(reading, model=dataclasses.replace(reading.model, name=name))


def better_lines(found: Estimate, known: Remedies) -> list[str]:
    """What would be faster on the same chips, or fit, the best first: what changes, and by how much."""
    if not known.best:
        return []
    said = []
    for one in known.best:
        changes = [f"{change.field.partition('.')[2]} {_shown(change.after)}" for change in one.changes]
        gained_s = one.step_time_s - found.step_time_s
        # what does not fit has no time to compare with
        by = f"{gained_s / found.step_time_s:+.0%}" if found.memory.fits else seconds(one.step_time_s)
        said.append(f"{', '.join(changes)} ({by.replace('-', '−')})")
    return wrapped(f"{'faster' if found.memory.fits else 'fits with':<13}{'; '.join(said)}", hanging=13)


def _shown(value: Any) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def text(found: Estimate, rows: str = "tokens", better: Sequence[str] = ()) -> str:
    """Write a prediction for a terminal; ``rows``: what its throughput counts; ``better``: what would be."""
    low_s, high_s = found.interval_s
    memory = found.memory
    fits = f"fits{at_risk(memory.out_of_memory_frac)}" if memory.fits else "DOES NOT FIT"
    lines = [f"step time    {seconds(found.step_time_s)}  ({seconds(low_s)} to {seconds(high_s)})"]
    if found.tokens_per_s:
        lines.append(
            f"throughput   {engineering(found.tokens_per_s, f'{rows}/s')}, "
            f"{engineering(found.tokens_per_s_per_chip, f'{rows}/s')} per chip"
        )
    skipped = "what attention masks or experts drop counts in MFU and is not computed"
    fewer = f" (lower, as {skipped})" if found.hfu < found.mfu else ""
    lines += wrapped(f"utilisation  MFU {found.mfu:.1%}, HFU {found.hfu:.1%}{fewer}", hanging=13)
    if memory.peak_bytes:
        held = f"{bytes_text(memory.peak_bytes)} of {bytes_text(memory.capacity_bytes)}"
        lines += wrapped(f"peak memory  {held}: {fits}", hanging=13)
    lines += wrapped(f"limit        {found.limits}", hanging=13)
    lines += better
    lines += ["", _shares("phase", found.phases_s, SHOWN_PHASES, seconds)]
    if memory.peak_bytes:
        lines += ["", _shares("memory", memory.by_kind, SHOWN_MEMORY_KINDS, bytes_text)]
    if found.problems:
        lines += ["", *(line for problem in found.problems for line in wrapped(f"problem: {problem}", hanging=2))]
    if found.assumptions:
        lines += ["", "assumed:", *(line for assumption in found.assumptions for line in wrapped(assumption, "  "))]
    return "\n".join(lines)


def _shares(title: str, values: dict[str, float], names: Mapping[str, Shown], write: Callable[[float], str]) -> str:
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
