"""Compare: any predictions and measurements beside each other, with a baseline."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.body import json_response, read_json
from app.api.documented import JSON_BODY, Body, documented
from app.api.given import SCENARIO, GivenComparison
from app.context import Context, Ctx
from app.own_predictions import own_prediction_of
from estimator.cost.efficiency import Calibrated
from estimator.estimate.compare import Comparison, Item, compare, of_estimate, of_expected, of_measurement
from estimator.estimate.estimate import estimate
from estimator.scenario.codec import unknown_keys
from estimator.scenario.measurement import Measurement
from estimator.scenario.problems import InputProblems, Problem, fields_named
from estimator.scenario.scenario import scenario_from_json

router = APIRouter()

MOST_ITEMS = 32
KINDS = ("measurement", "expected", "scenario")


@router.post("/api/compare")
@documented(
    {200: Comparison},
    *JSON_BODY,
    body=Body(type=GivenComparison, example={"items": [{"scenario": SCENARIO, "label": "FSDP"}], "baseline": 0}),
)
async def post_compare(request: Request, context: Ctx, calibration: str = "") -> Response:
    """{items: [{measurement} | {expected} | {scenario, label}], baseline} → items, deltas to the baseline, differences.

    ``expected`` is the id of a profile whose own ops are predicted; ``?calibration=`` as for an estimate.
    """
    document = await read_json(request, context.settings.json_limit_bytes)
    return json_response(await asyncio.to_thread(compare_document, document, context, calibration))


def compare_document(document: object, context: Context, calibration: str = "") -> Comparison:
    """Read the request, make every item and compare; raises InputProblems naming the item."""
    if not isinstance(document, Mapping):
        raise InputProblems([Problem(field="(document)", message="must be a JSON object", remedy="Write {...}.")])
    problems = unknown_keys("", document, ("items", "baseline"))
    given, baseline = document.get("items"), document.get("baseline", 0)
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_ITEMS:
        remedy = f"Give 1 to {MOST_ITEMS} measurements or scenarios."
        raise InputProblems([*problems, Problem(field="items", message="must be a list", remedy=remedy)])
    if not isinstance(baseline, int) or isinstance(baseline, bool) or not 0 <= baseline < len(given):
        remedy = f"Give the index of an item, 0 to {len(given) - 1}."
        problems.append(Problem(field="baseline", message=f"{str(baseline)[:40]} is not an item", remedy=remedy))
    items = []
    measured = context.calibrations.efficiencies(calibration)
    for index, item in enumerate(given):
        try:
            items.append(_item(item, f"items[{index}]", context, measured))
        except InputProblems as error:
            problems += error.problems
    if problems:
        raise InputProblems(problems)
    return compare(items, baseline)


def _item(given: object, where: str, context: Context, calibration: Calibrated | None) -> Item:
    if not isinstance(given, Mapping) or sum(kind in given for kind in KINDS) != 1:
        remedy = 'Write {"measurement": "ID"}, {"expected": "ID"} or {"scenario": {...}, "label": "..."}.'
        raise InputProblems([Problem(field=where, message="must be one measurement or one scenario", remedy=remedy)])
    known = [*KINDS, "label"]
    problems = unknown_keys(where, given, known)
    label = given.get("label", "")
    if not isinstance(label, str):
        problems.append(Problem(field=f"{where}.label", message="must be text", remedy="Give a name for people."))
    if problems:
        raise InputProblems(problems)
    if "scenario" in given:
        return _predicted(given["scenario"], str(label), where, context, calibration)
    kind = "expected" if "expected" in given else "measurement"
    measurement = context.store.measurement(given[kind]) if isinstance(given[kind], str) else None
    if measurement is None:
        remedy = "GET /api/measurements lists those there are."
        problem = Problem(field=f"{where}.{kind}", message="there is no such measurement", remedy=remedy)
        raise InputProblems([problem])
    if kind == "expected":
        return _expected(measurement, str(label), where, context, calibration)
    item = of_measurement(measurement)
    return dataclasses.replace(item, label=label) if label else item


def _expected(
    measurement: Measurement, label: str, where: str, context: Context, calibration: Calibrated | None
) -> Item:
    found = own_prediction_of(measurement.id, context.store, calibration)
    if found is None:
        message = "has no op list, or its chip is not in the catalogue"
        remedy = "Record a profile with record_shapes=True, and compare that."
        raise InputProblems([Problem(field=f"{where}.expected", message=message, remedy=remedy)])
    return of_expected(found, measurement, label or f"{measurement.label or measurement.id}: its own ops, predicted")


def _predicted(scenario_json: Any, label: str, where: str, context: Context, calibration: Calibrated | None) -> Item:
    with fields_named(lambda path: f"{where}.scenario.{path}"):
        context.cpu.refuse_unprobed(scenario_json)
        scenario = scenario_from_json(scenario_json)
        return of_estimate(estimate(scenario, calibration), scenario, label or scenario.model.name or "prediction")
