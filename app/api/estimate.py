"""Estimate: one prediction, or the same prediction along one field's legal values."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.body import decode_json, json_response, read_json, read_json_body
from app.api.documented import JSON_BODY, Body, documented
from app.api.given import SCENARIO, GivenAxis, GivenScenario
from app.context import Ctx
from estimator.cost.efficiency import Calibrated
from estimator.estimate.estimate import Estimate, estimate
from estimator.estimate.of_op_list import cluster_for, estimate_op_list
from estimator.scenario.codec import unknown_keys
from estimator.scenario.op_list import from_json, is_op_list
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import scenario_from_json
from estimator.search.axis import Axis, axis

router = APIRouter()

MOST_STAGES_AT_ONCE = 32
"""An estimate takes one to ten milliseconds up to here, less than a thread is worth, and fifty for thousands of stages;
those leave the event loop free for others."""


@router.post("/api/estimate")
@documented({200: Estimate}, *JSON_BODY, body=Body(type=GivenScenario, example=SCENARIO))
async def post_estimate(request: Request, context: Ctx, calibration: str = "") -> Response:
    """Scenario or op list → Estimate; 422 with a problem for every field that cannot be used.

    ``?calibration=``: the id of a stored one, for its device.
    """
    measured = context.calibrations.efficiencies(calibration)
    document = await read_json(request, context.settings.json_limit_bytes)
    if is_op_list(document):
        return json_response(await asyncio.to_thread(_of_op_list, document, measured))
    context.cpu.refuse_unprobed(document)
    scenario = scenario_from_json(document)
    if scenario.plan.pp > MOST_STAGES_AT_ONCE:
        return json_response(await asyncio.to_thread(estimate, scenario, measured))
    return json_response(estimate(scenario, measured))


def _of_op_list(document: Any, calibration: Calibrated | None) -> Estimate:
    found = from_json(document)
    return estimate_op_list(found, cluster_for(found), calibration)


@router.post("/api/estimate/axis")
@documented(
    {200: Axis}, *JSON_BODY, body=Body(type=GivenAxis, example={"scenario": SCENARIO, "field": "training.seq_len"})
)
async def post_axis(request: Request, context: Ctx, calibration: str = "") -> Response:
    """{scenario, field} → {field, points: [{value, scenario, estimate | null, problems}]}."""
    body = await read_json_body(request, context.settings.json_limit_bytes)
    measured = context.calibrations.efficiencies(calibration)

    def make() -> Axis:
        scenario, field = _axis_request(decode_json(body))
        context.cpu.refuse_unprobed(scenario)
        return axis(scenario, field, measured)

    return await context.answers.give(request, body, make)


def _axis_request(document: object) -> tuple[dict[str, object], str]:
    known = ["scenario", "field"]
    if not isinstance(document, dict):
        raise InputProblems([Problem(field="(document)", message="must be a JSON object", remedy="Write {...}.")])
    problems = unknown_keys("", document, known)
    scenario, field = document.get("scenario"), document.get("field")
    if not isinstance(scenario, dict):
        remedy = "Give the Scenario whose axis is wanted."
        problems.append(Problem(field="scenario", message="must be a JSON object", remedy=remedy))
    if not isinstance(field, str):
        problems.append(Problem(field="field", message="must be text", remedy="Name a field, as in 'plan.tp'."))
    if problems or not isinstance(scenario, dict) or not isinstance(field, str):
        raise InputProblems(problems)
    return scenario, field
