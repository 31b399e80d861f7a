"""Timeline: one step of a scenario laid out over time."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.documented import JSON_BODY, Body, documented
from app.api.given import SCENARIO, GivenScenario
from app.api.kept import give_kept
from app.context import Ctx
from estimator.cost.efficiency import Calibrated
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

    def lay_out(document: Any, measured: Calibrated | None) -> Timeline:
        return timeline(scenario_from_json(document), measured)

    return await give_kept(request, context, calibration, lay_out)
