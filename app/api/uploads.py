"""Uploads: a file streamed to disk, read by an importer in its own process, stored whole or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import filecmp
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypedDict

import msgspec
from fastapi import APIRouter, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from app.api.body import json_response, refuse_length, too_long
from app.api.documented import Body, Raw, documented
from app.api.given import TABLE
from app.context import Context, Ctx
from app.disk import discard, new_id, passing_folder, whole_folder, write_json
from app.errors import Refused
from app.importers.imported import Headers, SeenTable
from app.importers.names import plain_name
from app.importers.sandbox import Imported, ImportRefused, import_sandboxed
from app.summary import OPS_FOLDER, Summary
from estimator.scenario.codec import encode
from estimator.scenario.measurement import Warning
from estimator.scenario.problems import InputProblems, Problem

router = APIRouter()


class Uploaded(TypedDict):
    """What a file gave, and what a reader of it must know."""

    upload_id: str
    measurements: list[Summary]
    warnings: list[Warning]
    skipped: int
    same_as: str
    """Upload of the same bytes that was there before, empty where there is none."""


_CHUNK_BYTES = 1024**2
_LONGEST_HEADER = 200
_CUT_OFF = "The connection closed before the file was complete."


class Preview(TypedDict):
    """What a file would give: a text's tables as they stand there, and the first rows that are read in them."""

    tables: list[SeenTable]
    measurements: list[PreviewedRows]
    warnings: list[Warning]


class PreviewedRows(TypedDict):
    """The first rows of one measurement, of how many."""

    label: str
    format: str
    rows: list[dict[str, Any]]
    count: int


_PREVIEWED_ROWS = 8


@router.put("/api/previews")
@documented(
    {200: Preview}, 400, 413, 422, 507, body=Body(type=Raw(media_type="application/octet-stream"), example=TABLE)
)
async def put_preview(request: Request, context: Ctx, filename: str = "upload", columns: str = "") -> Response:
    """Raw body → what importing it would give, nothing kept; ``?columns=`` as for an upload."""
    name, headers = plain_name(filename), _headers(columns)
    try:
        with passing_folder(context.data.uploads, new_id()) as folder:
            path = folder / "source"
            await _received(request, context, path, name)
            async with context.imports:
                found = await asyncio.to_thread(import_sandboxed, path, name, headers=headers)
    except ImportRefused as error:
        raise _refusal(error) from None
    except ClientDisconnect:
        raise Refused(400, _CUT_OFF) from None
    shown = [
        PreviewedRows(
            label=one.label or name,
            format=one.origin.format,
            rows=list(one.rows[:_PREVIEWED_ROWS]),
            count=len(one.rows),
        )
        for one in found.measurements
    ]
    return json_response({"tables": found.tables, "measurements": shown, "warnings": found.warnings})


@router.put("/api/uploads")
@documented(
    {201: Uploaded}, 400, 413, 422, 507, body=Body(type=Raw(media_type="application/octet-stream"), example=TABLE)
)
async def put_upload(request: Request, context: Ctx, filename: str = "upload", columns: str = "") -> Response:
    """Raw body → 201 {upload_id, measurements, warnings, skipped, same_as}; 4xx naming format, place and remedy.

    ``?columns=`` says what columns of a text's tables are, as JSON: {line: {column from 0: header}}.
    """
    name, headers = plain_name(filename), _headers(columns)

    async def receive(path: Path) -> None:
        await _received(request, context, path, name)

    return await stored(context, name, receive, headers)


def _headers(columns: str) -> Headers:
    try:
        found = msgspec.json.decode(columns or "{}", type=Headers)
    except msgspec.DecodeError as error:
        remedy = 'Give JSON such as {"12": {"1": "forward (ms)"}}: line, column from 0, header.'
        raise InputProblems([Problem(field="columns", message=str(error), remedy=remedy)]) from None
    return {line: {at: text[:_LONGEST_HEADER] for at, text in own.items()} for line, own in found.items()}


async def stored(
    context: Context, name: str, fill: Callable[[Path], Awaitable[None]], headers: Headers | None = None
) -> Response:
    """Keep the file that ``fill`` writes with what its importer reads in it → 201; nothing where either fails."""
    upload_id = new_id()
    try:
        with whole_folder(context.data.uploads, upload_id) as folder:
            path = folder / "source"
            await fill(path)
            size_bytes = path.stat().st_size
            async with context.imports:
                imported = await asyncio.to_thread(import_sandboxed, path, name, headers=headers)
            await asyncio.to_thread(_write, folder, upload_id, name, size_bytes, imported, headers or {})
            same_as = await asyncio.to_thread(_twin, context.data.uploads, path)
    except ImportRefused as error:
        raise _refusal(error) from None
    except ClientDisconnect:
        raise Refused(400, _CUT_OFF) from None
    try:
        summaries = await asyncio.to_thread(context.store.put_upload, upload_id)
    except Exception:  # what was refused must not appear later
        await asyncio.to_thread(discard, context.data.uploads / upload_id)
        raise
    document = {"upload_id": upload_id, "measurements": summaries, "warnings": imported.warnings}
    return json_response(document | {"skipped": imported.skipped, "same_as": same_as}, 201)


@router.delete("/api/uploads/{upload_id}")
@documented({204: None}, 404)
async def delete_upload(upload_id: str, context: Ctx) -> Response:
    """Delete an uploaded file and all measurements that came with it → 204."""
    if not await asyncio.to_thread(context.store.remove_upload, upload_id):
        raise Refused(404, "There is no such upload. The id of a measurement is its upload's and a number.")
    return Response(status_code=204)


async def _received(request: Request, context: Context, path: Path, name: str) -> None:
    limit_bytes = context.settings.upload_limit_bytes
    refuse_length(request, limit_bytes)
    if not await _receive(request, path, limit_bytes):
        raise Refused(422, "The file is empty. Choose a result, a trace, or a text table.", filename=name)


async def _receive(request: Request, path: Path, limit_bytes: int) -> int:
    size_bytes, waiting = 0, bytearray()
    with path.open("wb") as file:
        async for chunk in request.stream():
            size_bytes += len(chunk)
            if size_bytes > limit_bytes:
                raise too_long(limit_bytes)
            waiting += chunk
            if len(waiting) >= _CHUNK_BYTES:
                await asyncio.to_thread(file.write, bytes(waiting))
                waiting.clear()
        await asyncio.to_thread(file.write, bytes(waiting))
    return size_bytes


def _twin(uploads: Path, path: Path) -> str:
    """Name the upload whose file holds the same bytes as ``path``, the first by name; "" where there is none."""
    size_bytes = path.stat().st_size
    for other in sorted(uploads.glob("*/source")):
        with contextlib.suppress(OSError):  # it may be deleted meanwhile
            known = other != path and not other.parent.name.startswith(".")
            same = known and other.stat().st_size == size_bytes
            if same and filecmp.cmp(other, path, shallow=False) and (other.parent / "upload.json").exists():
                return other.parent.name
    return ""


def _write(folder: Path, upload_id: str, name: str, size_bytes: int, imported: Imported, headers: Headers) -> None:
    (folder / "measurements").mkdir()
    if any(imported.op_lists):
        (folder / OPS_FOLDER).mkdir()
    for index, found in enumerate(imported.op_lists):
        if found is not None:
            write_json(folder / OPS_FOLDER / f"{index:05}.json", found)
    for index, measurement in enumerate(imported.measurements):
        known = dataclasses.replace(measurement, id=f"{upload_id}-{index}", label=measurement.label or name)
        write_json(folder / "measurements" / f"{index:05}.json", known)
    about = {"filename": name, "created_s": time.time(), "size_bytes": size_bytes}
    about |= {"columns": headers} if headers else {}
    write_json(folder / "upload.json", about | encode({"warnings": imported.warnings, "skipped": imported.skipped}))


def _refusal(error: ImportRefused) -> Refused:
    problem = Problem(field=error.place or "file", message=error.message, remedy=error.remedy)
    return Refused(422, str(problem), [problem], format=error.format, place=error.place, remedy=error.remedy)
