"""Traces: a Hugging Face config.json becomes an op list, by tracing its model on fake devices; kept as an upload is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, TypedDict

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.body import client_left, decode_json, json_response, read_body
from app.api.documented import Body, documented
from app.api.given import HUGGING_FACE_OTHER
from app.api.uploads import Uploaded, stored
from app.config_names import EVERY_MODELS, traced_name
from app.context import Ctx
from app.disk import write_json
from app.importers.names import plain_name
from app.tracing import flags_of, trace_config, unless
from estimator.scenario import catalog
from estimator.scenario.codec import decode
from estimator.scenario.own_file import refuse_own
from estimator.scenario.problems import InputProblems, Problem
from runners.options import ProgramOptions

router = APIRouter()


class InLine(TypedDict):
    """How many traces come before one: 0 while it is traced itself, null where it is not in the line."""

    before: int | None


@router.get("/api/traces")
@documented({200: InLine})
async def get_traces(context: Ctx, ticket: str = "") -> Response:
    """Where the trace that was given this ``?ticket=`` stands in the line: one is traced at a time."""
    return json_response(InLine(before=context.traces.before(ticket)))


@router.put("/api/traces")
@documented({201: Uploaded}, 400, 413, 422, 507, body=Body(type=dict[str, Any], example=HUGGING_FACE_OTHER))
async def put_trace(
    request: Request,
    context: Ctx,
    filename: str = "config.json",
    chip: str = "h100-sxm",
    batch: int = 1,
    seq: int = 512,
    precision: str = "bf16-amp",
    checkpointing: bool = False,
    ticket: str = "",
) -> Response:
    """Raw config.json, whatever its architecture → 201 as for an upload, of its step as an op list; in some seconds.

    One is traced at a time; ``?ticket=``, any word, is what a client asks after its place in the line by. Whoever
    closes the connection ends the trace.
    """
    config = decode_json(await read_body(request, context.settings.json_limit_bytes))
    if isinstance(config, dict):
        refuse_own(config, "config.json")
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        remedy = "Give the config.json of a model on Hugging Face."
        raise InputProblems([Problem(field="model_type", message="is missing", remedy=remedy)])
    given = {"batch": batch, "seq": seq, "precision": precision, "checkpointing": checkpointing}
    flags = ["--chip", catalog.chip(chip).name, *flags_of(decode(ProgramOptions, given))]

    name = traced_name(config, filename)

    async def trace(path: Path) -> None:
        document = path.with_name("config") / name
        document.parent.mkdir()
        await asyncio.to_thread(write_json, document, config)
        async with context.traces.turn(ticket):
            await trace_config(document, flags, path)

    async def traced(path: Path) -> None:
        await unless(asyncio.create_task(client_left(request)), asyncio.create_task(trace(path)))

    return await stored(context, name if filename == EVERY_MODELS else plain_name(filename), traced)
