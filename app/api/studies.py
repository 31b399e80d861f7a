"""Studies: those there are with their inputs, and one reproduced with the inputs of the query."""

from __future__ import annotations

from typing import Any, TypedDict

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.body import json_response
from app.api.documented import documented
from app.api.query import INPUTS, inputs_of
from app.errors import Refused
from estimator.studies import STUDIES, describe_study, document, study

router = APIRouter()


class Studies(TypedDict):
    """Every study with its inputs."""

    studies: list[dict[str, Any]]


@router.get("/api/studies")
@documented({200: Studies})
def get_studies() -> Response:
    """Every study: name, title, summary, and its inputs with bounds, help and defaults."""
    return json_response({"studies": [describe_study(name) for name in STUDIES]})


@router.get("/api/studies/{name}")
@documented({200: dict[str, Any]}, 404, 422, query=INPUTS)
def get_study(name: str, request: Request) -> Response:
    """Reproduce one study; the query changes its inputs."""
    if name not in STUDIES:
        raise Refused(404, f"There is no such study. Known: {', '.join(STUDIES)}.")
    return json_response(document(study(name, inputs_of(request))))
