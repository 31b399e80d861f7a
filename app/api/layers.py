"""Layers: every op of one layer, of the embedding and of the head, as JSON or as CSV."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.body import json_response, read_json
from app.api.documented import JSON_BODY, Body, Raw, documented
from app.api.given import SCENARIO, GivenScenario
from app.context import Ctx
from app.errors import Refused
from app.layer_csv import layer_csv
from estimator.estimate.layer_table import COLUMNS, layer_table
from estimator.scenario.problems import Problem
from estimator.scenario.scenario import scenario_from_json

router = APIRouter()

FORMATS = ("json", "csv")


class Layers(TypedDict):
    """Names of the columns, and the rows in their order."""

    columns: list[str]
    rows: list[list[Any]]


@router.post("/api/layers")
@documented(
    {200: [Layers, Raw(media_type="text/csv")]},
    *JSON_BODY,
    body=Body(type=GivenScenario, example=SCENARIO),
    query={"format": {"schema": {"enum": list(FORMATS), "default": "json"}}},
)
async def post_layers(request: Request, context: Ctx, calibration: str = "") -> Response:
    """Scenario → {columns, rows: [[...]]}; ``?format=csv``: the same as a file.

    ``?calibration=`` as for an estimate.
    """
    form = request.query_params.get("format", "json")
    if form not in FORMATS:
        problem = Problem(field="format", message=f"{form[:40]!r} is not known", remedy="One of: json, csv.")
        raise Refused(422, str(problem), [problem])
    document = await read_json(request, context.settings.json_limit_bytes)
    context.cpu.refuse_unprobed(document)
    measured = context.calibrations.efficiencies(calibration)
    rows = await asyncio.to_thread(layer_table, scenario_from_json(document), measured)
    if form == "csv":
        disposition = {"content-disposition": 'attachment; filename="headroom-layers.csv"'}
        return Response(layer_csv(rows), media_type="text/csv", headers=disposition)
    return json_response({"columns": COLUMNS, "rows": [[getattr(row, name) for name in COLUMNS] for row in rows]})
