"""This CPU: to be measured anew, as where other programs used it while it was."""

from __future__ import annotations

import asyncio
from typing import TypedDict

from fastapi import APIRouter
from starlette.responses import Response

from app.api.body import json_response
from app.api.documented import documented
from app.context import Ctx
from runners.backends.processes import at_work_below

router = APIRouter()

OFF = "This CPU is not measured, because the probe is switched off. Start the server with it."
BUSY = "A run is under way here, and each would disturb the other. Measure this CPU again once it has ended."


class Measuring(TypedDict):
    """Whether this CPU is measured now, and why not, "" where it is."""

    measuring: bool
    message: str


@router.post("/api/this-cpu")
@documented({200: Measuring})
async def post_this_cpu(context: Ctx) -> Response:
    """Measure this CPU anew; what there is serves until then, and ``measuring`` of the catalogue says when that is.

    Of the two measurements the one that had more of the CPU is kept. Runs wait until it has ended; beside one that is
    under way in the same data folder, ``headroom run``'s too, it is not begun.
    """
    cpu = context.cpu
    if context.supervisor.at_work() or await asyncio.to_thread(at_work_below, cpu.data.runs):
        return json_response({"measuring": cpu.measuring, "message": BUSY if cpu.state != "off" else OFF})
    begun = cpu.measure_again()
    return json_response({"measuring": begun, "message": "" if begun else OFF})
