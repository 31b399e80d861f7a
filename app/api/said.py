"""Said: what people say of an uploaded measurement: its scenario, what it ran on, what its file leaves out."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.body import json_response, read_json
from app.api.documented import JSON_BODY, Body, documented
from app.api.given import ANSWERS, SCENARIO, GivenAnswers, GivenScenario
from app.api.measurements import Beside, found_measurement, whole
from app.context import Context, Ctx
from app.errors import Refused
from estimator.scenario import catalog
from estimator.scenario.codec import encode
from estimator.scenario.hardware import Chip, chips_of_a_node
from estimator.scenario.measurement import Measurement
from estimator.scenario.problems import InputProblems, Problem, refusal
from estimator.scenario.proposal.proposal import ASKABLE
from estimator.scenario.scenario import chip_from_json, model_from_json, scenario_from_json, scenario_to_json
from estimator.validation.predicted_rows.device import chip_named, chips_said
from estimator.validation.predicted_rows.said_scenario import READ, answered, said_scenario
from estimator.validation.spellings import gpu_of_row

router = APIRouter()

CHIP_REMEDY = 'Give {"chip": "h100-sxm"} or a chip\'s fields, and the name in the table that it is of, if it is of one.'


class GivenDevice(TypedDict):
    """What a measurement ran on: a chip of the catalogue by name, or one's own.

    ``name``: only what the rows of its table call by this name, as in a column ``gpu``; "" for ``chip`` takes back
    what was said of it.
    """

    chip: str | Chip
    name: NotRequired[str]


@router.put("/api/measurements/{measurement_id}/scenario")
@documented({200: (Measurement, Beside)}, *JSON_BODY, 404, body=Body(type=GivenScenario, example=SCENARIO))
async def put_scenario(measurement_id: str, request: Request, context: Ctx, calibration: str = "") -> Response:
    """Say which scenario an uploaded measurement is of → the measurement beside its prediction."""
    document = await read_json(request, context.settings.json_limit_bytes)
    return json_response(await asyncio.to_thread(_said, measurement_id, document, context, calibration))


def _said(measurement_id: str, document: Any, context: Context, calibration: str) -> dict[str, Any]:
    context.cpu.refuse_unprobed(document)
    scenario = scenario_from_json(document)
    said: dict[str, Any] = {"scenario": scenario_to_json(scenario)}
    before = context.store.measurement(measurement_id)
    if before is not None and "candidates" in before.device and not before.device.get("name"):
        said["device"] = before.device | _as_name(scenario.cluster.chip)  # which answers what it ran on as well
    return _put(measurement_id, context, calibration, **said)


def _put(measurement_id: str, context: Context, calibration: str, **said: Mapping[str, Any] | int) -> dict[str, Any]:
    """Store what was said → the measurement beside its prediction."""
    measurement = context.store.put_said(measurement_id, **said)
    if measurement is None:
        raise Refused(404, _NO_UPLOAD)
    return whole(measurement, context, calibration)


_NO_UPLOAD = "There is no such uploaded measurement; runs and samples have a scenario and a device of their own."


@router.put("/api/measurements/{measurement_id}/device")
@documented({200: (Measurement, Beside)}, *JSON_BODY, 404, body=Body(type=GivenDevice, example={"chip": "h100-sxm"}))
async def put_device(measurement_id: str, request: Request, context: Ctx, calibration: str = "") -> Response:
    """Say what an uploaded measurement ran on, as its file does not → the measurement, whose rows that predicts.

    The scenario that a log sets lacks only its cluster: nodes of this chip as they are usually built. With a ``name``
    it is said of the rows that call their GPU so, whatever the catalogue has of that name.
    """
    document = await read_json(request, context.settings.json_limit_bytes)
    if not isinstance(document, dict) or not document.keys() <= {"chip", "name"} or "chip" not in document:
        raise refusal("chip", "is missing, or not alone", CHIP_REMEDY)
    act = _named if "name" in document else _ran_on
    return json_response(await asyncio.to_thread(act, measurement_id, document, context, calibration))


@router.put("/api/measurements/{measurement_id}/answers")
@documented({200: (Measurement, Beside)}, *JSON_BODY, 404, body=Body(type=GivenAnswers, example=ANSWERS))
async def put_answers(measurement_id: str, request: Request, context: Ctx, calibration: str = "") -> Response:
    """Say what the file of a run leaves out, as ``asked`` of its proposal names it → it beside its prediction.

    What the file says stays; without a ``chip`` the likeliest is taken, as the proposal does.
    """
    document = await read_json(request, context.settings.json_limit_bytes)
    return json_response(await asyncio.to_thread(_answered, measurement_id, document, context, calibration))


def _answered(measurement_id: str, document: Any, context: Context, calibration: str) -> dict[str, Any]:
    problems = _wrong_answers(document)
    if problems:
        raise InputProblems(problems)
    before = found_measurement(measurement_id, context)
    asked = answered(before, document)
    chip = document.get("chip", "")
    found = said_scenario(asked, chip_from_json(chip) if isinstance(chip, dict) else chip)
    if found is None or found.scenario is None:
        message = found.reason if found else "its file does not say that it is of a run"
        names = ", ".join(found.asked) if found and found.asked else "answers"
        raise refusal(names, message.removesuffix("."), _ANSWERS_REMEDY)
    cluster = found.scenario["cluster"]
    entry = chip_from_json(chip or cluster["chip"])
    kept = _kept(chip) if chip else entry.name
    device = {key: value for key, value in before.device.items() if key != "own"} | _as_name(entry)
    return _put(
        measurement_id,
        context,
        calibration,
        device=device | {"said": True, READ: asked.scenario},
        scenario={**found.scenario, "cluster": {**cluster, "chip": kept}},
        world_size=asked.world_size,
    )


_ANSWERS_REMEDY = 'Give them beside the others, as in {"seq_len": 4096}.'
_MOST_ANSWER = 100_000_000


def _wrong_answers(document: Any) -> list[Problem]:
    """What of the answers cannot be: names that are none of ``ASKABLE``, no whole numbers, models of no name."""
    if not isinstance(document, dict) or not document.keys() <= set(ASKABLE):
        return [Problem(field="answers", message=f"are not some of {', '.join(ASKABLE)}", remedy=_ANSWERS_REMEDY)]
    found = []
    for name in ("seq_len", "global_batch", "gpus"):
        value = document.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_ANSWER:
            found.append(Problem(field=name, message="is no whole number", remedy=f"Give 1 to {_MOST_ANSWER:,}."))
    if "model" in document:
        if isinstance(document["model"], str):
            catalog.model(document["model"])
        elif isinstance(document["model"], dict):
            model_from_json(document["model"])
        else:
            remedy = "Give the name of a model of the catalogue, or a model's fields."
            found.append(Problem(field="model", message="is no model", remedy=remedy))
    if "chip" in document:
        chip_from_json(document["chip"])
    return found


def _named(measurement_id: str, document: dict[str, Any], context: Context, calibration: str) -> dict[str, Any]:
    before, name = found_measurement(measurement_id, context), document["name"]
    if name not in {gpu_of_row(row) for row in before.rows} - {""}:
        remedy = "Give a name that stands in the column gpu or hardware of the table's rows."
        raise refusal("name", "no row of the table has it", remedy)
    chips = {key: chip for key, chip in (before.device.get("chips") or {}).items() if key != name}
    if document["chip"] != "":
        chips[name] = _kept(document["chip"])
    return _put(measurement_id, context, calibration, device=_of_names(before, chips))


def _of_names(before: Measurement, chips: dict[str, Any]) -> dict[str, Any]:
    """The device of a table with what is said of its names; ``named``: they tell the chip of every row."""
    derived = {"chips", "named", "own", "name"} if before.device.get("named") else {"chips"}
    device = {key: value for key, value in before.device.items() if key not in derived} | {"chips": chips}
    said = chips_said(dataclasses.replace(before, device=device))
    found = {chip_named(row, said) for row in before.rows}
    if "" in found:
        return device
    return device | {"named": True} | (_as_name(chip_from_json(encode(found.pop()))) if len(found) == 1 else {})


def _as_name(chip: Chip) -> dict[str, Any]:
    """A chip as the device of a measurement: by name, and all of it where the catalogue has none of that name."""
    own = catalog.known("chips", chip.name) != chip
    return {"name": chip.label or chip.name or "own chip", **({"own": encode(chip)} if own else {})}


def _kept(chip: object) -> Any:
    """A chip as it is stored: its key, or all of one's own."""
    found = chip_from_json(chip)
    return found.name if isinstance(chip, str) else encode(found)


def _ran_on(measurement_id: str, document: dict[str, Any], context: Context, calibration: str) -> dict[str, Any]:
    entry, kept = chip_from_json(document["chip"]), _kept(document["chip"])
    before = found_measurement(measurement_id, context)
    device = {key: value for key, value in before.device.items() if key != "own"}
    said: dict[str, dict[str, Any]] = {"device": device | _as_name(entry)}
    partial = before.device.get(READ) or ({} if "cluster" in before.scenario else before.scenario)
    is_open = "cluster" not in before.scenario or before.device.get("said")  # another answer replaces what was said
    completed = None
    if is_open and (partial or before.steps_s):
        asked = dataclasses.replace(before, scenario=partial)
        completed = said_scenario(asked, entry if isinstance(kept, dict) else kept)
    if completed is not None and completed.scenario:
        said["device"] |= {"said": True, READ: partial}
        said["scenario"] = {**completed.scenario, "cluster": {**completed.scenario["cluster"], "chip": kept}}
    elif is_open and before.scenario:
        ranks = before.world_size
        in_node = chips_of_a_node(ranks, entry.chips_per_node)
        cluster = {"chip": kept, "chips_per_node": in_node, "nodes": ranks // in_node}
        said["device"]["said"] = True
        said["scenario"] = {**before.scenario, "cluster": cluster}
    return _put(measurement_id, context, calibration, **said)
