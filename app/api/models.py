"""Models: a Hugging Face config.json becomes a model that a scenario can hold inline; nothing is kept."""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.body import decode_json, json_response, read_body
from app.api.documented import Body, documented
from app.api.given import HUGGING_FACE
from app.config_names import config_name
from app.context import Ctx
from estimator.scenario.huggingface.config import read_hf
from estimator.scenario.model import Model
from estimator.scenario.parameters import active_parameters, parameters

router = APIRouter()


class Described(TypedDict):
    """The model, and what its file left open."""

    model: Model
    parameters: float
    active_parameters: float
    assumptions: list[str]


@router.put("/api/models")
@documented({200: Described}, 400, 413, 422, body=Body(type=dict[str, Any], example=HUGGING_FACE))
async def put_model(request: Request, context: Ctx, filename: str = "config.json") -> Response:
    """Raw config.json → {model, parameters, active_parameters, assumptions}; 422 with a problem for every key."""
    document = decode_json(await read_body(request, context.settings.json_limit_bytes))
    reading = read_hf(document)
    model = dataclasses.replace(
        reading.model, name=reading.model.name or config_name(document, reading.model, filename)
    )
    return json_response(
        {
            "model": model,
            "parameters": parameters(model, model.max_positions),
            "active_parameters": active_parameters(model, model.max_positions),
            "assumptions": reading.assumptions,
        }
    )
