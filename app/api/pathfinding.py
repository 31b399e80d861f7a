"""Pathfinding: the DeepFlow study as its page needs it, at the pace of a slider; plans and search apart."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.body import json_response
from app.api.documented import documented
from app.api.query import INPUTS, inputs_of
from estimator.studies.deepflow import view
from estimator.studies.deepflow.inputs import Inputs
from estimator.studies.study import read_inputs

router = APIRouter()


@router.get("/api/pathfinding")
@documented({200: dict[str, Any]}, 422, query=INPUTS)
def get_pathfinding(request: Request) -> Response:
    """Time, memory, roofline, corrections and the sweep over the power split; the query changes inputs."""
    return json_response(view.view(_inputs(request)))


@router.get("/api/pathfinding/plans")
@documented({200: dict[str, Any]}, 422, query=INPUTS)
def get_plans(request: Request) -> Response:
    """Plans on many chips, those that fit first, each from fast to slow."""
    return json_response(view.plan_table(_inputs(request)))


@router.get("/api/pathfinding/search")
@documented({200: dict[str, Any]}, 422, query=INPUTS)
def get_search(request: Request) -> Response:
    """The fastest split of the power, and the way of the search to it."""
    return json_response(view.search(_inputs(request)))


def _inputs(request: Request) -> Inputs:
    return read_inputs(Inputs, inputs_of(request))
