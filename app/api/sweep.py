"""Sweep: every plan for a model on a cluster, in a thread, so that sliders keep answering.

One search runs at a time, and others wait for it; it ends early where its client leaves, and after
``Settings.search_limit_s``. Who accepts NDJSON hears how far it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from app.api.body import client_left, json_response, read_json
from app.api.documented import JSON_BODY, Body, Raw, documented
from app.api.given import SEARCH, GivenSearch
from app.context import Context, Ctx
from app.encoding import encode_json
from app.errors import Refused, sentence
from estimator.cost.efficiency import Calibrated
from estimator.scenario.problems import InputProblems
from estimator.search.space import too_much
from estimator.search.specification import checked
from estimator.search.sweep import Sweep, sweep

router = APIRouter()

NDJSON = "application/x-ndjson"
TELL_S = 0.2
_log = logging.getLogger("headroom")


class Stopped(Exception):  # noqa: N818 - it is a wish, not an accident
    """Nobody waits for this search any more."""


class SearchProgress:
    """What a search in its thread tells, the wish that it stop, and the time it has."""

    def __init__(self, limit_s: float) -> None:
        self.tried = self.fitting = 0
        self.stop = threading.Event()
        self.limit_s = limit_s
        self.start_s = time.monotonic()
        self.start_cpu_s: float | None = None

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self.start_s

    def note(self, tried: int, fitting: int) -> None:
        """Take the counts; raise Stopped where the search is to end, InputProblems where its time is up.

        Called in the search's thread, whose own processor time counts, so that a busy machine refuses nothing more.
        """
        self.tried, self.fitting = tried, fitting
        if self.stop.is_set():
            raise Stopped
        now_s = time.thread_time()
        if self.start_cpu_s is None:
            self.start_cpu_s = now_s
        if now_s - self.start_cpu_s > self.limit_s:
            raise too_much(f"more plans than {self.limit_s:g} s of computing try, the bound of one search here")


@router.post("/api/sweep")
@documented({200: [Sweep, Raw(media_type=NDJSON)]}, *JSON_BODY, body=Body(type=GivenSearch, example=SEARCH))
async def post_sweep(request: Request, context: Ctx, calibration: str = "") -> Response:
    """Scenario without a plan, limits and objective → the best plans and the Pareto front.

    NDJSON: lines {waiting} | {tried, fitting, seconds}, at the end {result} | {detail, problems}.
    """
    document = await read_json(request, context.settings.json_limit_bytes)
    context.cpu.refuse_unprobed(document)
    checked(document)
    measured = context.calibrations.efficiencies(calibration)
    if NDJSON in request.headers.get("accept", ""):
        return StreamingResponse(
            _told(document, context, measured), media_type=NDJSON, headers={"cache-control": "no-store"}
        )
    async with _search(document, context, measured) as (task, _):
        left = asyncio.create_task(client_left(request))
        try:
            await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
        if not task.done():
            raise Refused(400, "The connection closed before the search was complete.")
        return json_response(task.result())


async def _told(document: object, context: Context, measured: Calibrated | None) -> AsyncIterator[bytes]:
    if context.sweeps.locked():
        yield _line({"waiting": True})
    async with _search(document, context, measured) as (task, progress):
        while not (await asyncio.wait({task}, timeout=TELL_S))[0]:
            yield _line({"tried": progress.tried, "fitting": progress.fitting, "seconds": progress.seconds})
        yield _line(_end(task))


@contextlib.asynccontextmanager
async def _search(
    document: object, context: Context, measured: Calibrated | None
) -> AsyncIterator[tuple[asyncio.Task[Sweep], SearchProgress]]:
    """Wait for the slot, then search in a thread, which ends soon after whoever waits for it has gone."""
    await context.sweeps.acquire()
    progress = SearchProgress(context.settings.search_limit_s)
    task = asyncio.create_task(asyncio.to_thread(sweep, document, measured, progress.note))

    def ended(task: asyncio.Task[Sweep]) -> None:
        # Only now is the slot free: a thread that is asked to stop takes a moment
        context.sweeps.release()
        with contextlib.suppress(asyncio.CancelledError):
            task.exception()

    task.add_done_callback(ended)
    try:
        yield task, progress
    finally:
        progress.stop.set()


def _end(task: asyncio.Task[Sweep]) -> object:
    try:
        return {"result": task.result()}
    except InputProblems as error:
        return {"detail": sentence(error.problems), "problems": error.problems}
    except Exception as error:
        _log.error("POST /api/sweep failed", exc_info=error)
        return {"detail": "The server failed on this search; its log has the reason.", "problems": []}


def _line(value: object) -> bytes:
    return encode_json(value) + b"\n"
