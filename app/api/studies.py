"""Studies: those there are with their inputs, and one reproduced with the inputs of the query."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.body import json_response
from app.errors import Refused
from estimator.problems import Problem
from estimator.studies import STUDIES, describe_study, document, study

router = APIRouter()


@router.get("/api/studies")
def get_studies() -> Response:
    """Every study: name, title, summary, and its inputs with bounds, help and defaults."""
    return json_response({"studies": [describe_study(name) for name in STUDIES]})


@router.get("/api/studies/{name}")
def get_study(name: str, request: Request) -> Response:
    """Reproduce one study; the query changes its inputs."""
    if name not in STUDIES:
        raise Refused(404, f"There is no such study. Known: {', '.join(STUDIES)}.")
    overrides: dict[str, object] = {}
    problems = []
    for key, value in request.query_params.multi_items():
        if key in overrides:
            problems.append(Problem(field=key, message="is given twice", remedy="Give each input once."))
        overrides[key] = value
    if problems:
        raise Refused(422, str(problems[0]), problems)
    return json_response(document(study(name, overrides)))
