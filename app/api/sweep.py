"""Sweep: every plan for a model on a cluster, in a thread, so that sliders keep answering."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.body import json_response, read_json
from app.context import Ctx
from estimator.sweep import sweep

router = APIRouter()


@router.post("/api/sweep")
async def post_sweep(request: Request, context: Ctx) -> Response:
    """Scenario without a plan, limits and objective → the best plans and the Pareto front."""
    document = await read_json(request, context.settings.json_limit_bytes)
    context.cpu.refuse_unprobed(document)
    async with context.sweeps:
        return json_response(await asyncio.to_thread(sweep, document))
