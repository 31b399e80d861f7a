"""Measurements: the list, and one of them beside its prediction."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, TypedDict, TypeVar

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response

from app.api.body import json_response
from app.api.documented import documented
from app.context import Context, Ctx
from app.errors import Refused
from app.own_predictions import own_prediction_of
from app.store import Store
from app.summary import Summary, scenario_of
from estimator.cost.efficiency import Calibrated
from estimator.estimate.estimate import Estimate, estimate
from estimator.estimate.expected import Expected, WhatIf, what_if
from estimator.estimate.layout.lay_out import laying_of
from estimator.estimate.own_timeline import own_step
from estimator.scenario import catalog
from estimator.scenario.measurement import Measurement, disturbance, step_time_s
from estimator.scenario.op_list import OpList, to_json
from estimator.scenario.problems import InputProblems, Problem, fields_named
from estimator.scenario.proposal.proposal import Proposal, proposal
from estimator.scenario.scenario import Scenario, chip_from_json, link_from_json, scenario_from_json
from estimator.scenario.timeline import Timeline
from estimator.validation.predicted_rows import PredictedTable, predicted_table, unpredicted_table
from estimator.validation.predicted_rows.device import chip_of
from estimator.validation.predicted_rows.said_scenario import said_scenario
from runners.trace.recorded import Span, recorded

router = APIRouter()
T = TypeVar("T")


class PredictedStep(TypedDict):
    """What a measured step should have been, or a traced one should be; null where its scenario is not complete.

    ``tokens``: of a step, 0 where they are not known; ``samples``: of a program that looks up no tokens.
    """

    step_time_s: float
    peak_bytes: float
    tokens: float
    samples: float
    chips: int
    mfu: float


class Measurements(TypedDict):
    """A line for each, and beside it the prediction of its scenario; ``next``: after which more follow, "" for none."""

    measurements: list[Summary]
    predicted: list[PredictedStep | None]
    next: str


class Beside(TypedDict):
    """What a measurement should have been, and which scenario it may be of.

    ``prediction``: of its scenario, null where that is not complete; ``proposed``: read from the shapes of its op list,
    or what a log or the table of one run says, on the likeliest chip;
    ``expected``: its own ops, each priced by itself; both null where it has none, ``expected`` also where its chip is
    not in the catalogue. ``step_s``: of its steps the median, the fastest where they were disturbed; ``disturbance``:
    the slowest over the fastest where that says so, else 0.
    """

    step_s: float | None
    disturbance: float
    prediction: Estimate | None
    proposed: Proposal | None
    expected: Expected | None


class OpListDocument(TypedDict):
    """An op list: calls and storages as columns, signatures once (docs/op_list.md)."""

    format: str
    schema_version: int
    source: str
    program: str
    calls: dict[str, Any]
    signatures: list[dict[str, Any]]


MOST_LISTED = 100_000
MOST_ROWS = 5000
"""Some seconds of estimates, were each row another scenario."""


@router.get("/api/measurements")
@documented({200: Measurements}, 404, 422)
def get_measurements(
    context: Ctx, calibration: str = "", limit: Annotated[int, Query(ge=0, le=MOST_LISTED)] = 0, after: str = ""
) -> Response:
    """Measurements in one line each, newest first, bundled ones last, and beside each its prediction in short.

    All of them, or as many as ``?limit=``, from behind the one named by ``?after=``: what ``next`` of the answer said.
    """
    try:
        found = context.store.summaries(limit + 1 if limit else 0, after)
    except KeyError:
        raise Refused(404, "There is no such measurement to go on after. Begin again without ?after=.") from None
    shown = found[:limit] if limit else found
    measured = context.calibrations.efficiencies(calibration)
    predicted = [_predicted_step(one, measured) or _traced_step(one, context.store, measured) for one in shown]
    further = shown[-1].id if len(found) > len(shown) else ""
    return json_response({"measurements": shown, "predicted": predicted, "next": further})


def _predicted_step(summary: Summary, calibration: Calibrated | None) -> PredictedStep | None:
    if not summary.has_scenario or not summary.step_time_s:
        return None
    try:
        return _short(scenario_from_json(summary.scenario), calibration)
    except InputProblems:  # what it ran on may be gone from the catalogue
        return None


def _traced_step(summary: Summary, store: Store, calibration: Calibrated | None) -> PredictedStep | None:
    """What a traced program's own ops should take: nothing of it was measured."""
    if summary.origin.format != "ops" or summary.step_time_s:
        return None
    return _of_own_ops(summary.id, store, calibration, catalog.revision())


@lru_cache(maxsize=1024)
def _of_own_ops(
    measurement_id: str, store: Store, calibration: Calibrated | None, revision: int
) -> PredictedStep | None:
    """Kept as long as the catalogue is what it was at this ``revision``."""
    own = own_prediction_of(measurement_id, store, calibration)
    if own is None:
        return None
    one = own.estimate
    rows = one.tokens_per_s * one.step_time_s
    return PredictedStep(
        step_time_s=one.step_time_s, peak_bytes=one.memory.peak_bytes, chips=one.chips, mfu=one.mfu,
        tokens=rows if own.rows == "tokens" else 0.0, samples=rows if own.rows == "samples" else 0.0,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _short(scenario: Scenario, calibration: Calibrated | None) -> PredictedStep:
    one = estimate(scenario, calibration, interval=False)
    return PredictedStep(
        step_time_s=one.step_time_s,
        peak_bytes=one.memory.peak_bytes,
        tokens=float(scenario.tokens),
        samples=0.0,
        chips=one.chips,
        mfu=one.mfu,
    )


@router.get("/api/measurements/{measurement_id}")
@documented({200: (Measurement, Beside)}, 404)
def get_measurement(measurement_id: str, context: Ctx, calibration: str = "") -> Response:
    """One whole measurement and the prediction for its scenario, null where the scenario is not complete.

    ``?calibration=`` as for an estimate.
    """
    return json_response(whole(found_measurement(measurement_id, context), context, calibration))


@router.get("/api/measurements/{measurement_id}/ops")
@documented({200: OpListDocument}, 404)
def get_ops(measurement_id: str, context: Ctx) -> Response:
    """The op list of the measurement's step, as ``headroom trace`` writes one: calls and storages as columns."""
    return json_response(to_json(_ops(measurement_id, context)))


@router.get("/api/measurements/{measurement_id}/what-if")
@documented({200: WhatIf}, 404, 422)
def get_what_if(
    measurement_id: str,
    context: Ctx,
    change: Annotated[list[str] | None, Query()] = None,
    chip: str = "",
    ranks: int = 1,
    sharding: str = "ddp",
    tp: int = 1,
    split: Annotated[list[str] | None, Query()] = None,
    pp: int = 1,
    schedule: str = "1f1b",
    virtual_stages: int = 1,
    micro_batches: int = 1,
    link: str = "",
    calibration: str = "",
) -> Response:
    """What the measurement's own ops would take after each ``?change=``, on another ``?chip=``, laid out by a plan: on
    data parallel ``?ranks=``, with their states in ``?sharding=``, on ``?tp=`` ranks that split linears (each
    ``?split=`` the end of a module's path, ``=column`` or ``=row``; without, their names propose it), on ``?pp=``
    stages under a ``?schedule=`` with ``?virtual_stages=``, in ``?micro_batches=`` of the list's batch, with another
    ``?link=`` inside a node; by ``?calibration=`` as for an estimate. Chip and link are given by name, or by their
    fields as JSON. ``layouts`` says which of them a list cannot be given, and why.
    """  # fmt: skip
    measured = context.calibrations.efficiencies(calibration)
    plan = {
        "dp": ranks,
        "sharding": sharding,
        "tp": tp,
        "pp": pp,
        "schedule": schedule,
        "virtual_stages": virtual_stages,
    }
    ops = _ops(measurement_id, context)
    with fields_named(_parameter_of):
        laying = laying_of(plan, micro_batches, split or (), _asked(link, "link", link_from_json))
        return json_response(what_if(ops, change or [], _asked(chip, "chip", chip_from_json), laying, measured))


@router.get("/api/measurements/{measurement_id}/timeline")
@documented({200: Timeline}, 404, 422)
def get_timeline(measurement_id: str, context: Ctx, chip: str = "", calibration: str = "") -> Response:
    """When the measurement's own ops should run: host, compute and communication of the step that ``expected``
    predicts, with neighbours of one category and phase as one block, and the memory of a list that has storages; on
    another ``?chip=``, by ``?calibration=`` as for an estimate."""
    step = own_step(_ops(measurement_id, context), chip, context.calibrations.efficiencies(calibration))
    spans = (Span(one.kind, one.name, one.phase, one.start_s, one.end_s) for one in step.ran)
    drawn = recorded(spans, step.total_s)
    if drawn is None:
        raise Refused(404, "Nothing of it runs on the device, so that there is nothing to lay out.")
    return json_response(dataclasses.replace(drawn, memory=step.memory, capacity_bytes=step.capacity_bytes))


def _parameter_of(field: str) -> str:
    """The parameter of an address by which a field of how a list is laid out is given."""
    return {"plan.dp": "ranks", "cluster.chip": "chip", "cluster.link": "link"}.get(field, field.removeprefix("plan."))


def _ops(measurement_id: str, context: Context) -> OpList:
    found = context.store.op_list(measurement_id)
    if found is None:
        why = "There is no op list of it: a profile has one where it was recorded with record_shapes=True."
        raise Refused(404, why)
    return found


@router.get("/api/measurements/{measurement_id}/rows")
@documented({200: PredictedTable}, 404, 422)
def get_rows(measurement_id: str, context: Ctx, chip: str = "", calibration: str = "") -> Response:
    """What each row of a measurement's table should be → {chip, rows: [{column: value}], reasons: [text], errors:
    {column: {n, mape, median_ape, p90_ape, max_ape, bias}}, assumptions, unpredicted}; errors in percent; ``reasons``
    says why a row has no prediction, ``unpredicted`` why none has one; ``doubt`` what is likely wrong with all;
    ``names`` what each GPU name of the rows was taken for. ``?chip=`` asks for another chip than the measurement's own,
    by name or by its fields as JSON, and is refused where there is none; ``?calibration=`` as for an estimate.
    """  # fmt: skip
    measured = context.calibrations.efficiencies(calibration)
    measurement = found_measurement(measurement_id, context)
    if len(measurement.rows) > MOST_ROWS:
        why = f"{len(measurement.rows):,} rows are more than the {MOST_ROWS:,} that are predicted at once"
        return json_response(unpredicted_table(measurement, f"{why}; import the table in parts"))
    try:
        name = _asked(chip, "chip", chip_from_json) or chip_of(measurement)
        context.cpu.refuse_unprobed({"cluster": {"chip": name}})
        table = predicted_table(measurement, name, measured)
        if isinstance(name, str) and (doubt := context.cpu.doubts().get(name)):
            table = dataclasses.replace(table, doubt=doubt)
        return json_response(table)
    except InputProblems as error:
        if chip:
            raise
        return json_response(unpredicted_table(measurement, "; ".join(one.message for one in error.problems)))


def _asked(given: str, field: str, read: Callable[[object], T]) -> str | T:
    """A chip or link that an address gives as ``field``: its name, or what ``read`` makes of its fields."""
    if not given.lstrip().startswith("{"):
        return given
    try:
        return read(msgspec.json.decode(given))
    except msgspec.DecodeError as error:
        remedy = f"Give a name of the catalogue, or a {field}'s fields as JSON."
        raise InputProblems([Problem(field=field, message=str(error), remedy=remedy)]) from None


def whole(measurement: Measurement, context: Context, calibration: str = "") -> dict[str, Any]:
    scenario = scenario_of(measurement)
    values = {field.name: getattr(measurement, field.name) for field in dataclasses.fields(measurement)}
    ops = context.store.op_list(measurement.id)
    measured = context.calibrations.efficiencies(calibration)
    return values | {
        "prediction": estimate(scenario, measured) if scenario else None,
        "proposed": proposal(ops) if ops is not None else None if scenario else said_scenario(measurement),
        "expected": own_prediction_of(measurement.id, context.store, measured),
        "step_s": step_time_s(measurement.steps_s),
        "disturbance": disturbance(measurement.steps_s),
    }


def found_measurement(measurement_id: str, context: Ctx) -> Measurement:
    measurement = context.store.measurement(measurement_id)
    if measurement is None:
        raise Refused(404, "There is no such measurement. GET /api/measurements lists those there are.")
    return measurement
