"""Measurements: the list, and one of them beside its prediction."""

from __future__ import annotations

import dataclasses

from fastapi import APIRouter
from starlette.responses import Response

from app.api.body import json_response
from app.context import Ctx
from app.errors import Refused
from app.summary import scenario_of
from estimator.estimate import estimate

router = APIRouter()


@router.get("/api/measurements")
def get_measurements(context: Ctx) -> Response:
    """All measurements in one line each, newest first, bundled ones last."""
    return json_response({"measurements": context.store.summaries()})


@router.get("/api/measurements/{measurement_id}")
def get_measurement(measurement_id: str, context: Ctx) -> Response:
    """One whole measurement and the prediction for its scenario, null where the scenario is not complete."""
    measurement = context.store.measurement(measurement_id)
    if measurement is None:
        raise Refused(404, "There is no such measurement. GET /api/measurements lists those there are.")
    scenario = scenario_of(measurement)
    values = {field.name: getattr(measurement, field.name) for field in dataclasses.fields(measurement)}
    return json_response(values | {"prediction": estimate(scenario) if scenario else None})
