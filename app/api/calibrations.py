"""Calibrations: made of measurements that are here, kept by device and host, and named by requests for estimates."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypedDict

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.body import json_response, read_json
from app.api.documented import JSON_BODY, Body, documented
from app.calibrations import StoredCalibration
from app.context import Context, Ctx
from app.errors import Refused
from estimator.calibration.calibrate import Source, calibrate, to_document
from estimator.scenario.codec import unknown_keys
from estimator.scenario.problems import InputProblems, Problem

router = APIRouter()


class GivenMeasurements(TypedDict, total=False):
    """Ids of measurements of one device and host, in any mix, and a name for people."""

    measurements: list[str]
    name: str


class Calibrations(TypedDict):
    """A line for each."""

    calibrations: list[StoredCalibration]


class CalibrationDocument(TypedDict):
    """A calibration as its file has it (docs/calibrating.md)."""

    schema_version: int
    name: str
    base: str
    device: str
    host: str
    ranges: dict[str, Any]


MOST_SOURCES = 1000
EXAMPLE = {"measurements": ["20261120-101500-042-1f3a9c-0"]}


@router.get("/api/calibrations")
@documented({200: Calibrations})
def get_calibrations(context: Ctx) -> Response:
    """All stored calibrations in one line each, newest first."""
    return json_response({"calibrations": context.calibrations.all()})


@router.get("/api/calibrations/{calibration_id}")
@documented({200: CalibrationDocument}, 404)
def get_calibration(calibration_id: str, context: Ctx) -> Response:
    """One whole calibration, as ``--calibration`` takes it, with residuals, errors before and after, what it lacks."""
    found = context.calibrations.document(calibration_id)
    if found is None:
        raise Refused(404, "There is no such calibration.")
    return json_response(found)


@router.post("/api/calibrations")
@documented({201: StoredCalibration}, *JSON_BODY, body=Body(type=GivenMeasurements, example=EXAMPLE))
async def post_calibrations(request: Request, context: Ctx) -> Response:
    """{measurements: [id], name} → the calibration that they make; 422 says what they do not determine."""
    document = await read_json(request, context.settings.json_limit_bytes)
    return json_response(await asyncio.to_thread(_made, document, context), 201)


def _made(document: object, context: Context) -> StoredCalibration:
    ids, name = _given(document)
    sources, problems = [], []
    for index, one in enumerate(ids):
        found = context.store.measurement(one)
        if found is None:
            message, remedy = f"there is no measurement {one!r}", "GET /api/measurements lists them."
            problems.append(Problem(field=f"measurements[{index}]", message=message, remedy=remedy))
            continue
        sources.append(Source(name=found.label or one, measurement=found, ops=context.store.op_list(one)))
    if problems:
        raise InputProblems(problems)
    return context.calibrations.put(to_document(calibrate(sources, name.strip() or _called_by(sources))))


def _called_by(sources: Sequence[Source]) -> str:
    """A name where none was given: what it is of, as calibrations of one device and host differ by that."""
    first, *others = dict.fromkeys(source.name for source in sources)
    return f"{first} and {len(others)} more" if others else first


def _given(document: object) -> tuple[list[str], str]:
    if not isinstance(document, dict):
        raise InputProblems([Problem(field="(document)", message="must be a JSON object", remedy="Write {...}.")])
    problems = unknown_keys("", document, ("measurements", "name"))
    ids, name = document.get("measurements"), document.get("name", "")
    if not isinstance(ids, list) or not 1 <= len(ids) <= MOST_SOURCES or not all(isinstance(one, str) for one in ids):
        remedy = "Give the ids of one measurement or several."
        problems.append(
            Problem(field="measurements", message=f"must be a list of 1 to {MOST_SOURCES} texts", remedy=remedy)
        )
    if not isinstance(name, str):
        problems.append(Problem(field="name", message="must be text", remedy="Leave it out, or name the machine."))
    if problems or not isinstance(ids, list) or not isinstance(name, str):
        raise InputProblems(problems)
    return ids, name
