"""Sweep: every plan for a model on a cluster, in a thread, so that sliders keep answering.

Who accepts NDJSON hears how far the search is, and ends it by closing the connection.
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

from app.api.body import json_response, read_json
from app.context import Context, Ctx
from app.encoding import encode_json
from app.errors import sentence
from estimator.scenario.problems import InputProblems
from estimator.search.specification import checked
from estimator.search.sweep import Sweep, sweep

router = APIRouter()

NDJSON = "application/x-ndjson"
TELL_S = 0.2
_log = logging.getLogger("headroom")


class Stopped(Exception):  # noqa: N818 - it is a wish, not an accident
    """Nobody waits for this search any more."""


class SearchProgress:
    """What a search in its thread tells, and the wish that it stop."""

    def __init__(self) -> None:
        self.tried = self.fitting = 0
        self.stop = threading.Event()

    def note(self, tried: int, fitting: int) -> None:
        """Take the counts; raise Stopped where the search is to end."""
        self.tried, self.fitting = tried, fitting
        if self.stop.is_set():
            raise Stopped


@router.post("/api/sweep")
async def post_sweep(request: Request, context: Ctx) -> Response:
    """Scenario without a plan, limits and objective → the best plans and the Pareto front.

    NDJSON: lines {waiting} | {tried, fitting, seconds}, at the end {result} | {detail, problems}.
    """
    document = await read_json(request, context.settings.json_limit_bytes)
    context.cpu.refuse_unprobed(document)
    checked(document)
    if NDJSON in request.headers.get("accept", ""):
        return StreamingResponse(_told(document, context), media_type=NDJSON, headers={"cache-control": "no-store"})
    async with context.sweeps:
        return json_response(await asyncio.to_thread(sweep, document))


async def _told(document: object, context: Context) -> AsyncIterator[bytes]:
    if context.sweeps.locked():
        yield _line({"waiting": True})
    async with context.sweeps:
        progress, start = SearchProgress(), time.monotonic()
        task = asyncio.create_task(asyncio.to_thread(sweep, document, None, progress.note))
        try:
            while not (await asyncio.wait({task}, timeout=TELL_S))[0]:
                seconds = time.monotonic() - start
                yield _line({"tried": progress.tried, "fitting": progress.fitting, "seconds": seconds})
            yield _line(_end(task))
        finally:
            progress.stop.set()
            # The thread ends at its next block; its Stopped is nobody's concern.
            task.add_done_callback(_read)


def _end(task: asyncio.Task[Sweep]) -> object:
    try:
        return {"result": task.result()}
    except InputProblems as error:
        return {"detail": sentence(error.problems), "problems": error.problems}
    except Exception as error:
        _log.error("POST /api/sweep failed", exc_info=error)
        return {"detail": "The server failed on this search; its log has the reason.", "problems": []}


def _read(task: asyncio.Task[Sweep]) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()


def _line(value: object) -> bytes:
    return encode_json(value) + b"\n"
