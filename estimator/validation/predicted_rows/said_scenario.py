"""Said scenario: which one the log of a run, or a table of the steps of one, says that it is of, on a chip."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from estimator.scenario import catalog
from estimator.scenario.framework import FRAMEWORKS
from estimator.scenario.hardware import Chip
from estimator.scenario.measurement import (
    BATCH_GUESSED,
    FIELD_DERIVED,
    FIELD_GUESSED,
    PARAMETERS,
    Measurement,
    Warning,
    scenario_run,
)
from estimator.scenario.plan import AXES
from estimator.scenario.problems import InputProblems
from estimator.scenario.proposal.proposal import NO_CPU, Proposal
from estimator.scenario.proposal.proposed import Proposed, guess, sure
from estimator.scenario.scenario import Scenario, scenario_from_json, scenario_to_json
from estimator.scenario.units import counted
from estimator.validation.at_a_time import AS_MANY_AS_FIT, sizes_at_a_time
from estimator.validation.predicted_rows.device import TableDevice, chip_of
from estimator.validation.predicted_rows.steps import estimated
from estimator.validation.predicted_rows.text_steps import (
    BATCHES,
    first_fitting,
    rates,
    scenario_of_text_row,
    usual_precision,
    usual_sharding,
)

UNSAID = "settings-unsaid"
"""Code of the warning that names what a log leaves out."""
TABLE = "text/step-times"
OF_NO_TRAINER = ("log/JSON lines", "log/columns", "log/loop", "tensorboard")
"""Logs of whoever wrote the loop: what they leave out of a plan is not known, as it is of a trainer's own defaults."""


def said_scenario(measurement: Measurement, chip: str | Chip = "") -> Proposal | None:
    """Propose the scenario that a log or a table of one run names; None where its file says nothing of the kind.

    ``chip``: what it ran on, where somebody says so; else what the file names, else its likeliest candidate.
    """
    form = measurement.origin.format
    of_table = form == TABLE and bool(measurement.steps_s)
    unsaid = next((one.message for one in measurement.warnings if one.code == UNSAID), "")
    if not of_table and not (measurement.scenario and "cluster" not in measurement.scenario) and not unsaid:
        return None
    likely: list[dict[str, str]] = measurement.device.get("candidates") or []
    named = chip or chip_of(measurement) or (likely[0]["chip"] if likely else "")
    why = next((one["why"] for one in likely if one["chip"] == named), "")
    lacking = [] if of_table else _lacking(measurement.scenario)
    guessed = _guessed(measurement)
    named_only = isinstance(measurement.scenario.get("model"), str)  # sizes that were read are in no list to choose of
    doubtful = ("model", "global_batch") if named_only else ("global_batch",)
    doubted = [name for name in doubtful if WHERE[name] in guessed and name not in lacking]
    asked = [] if of_table else [*lacking, *_uncounted(measurement), *doubted]
    parameters = parameters_said(measurement)
    if lacking or not named:
        unnamed = [] if named else ["chip"]
        reason = unsaid or _unsaid([WORDS[name] for name in [*lacking, *unnamed]])
        fields = {} if of_table else _read(measurement, asked, guessed)
        if named and fields:
            label = TableDevice(chip=named, ranks=1).label
            fields["cluster.chip"] = sure(label, why or "named") if len(likely) < 2 else guess(label, why)
        return Proposal(fields=fields, reason=f"{reason}.", asked=(*asked, *unnamed), parameters=parameters)
    if named == catalog.THIS_CPU and catalog.known("chips", named) is None:
        fields = _read(measurement, asked, guessed)
        return Proposal(fields=fields, reason=NO_CPU, asked=(*asked, "chip"), parameters=parameters)
    thrift: dict[str, str] = {}
    try:
        place = TableDevice(chip=named, ranks=max(1, measurement.world_size))
        if of_table:
            scenario, said = scenario_of_text_row(measurement.rows[0], place), _of_row(measurement.rows[0])
        else:
            scenario, said, thrift = _fitting(measurement, place)
    except InputProblems as error:
        if unsaid:
            return Proposal(reason=f"{unsaid}.")
        problems = "; ".join(f"{one.field} {one.message}" for one in error.problems[:3])
        fields = {} if of_table else _read(measurement, asked, guessed)
        return Proposal(fields=fields, reason=f"What it says is no whole scenario: {problems}.")
    on = sure(place.label, why or "named") if chip or not likely or len(likely) == 1 else guess(place.label, why)
    notes = tuple(f"Assumed: {words}." for words in place.assumed)
    found = scenario_to_json(scenario)
    doubts = {path: why for path, why in guessed.items() if path in said} | thrift
    fields = _doubted(_fields(scenario, said, on), doubts)
    return Proposal(
        scenario=found,
        fields=_with_ranks(_derived(fields, measurement), asked),
        whole=True,
        notes=notes,
        asked=tuple(asked),
        parameters=parameters,
    )


WHERE = {
    "model": "model.name",
    "seq_len": "training.seq_len",
    "global_batch": "training.global_batch",
    "gpus": "plan.dp",
}
"""Which field of a proposal each of ``ASKABLE`` answers, but the chip."""
WORDS = {"model": "model", "global_batch": "global batch", "seq_len": "sequence length", "chip": "GPU"}


def _lacking(said: Mapping[str, Any]) -> list[str]:
    """What a log leaves out that nothing can be assumed for."""
    training = said.get("training") or {}
    lacking = [] if said.get("model") else ["model"]
    return [*lacking, *(name for name in ("global_batch", "seq_len") if not training.get(name))]


def _uncounted(measurement: Measurement) -> list[str]:
    """``gpus`` where a log does not say how many; one is assumed."""
    plan = measurement.scenario.get("plan") or {}
    told = measurement.world_size > 1 or any(plan.get(axis) for axis in AXES)
    return [] if told else ["gpus"]


def _guessed(measurement: Measurement) -> dict[str, str]:
    """Fields that a log's reader guessed, with why: a batch that may be of each GPU or of all, a trainer's defaults."""
    return {path: one.message for one in measurement.warnings if (path := _guessed_at(one))}


def _guessed_at(warning: Warning) -> str:
    if warning.code == FIELD_GUESSED:
        return warning.where
    return WHERE["global_batch"] if warning.code == BATCH_GUESSED else ""


def _doubted(fields: Mapping[str, Proposed], guessed: Mapping[str, str]) -> dict[str, Proposed]:
    """The fields, those that are guessed as guesses."""
    return {path: guess(one.value, guessed[path]) if path in guessed else one for path, one in fields.items()}


def _derived(fields: Mapping[str, Proposed], measurement: Measurement) -> dict[str, Proposed]:
    """The fields, those that a reader derived of other figures of its file with of which."""
    of = {one.where: one.message for one in measurement.warnings if one.code == FIELD_DERIVED}
    return {path: sure(one.value, of[path]) if path in of and one.sure else one for path, one in fields.items()}


ONE_RANK = "the file does not say how many GPUs, and one is assumed until somebody does"


def _with_ranks(fields: Mapping[str, Proposed], asked: Iterable[str]) -> dict[str, Proposed]:
    """The fields, with the one GPU that is assumed as the guess that it is where their number is asked for."""
    return dict(fields) | ({WHERE["gpus"]: guess(1, ONE_RANK)} if "gpus" in asked else {})


def parameters_said(measurement: Measurement) -> int:
    """Parameters as a log counts them, 0 where it does not."""
    said = measurement.samples.get(PARAMETERS)
    return said if isinstance(said, int) and not isinstance(said, bool) else 0


def _read(measurement: Measurement, asked: Iterable[str], guessed: Mapping[str, str]) -> dict[str, Proposed]:
    """What a file says of a scenario that is not whole, and what is guessed of it."""
    return _with_ranks(_derived(_doubted(_stated(measurement.scenario), guessed), measurement), asked)


def _stated(said: Mapping[str, Any]) -> dict[str, Proposed]:
    model = said.get("model")
    name = model if isinstance(model, str) else str((model or {}).get("name", ""))
    sized = "" if isinstance(model, str) or not model else _sizes(int(model["layers"]), model["hidden"])
    fields = {"model.name": _label_of(name) or sized} if model else {}
    for part in ("plan", "training"):
        fields |= {f"{part}.{field}": value for field, value in (said.get(part) or {}).items() if value != 1}
    return {
        path: sure(value, OF_SIZES if path == "model.name" and not name else "the file says so")
        for path, value in fields.items()
    }


OF_SIZES = "the file says its sizes, and no name"


def _sizes(layers: int, hidden: int) -> str:
    """A model that has no name, by its layers and width."""
    return f"{counted(layers, 'layer')} of width {hidden}"


def answered(measurement: Measurement, answers: Mapping[str, Any]) -> Measurement:
    """The measurement as its file would have it, had it said what somebody answers (``ASKABLE``, but its chip)."""
    said = measurement.device.get(READ) or ({} if "cluster" in measurement.scenario else measurement.scenario)
    plan, training = dict(said.get("plan") or {}), dict(said.get("training") or {})
    settled = {WHERE[name] for name in answers if name in WHERE}
    if "global_batch" in answers and WHERE["global_batch"] in _guessed(measurement):
        plan.pop("micro_batch", None)  # which was that of each GPU under the other reading
    training |= {name: answers[name] for name in ("seq_len", "global_batch") if name in answers}
    world_size = int(answers.get("gpus", measurement.world_size))
    if "gpus" in answers:
        plan["dp"] = max(world_size // math.prod(plan.get(axis, 1) for axis in AXES if axis != "dp"), 1)
    model = answers.get("model", said.get("model"))
    scenario = {**({"model": model} if model else {}), "plan": plan, "training": training}
    warnings = tuple(
        one
        for one in measurement.warnings
        if one.code != UNSAID
        and _guessed_at(one) not in settled
        and not (one.code == FIELD_DERIVED and settled & {one.where, WHERE["global_batch"]})
    )
    return replace(measurement, scenario=scenario, world_size=world_size, warnings=warnings)


def _unsaid(lacking: list[str]) -> str:
    return f"The file does not say its {', '.join(lacking)}, which a prediction of its step needs"


def _fitting(measurement: Measurement, place: TableDevice) -> tuple[Scenario, set[str], dict[str, str]]:
    """The completed scenario, without those guesses of a plan that make it none; raise InputProblems."""
    try:
        return _completed(measurement, place)
    except InputProblems:
        kept = {
            part: {name: value for name, value in said.items() if f"{part}.{name}" not in _guessed(measurement)}
            if part == "plan"
            else said
            for part, said in measurement.scenario.items()
        }
        if kept == measurement.scenario:
            raise
        return _completed(replace(measurement, scenario=kept), place)


def _completed(measurement: Measurement, place: TableDevice) -> tuple[Scenario, set[str], dict[str, str]]:
    """The scenario of a log on a place, the fields that the log says, and those guessed of its having run, with why;
    raise InputProblems.

    What a loop of nobody's name leaves out is assumed as of a row of a table: states sharded, as many sequences at a
    time as fit, computed again in backward only where nothing else does. What a trainer's log leaves out is the
    trainer's default, unless its run would not have fitted.
    """
    given = measurement.scenario
    plan, training = dict(given.get("plan") or {}), dict(given.get("training") or {})
    said = {f"plan.{name}" for name in plan} | {f"training.{name}" for name in training} | {"model.name"}
    free = measurement.origin.format in OF_NO_TRAINER and not training.get("framework")
    if not training.get("precision"):
        training["precision"] = usual_precision(place.hardware)
        place.assume(f"precision {training['precision']}, usual on {place.label}")
    if free and "sharding" not in plan and plan.get("dp", 1) * plan.get("cp", 1) > 1:
        on_cpu = place.hardware.kind == "cpu"  # where ranks share one memory, and nobody shards states
        plan["sharding"] = "ddp" if on_cpu else usual_sharding(plan.get("pp", 1))
        place.assume(f"{plan['sharding']}, as it does not say how states are sharded")
    ranks = math.prod(plan.get(axis, 1) for axis in AXES)
    if ranks != place.ranks:
        plan["dp"] = max(place.ranks // max(ranks // plan.get("dp", 1), 1), 1)
    ways: list[dict[str, Any]] = [{}]
    batch = training.get("global_batch")
    if "micro_batch" not in plan and isinstance(batch, int):
        sizes = sizes_at_a_time(batch // plan.get("dp", 1), plan.get("pp", 1))
        again = ({}, {"recompute": "full"}) if free and "recompute" not in plan else ({},)
        ways = [{**how, "micro_batch": size} for how in again for size in sizes]
    model = given.get("model")
    found = [place.scenario(model, {**plan, **how}, training) for how in ways]
    fitting = first_fitting(found, place.calibration)
    thrift: dict[str, str] = {}
    if fitting is None and not free and measurement.steps_s and (thriftier := _thriftier(plan, training, place)):
        tried = [place.scenario(model, {**plan, **ways[-1], **how}, training) for how in thriftier]
        at = first_fitting(tried, place.calibration)
        how = thriftier[-1 if at is None else at]
        ways, found = [{**ways[-1], **how}], [tried[-1 if at is None else at]]
        if "sharding" in how:
            thrift["plan.sharding"] = "it ran, and plain data parallel would not have fitted"
            place.assume(f"{how['sharding']}, as {thrift['plan.sharding']}")
        if "recompute" in how:
            thrift["plan.recompute"] = "it ran, and would not have fitted with all kept"
    at = fitting or 0
    if len(found) > 1 and found[at].plan.micro_batch < found[0].plan.micro_batch:
        place.assume(AS_MANY_AS_FIT)
    if ways[at].get("recompute"):
        place.assume("each layer computed again in backward, as it would not fit else")
    return found[at], said, thrift


def _thriftier(plan: Mapping[str, Any], training: Mapping[str, Any], place: TableDevice) -> list[dict[str, Any]]:
    """What a log leaves open of a plan that would need less memory, the least last: sharded states, then recomputed."""
    if place.hardware.kind == "cpu":
        return []
    sharded: dict[str, Any] = {}
    if "sharding" not in plan and plan.get("dp", 1) * plan.get("cp", 1) > 1:
        recipes = FRAMEWORKS[training["framework"]].published.recipes if training.get("framework") else False
        sharded = {"sharding": "zero1" if recipes else usual_sharding(plan.get("pp", 1))}
    again = {**sharded, "recompute": "full"}
    return [*([sharded] if sharded else []), *([again] if "recompute" not in plan else [])]


_OF_TABLES = ("training.optimizer", "training.optimizer_kernel", "training.framework")
"""Shown where a column says it: what is usual of them says nothing."""
_COLUMNS = {"model": "model.name", "sharding": "plan.sharding", "strategy": "plan.sharding", "dp": "plan.dp",
            "gpus": "plan.dp", "world_size": "plan.dp", "nodes": "plan.dp", "tp": "plan.tp", "pp": "plan.pp",
            "cp": "plan.cp", "micro_batch": "plan.micro_batch", "recompute": "plan.recompute",
            "seq_len": "training.seq_len", "precision": "training.precision",
            **{name: f"training.{name}" for name in ("optimizer", "optimizer_kernel", "framework")},
            **dict.fromkeys(BATCHES, "training.global_batch")}  # fmt: skip


def _of_row(row: Mapping[str, Any]) -> set[str]:
    return {_COLUMNS[name] for name, value in row.items() if name in _COLUMNS and value is not None}


def scenario_of_log(measurement: Measurement, chip: str | Chip) -> Scenario | str:
    """Return the scenario of all rows of a log on ``chip``, else why there is none; raise InputProblems."""
    own = scenario_run(measurement)
    if "cluster" in own:
        scenario = scenario_from_json(own)
        asked = catalog.chip(chip) if isinstance(chip, str) and chip else chip
        if not asked or asked == scenario.cluster.chip:
            return scenario
        partial = measurement.device.get(READ) or {name: part for name, part in own.items() if name != "cluster"}
        measurement = replace(measurement, scenario=partial)
    found = said_scenario(measurement, chip)
    if found is None or found.scenario is None:
        return found.reason if found else "its file does not say of which model it is"
    return scenario_from_json(found.scenario)


READ = "read"
"""Of a device that somebody named: the scenario as the file says it, before it was completed for that device."""


def log_row(scenario: Scenario, place: TableDevice) -> dict[str, float]:
    """Predict what a log says of each step of one scenario."""
    one = estimated(scenario, place.calibration)
    return {
        **dict.fromkeys(("step_s", "mean_step_s"), one.step_time_s),
        **rates(scenario, one.step_time_s),
        "mfu_frac": one.mfu,
        "peak_bytes": one.memory.peak_bytes,
        "peak_memory_bytes": one.memory.peak_bytes,
        "reserved_bytes": one.memory.reserved_bytes,
    }


def _fields(scenario: Scenario, said: Iterable[str], chip: Proposed) -> dict[str, Proposed]:
    """What matters of a scenario, each with whether the file says it."""
    plan, training, stated = scenario.plan, scenario.training, set(said)
    shown = {
        "model.name": _label_of(scenario.model.name) or _sizes(scenario.model.layers, scenario.model.hidden),
        **{f"plan.{name}": getattr(plan, name) for name in (*AXES, "sharding", "micro_batch", "recompute")},
        **{f"training.{name}": getattr(training, name) for name in ("seq_len", "global_batch", "precision")},
        **{path: getattr(training, path.partition(".")[2]) for path in _OF_TABLES if path in stated},
    }
    fields = {
        path: sure(value, OF_SIZES if path == "model.name" and not scenario.model.name else "the file says so")
        if path in stated
        else guess(value, "the file does not say")
        for path, value in shown.items()
        if path in stated or value not in (1, "none")
    }
    return {**fields, "cluster.chip": chip}


def _label_of(name: str) -> str:
    """What people call a model: its label in the catalogue, whichever of its names is given; else the name."""
    entry = next((one for one in catalog.entries("models") if name in (one.key, *one.aliases)), None)
    return entry.label if entry else name
