"""Measurements: the list, and one of them beside its prediction."""

from __future__ import annotations

import dataclasses
from typing import TypedDict

from fastapi import APIRouter
from starlette.responses import Response

from app.api.body import json_response
from app.api.documented import documented
from app.context import Ctx
from app.errors import Refused
from app.summary import Summary, scenario_of
from estimator.estimate.estimate import Estimate, estimate
from estimator.scenario.measurement import Measurement
from estimator.scenario.problems import InputProblems
from estimator.validation.predicted_rows import PredictedTable, predicted_table, unpredicted_table
from estimator.validation.predicted_rows.device import chip_of

router = APIRouter()


class Measurements(TypedDict):
    """A line for each."""

    measurements: list[Summary]


class Predicted(TypedDict):
    """What a measurement should have been; null where its scenario is not complete."""

    prediction: Estimate | None


MOST_ROWS = 5000
"""Some seconds of estimates, were each row another scenario."""


@router.get("/api/measurements")
@documented({200: Measurements})
def get_measurements(context: Ctx) -> Response:
    """All measurements in one line each, newest first, bundled ones last."""
    return json_response({"measurements": context.store.summaries()})


@router.get("/api/measurements/{measurement_id}")
@documented({200: (Measurement, Predicted)}, 404)
def get_measurement(measurement_id: str, context: Ctx) -> Response:
    """One whole measurement and the prediction for its scenario, null where the scenario is not complete."""
    measurement = _found(measurement_id, context)
    scenario = scenario_of(measurement)
    values = {field.name: getattr(measurement, field.name) for field in dataclasses.fields(measurement)}
    return json_response(values | {"prediction": estimate(scenario) if scenario else None})


@router.get("/api/measurements/{measurement_id}/rows")
@documented({200: PredictedTable}, 404, 422)
def get_rows(measurement_id: str, context: Ctx, chip: str = "") -> Response:
    """What each row of a measurement's table should be → {chip, rows: [{column: value}], reasons: [text], errors:
    {column: {n, mape, median_ape, p90_ape, max_ape, bias}}, assumptions, unpredicted}; errors in percent; ``reasons``
    says why a row has no prediction, ``unpredicted`` why none has one. ``?chip=`` asks for another chip than the
    measurement's own, and is refused where there is none.
    """  # fmt: skip
    measurement = _found(measurement_id, context)
    if len(measurement.rows) > MOST_ROWS:
        why = f"{len(measurement.rows):,} rows are more than the {MOST_ROWS:,} that are predicted at once"
        return json_response(unpredicted_table(measurement, f"{why}; import the table in parts"))
    name = chip or chip_of(measurement)
    try:
        context.cpu.refuse_unprobed({"cluster": {"chip": name}})
        return json_response(predicted_table(measurement, name))
    except InputProblems as error:
        if chip:
            raise
        return json_response(unpredicted_table(measurement, "; ".join(one.message for one in error.problems)))


def _found(measurement_id: str, context: Ctx) -> Measurement:
    measurement = context.store.measurement(measurement_id)
    if measurement is None:
        raise Refused(404, "There is no such measurement. GET /api/measurements lists those there are.")
    return measurement
