"""Kept: an answer about one scenario, made once for each body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Request
from starlette.responses import Response

from app.api.body import decode_json, read_json_body
from app.context import Context
from estimator.cost.efficiency import Calibrated


async def give_kept(
    request: Request, context: Context, calibration: str, of: Callable[[Any, Calibrated | None], object]
) -> Response:
    """Answer with what ``of`` says of the scenario in the body, under the calibration of that id, "" for none."""
    body = await read_json_body(request, context.settings.json_limit_bytes)
    measured = context.calibrations.efficiencies(calibration)

    def make() -> object:
        document = decode_json(body)
        context.cpu.refuse_unprobed(document)
        return of(document, measured)

    return await context.answers.give(request, body, make)
