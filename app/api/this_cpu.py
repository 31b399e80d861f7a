"""This CPU: to be measured anew, as where other programs used it while it was."""

from __future__ import annotations

from typing import TypedDict

from fastapi import APIRouter
from starlette.responses import Response

from app.api.body import json_response
from app.api.documented import documented
from app.context import Ctx

router = APIRouter()

OFF = "This CPU is not measured, because the probe is switched off. Start the server with it."


class Measuring(TypedDict):
    """Whether this CPU is measured now, and why not, "" where it is."""

    measuring: bool
    message: str


@router.post("/api/this-cpu")
@documented({200: Measuring})
async def post_this_cpu(context: Ctx) -> Response:
    """Measure this CPU anew; what there is serves until then, and ``measuring`` of the catalogue says when that is.

    Of the two measurements the one that had more of the CPU is kept. Runs wait until it has ended.
    """
    begun = context.cpu.measure_again()
    return json_response({"measuring": begun, "message": "" if begun else OFF})
