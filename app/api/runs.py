"""Runs: launch, list, follow, cancel, retry and delete measured runs."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

from fastapi import APIRouter, Depends, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import Response, StreamingResponse

from app.api.body import json_response, read_json
from app.api.documented import JSON_BODY, Body, Raw, documented
from app.api.given import JOB
from app.context import Ctx
from app.errors import Refused
from app.runs.jobs import job_from_json, jobs_from_json
from app.runs.run import Run, log_tail
from estimator.scenario.codec import encode
from runners.job import LOG_FILE, Job
from runners.job import Request as Started

router = APIRouter()


class Runs(TypedDict):
    """Several runs."""

    runs: list[Run]


class LogTail(TypedDict):
    """The end of a run's log."""

    log_tail: str


_CHUNK_BYTES = 65_536


@router.post("/api/runs")
@documented({200: Started, 201: [Run, Runs]}, *JSON_BODY, body=Body(type=[Job, list[Job]], example=JOB))
async def post_run(request: Request, context: Ctx, dry_run: bool = False) -> Response:
    """Job → 201 Run, queued; a list of jobs for Slurm → 201 {runs}, one array.

    With ?dry_run=true → 200 {command, environment, folder, script} of the (first) job, and nothing starts: the folder
    does not exist yet.
    """
    document = await read_json(request, context.settings.json_limit_bytes)
    jobs = await asyncio.to_thread(jobs_from_json, document, context.cpu, context.settings)
    if dry_run:
        return json_response(encode((await asyncio.to_thread(context.supervisor.requests, jobs))[0]))
    if isinstance(document, list):
        return json_response({"runs": await context.supervisor.submit_array(jobs)}, 201)
    return json_response(await context.supervisor.submit(jobs[0]), 201)


@router.get("/api/runs")
@documented({200: Runs})
async def get_runs(context: Ctx) -> Response:
    """All runs, newest first; those that wait here, or cannot be followed just now, say why."""
    runs = await asyncio.to_thread(context.store.runs)
    return json_response({"runs": [_waiting(run, context) for run in runs]})


async def known_run(run_id: str, context: Ctx) -> Run:
    """Return the run named in the path; raise Refused (404)."""
    run = await asyncio.to_thread(context.store.run, run_id)
    if run is None:
        raise Refused(404, "There is no such run. GET /api/runs lists those there are.")
    return run


Known = Annotated[Run, Depends(known_run)]


@router.get("/api/runs/{run_id}")
@documented({200: (Run, LogTail)}, 404)
async def get_run(run: Known, context: Ctx) -> Response:
    """One run and the end of its log."""
    tail = await asyncio.to_thread(log_tail, context.data.runs / run.id)
    return json_response(_document(_waiting(run, context)) | {"log_tail": tail})


@router.get("/api/runs/{run_id}/log")
@documented({200: Raw(media_type="text/plain")}, 404)
def get_log(run: Known, context: Ctx) -> Response:
    """The whole log as plain text."""
    # A log that still grows has no length to announce
    chunks = _chunks(context.data.runs / run.id / LOG_FILE)
    return StreamingResponse(chunks, media_type="text/plain; charset=utf-8")


class NothingMore(Exception):  # noqa: N818 - it is an answer, not an accident
    """Raised where a run has ended and the caller has seen all of it: 204 tells an EventSource to stay away."""


async def last_seen(last_event_id: Annotated[str, Header()] = "") -> int:
    """Line number after which the caller wants events; 0 where it names none."""
    return int(last_event_id) if last_event_id.isdecimal() and len(last_event_id) < 12 else 0


async def wanted_events(run: Known, context: Ctx, after: Annotated[int, Depends(last_seen)]) -> tuple[str, int]:
    """Check what the stream would carry before it begins, while the status can still say so."""
    if run.final and after >= await asyncio.to_thread(context.supervisor.event_count, run.id):
        raise NothingMore
    return run.id, after


@router.get("/api/runs/{run_id}/events", response_class=EventSourceResponse)
@documented({200: Raw(media_type="text/event-stream"), 204: None}, 404)
async def get_events(
    wanted: Annotated[tuple[str, int], Depends(wanted_events)], context: Ctx
) -> AsyncIterator[ServerSentEvent]:
    """The run's events as they come; ids are line numbers, so Last-Event-ID resumes; ends after the final state."""
    run_id, after = wanted
    async for number, line in context.supervisor.events(run_id, after):
        yield ServerSentEvent(raw_data=line, id=str(number))


@router.post("/api/runs/{run_id}/cancel")
@documented({200: Run}, 404)
async def post_cancel(run_id: str, context: Ctx) -> Response:
    """End the run's whole process group; a run that has ended stays as it is."""
    run = await context.supervisor.cancel(run_id)  # even where the index is away
    return json_response(run if run is not None else await known_run(run_id, context))


@router.post("/api/runs/{run_id}/retry")
@documented({201: Run}, 404, 422)
async def post_retry(run: Known, context: Ctx) -> Response:
    """Queue a fresh run of the same job."""
    job = await asyncio.to_thread(job_from_json, run.job, context.cpu, context.settings)
    return json_response(await context.supervisor.submit(job), 201)


@router.delete("/api/runs/{run_id}")
@documented({204: None}, 404, 409)
async def delete_run(run: Known, context: Ctx) -> Response:
    """Delete a run that has ended, with its folder and its measurement → 204."""
    if not run.final:
        raise Refused(409, "The run has not ended. Cancel it first.")
    await asyncio.to_thread(context.store.remove_run, run.id)
    return Response(status_code=204)


def _waiting(run: Run, context: Ctx) -> Run:
    """Say what hinders following a run, or what one that is queued here waits for, where nobody has."""
    trouble = context.supervisor.trouble(run.id)
    if trouble and not run.final:
        return dataclasses.replace(run, message=f"it may be further than this: {trouble.message}")
    if run.state != "queued" or run.message:
        return run
    if not context.cpu.finished.is_set():
        return dataclasses.replace(run, message="waits until this CPU has been measured")
    ahead = context.supervisor.ahead_of(run.id)
    if not ahead:
        return run
    slots = context.supervisor.slots
    what = f"waits for {ahead[0].label}" if len(ahead) == 1 else f"{len(ahead)} before it"
    rule = "one runs at a time here" if slots == 1 else f"{slots} run at a time here"
    return dataclasses.replace(run, message=f"{what}; {rule}")


def _document(run: Run) -> dict[str, Any]:
    return {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}


def _chunks(path: Path) -> Iterator[bytes]:
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
