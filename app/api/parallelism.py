"""Parallelism: ways to split one block of a scenario's model over a group of chips, and their cross-over points."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.body import json_response, read_json
from app.api.documented import JSON_BODY, Body, documented
from app.api.given import SCENARIO, GivenParallelism
from app.context import Ctx
from estimator.scenario.codec import unknown_keys
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import scenario_from_json
from estimator.search.splits import MOST_RANKS, Parallelism, parallelism

router = APIRouter()


@router.post("/api/parallelism")
@documented(
    {200: Parallelism}, *JSON_BODY, body=Body(type=GivenParallelism, example={"scenario": SCENARIO, "ranks": 8})
)
async def post_parallelism(request: Request, context: Ctx, calibration: str = "") -> Response:
    """{scenario, ranks} → 1D, 2D, 2.5D, 3D against tokens, splits of the sequence against its length, cross-overs.

    ``?calibration=`` as for an estimate.
    """
    scenario, ranks = _parts(await read_json(request, context.settings.json_limit_bytes))
    context.cpu.refuse_unprobed(scenario)
    measured = context.calibrations.efficiencies(calibration)
    return json_response(await asyncio.to_thread(parallelism, scenario_from_json(scenario), ranks, measured))


def _parts(document: Any) -> tuple[dict[str, Any], int]:
    known = ["scenario", "ranks"]
    if not isinstance(document, dict):
        raise InputProblems([Problem(field="(document)", message="must be a JSON object", remedy="Write {...}.")])
    problems = unknown_keys("", document, known)
    scenario, ranks = document.get("scenario"), document.get("ranks", 0)
    if not isinstance(scenario, dict):
        remedy = "Give the Scenario whose model is to be split."
        problems.append(Problem(field="scenario", message="must be a JSON object", remedy=remedy))
    if not isinstance(ranks, int) or isinstance(ranks, bool):
        remedy = f"Give 2 to {MOST_RANKS} chips, or 0 for those of the scenario."
        problems.append(Problem(field="ranks", message="must be a whole number", remedy=remedy))
    if problems or not isinstance(scenario, dict) or not isinstance(ranks, int):
        raise InputProblems(problems)
    return scenario, ranks
