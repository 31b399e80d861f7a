"""Remedies: the best neighbours of a scenario, really estimated."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.body import json_response, read_json
from app.api.documented import JSON_BODY, Body, documented
from app.api.given import SCENARIO, GivenScenario
from app.context import Ctx
from estimator.search.remedies import Remedies, remedies

router = APIRouter()


@router.post("/api/remedies")
@documented({200: Remedies}, *JSON_BODY, body=Body(type=GivenScenario, example=SCENARIO))
async def post_remedies(request: Request, context: Ctx, calibration: str = "") -> Response:
    """Scenario → what binds it, and up to three neighbouring plans that are faster, or that fit where it does not.

    ``?calibration=`` as for an estimate.
    """
    document = await read_json(request, context.settings.json_limit_bytes)
    context.cpu.refuse_unprobed(document)
    found = await asyncio.to_thread(remedies, document, context.calibrations.efficiencies(calibration))
    return json_response(found)
