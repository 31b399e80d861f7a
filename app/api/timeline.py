"""Timeline: one step of a scenario laid out over time."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.body import json_response, read_json
from app.api.documented import JSON_BODY, Body, documented
from app.api.given import SCENARIO, GivenScenario
from app.context import Ctx
from estimator.estimate.timeline import timeline
from estimator.scenario.scenario import scenario_from_json
from estimator.scenario.timeline import Timeline

router = APIRouter()


@router.post("/api/timeline")
@documented({200: Timeline}, *JSON_BODY, body=Body(type=GivenScenario, example=SCENARIO))
async def post_timeline(request: Request, context: Ctx, calibration: str = "") -> Response:
    """Scenario → lanes, blocks as columns, memory over the step; the end is the step time.

    ``?calibration=`` as for an estimate.
    """
    document = await read_json(request, context.settings.json_limit_bytes)
    context.cpu.refuse_unprobed(document)
    measured = context.calibrations.efficiencies(calibration)
    found = await asyncio.to_thread(timeline, scenario_from_json(document), measured)
    return json_response(found)
