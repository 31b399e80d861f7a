"""Hierarchy: the matrix products of a scenario at every level of its chip's memory."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.body import json_response, read_json
from app.api.documented import JSON_BODY, Body, documented
from app.api.given import SCENARIO, GivenHierarchy
from app.context import Ctx
from estimator.cost.cache_roofline import MODES, names
from estimator.estimate.cache_roofline_table import Hierarchy, hierarchy
from estimator.scenario.codec import unknown_keys
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import scenario_from_json

router = APIRouter()


class Known(TypedDict):
    """Chips whose levels are known, and the modes."""

    chips: list[str]
    modes: list[str]


@router.get("/api/hierarchy")
@documented({200: Known})
def get_hierarchy() -> Response:
    """Chips whose levels are known, and the modes."""
    return json_response({"chips": list(names()), "modes": list(MODES)})


@router.post("/api/hierarchy")
@documented(
    {200: Hierarchy}, *JSON_BODY, body=Body(type=GivenHierarchy, example={"scenario": SCENARIO, "mode": "bound"})
)
async def post_hierarchy(request: Request, context: Ctx) -> Response:
    """{scenario, mode} → roofs of the chip, and rows: tile, reloads, bytes and seconds of every product by level.

    Of the chip's own peaks and caches, which no calibration changes.
    """
    document = await read_json(request, context.settings.json_limit_bytes)
    scenario, mode = _parts(document)
    context.cpu.refuse_unprobed(scenario)
    return json_response(await asyncio.to_thread(hierarchy, scenario_from_json(scenario), mode))


def _parts(document: Any) -> tuple[dict[str, Any], str]:
    known = ["scenario", "mode"]
    if not isinstance(document, dict):
        raise InputProblems([Problem(field="(document)", message="must be a JSON object", remedy="Write {...}.")])
    problems = unknown_keys("", document, known)
    scenario, mode = document.get("scenario"), document.get("mode", "bound")
    if not isinstance(scenario, dict):
        remedy = "Give the Scenario whose products are wanted."
        problems.append(Problem(field="scenario", message="must be a JSON object", remedy=remedy))
    if not isinstance(mode, str):
        problems.append(Problem(field="mode", message="must be text", remedy="One of: compatible, bound."))
    if problems or not isinstance(scenario, dict) or not isinstance(mode, str):
        raise InputProblems(problems)
    return scenario, mode
