"""Remedies: the best neighbours of a scenario, really estimated."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.documented import JSON_BODY, Body, documented
from app.api.given import SCENARIO, GivenScenario
from app.api.kept import give_kept
from app.context import Ctx
from estimator.search.remedies import Remedies, remedies

router = APIRouter()


@router.post("/api/remedies")
@documented({200: Remedies}, *JSON_BODY, body=Body(type=GivenScenario, example=SCENARIO))
async def post_remedies(request: Request, context: Ctx, calibration: str = "") -> Response:
    """Scenario → what binds it, and up to three neighbouring plans that are faster, or that fit where it does not.

    ``?calibration=`` as for an estimate.
    """
    return await give_kept(request, context, calibration, remedies)
