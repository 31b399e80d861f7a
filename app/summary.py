"""Summary: what a list shows of a measurement, so that the index answers without opening its file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from estimator.scenario.measurement import (
    Measurement,
    Origin,
    chips_of_rows,
    disturbance,
    fullest_peak_bytes,
    scenario_run,
    step_time_s,
)
from estimator.scenario.plan import AXES
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import Scenario, scenario_from_json

OPS_FOLDER = "ops"
"""Beside the folder of an upload's measurements: the op list of each that has one, under the same name."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One line of the list of measurements; ``rows`` and ``kernels`` are counts, ``upload_id`` the file it came in.

    ``world_size``: 0 of a table whose rows ran on several numbers of chips, and of a log that does not say.
    ``scenario``: as it ran, of a table nothing; ``disturbance``: as of a comparison's item; ``tokens_per_s``: of all
    GPUs, as a log says itself.
    """

    id: str
    label: str
    origin: Origin
    status: str
    device_name: str
    world_size: int
    step_time_s: float | None
    peak_bytes: float | None
    rows: int
    kernels: int
    created_s: float
    has_scenario: bool
    bundled: bool
    upload_id: str = ""
    scenario: dict[str, Any] = field(default_factory=dict)
    disturbance: float = 0.0
    tokens_per_s: float | None = None
    device_kind: str = ""


SUMMARY = msgspec.json.Decoder(Summary)
_MEASUREMENT = msgspec.json.Decoder(Measurement)  # both on import, as ``app.runs.run.RUN`` is


def summarize(measurement: Measurement, *, created_s: float, bundled: bool = False, upload_id: str = "") -> Summary:
    """Reduce a measurement to its line in the list; its step time is that of its steps."""
    return Summary(
        id=measurement.id,
        label=measurement.label,
        origin=measurement.origin,
        status=measurement.status,
        device_name=str(measurement.device.get("name") or ""),
        device_kind=str(measurement.device.get("kind") or ""),
        world_size=_world_size(measurement),
        step_time_s=step_time_s(measurement.steps_s),
        peak_bytes=fullest_peak_bytes(measurement),
        rows=len(measurement.rows),
        kernels=len(measurement.kernels),
        created_s=created_s,
        has_scenario=scenario_of(measurement) is not None,
        bundled=bundled,
        upload_id=upload_id,
        scenario=scenario_run(measurement),
        disturbance=disturbance(measurement.steps_s),
        tokens_per_s=_logged_tokens_per_s(measurement),
    )


def _world_size(measurement: Measurement) -> int:
    """How many chips it ran on, 0 where nobody knows: of a log one is assumed, unless it says its plan."""
    plan = measurement.scenario.get("plan") or {}
    said = measurement.world_size > 1 or any(plan.get(axis) for axis in AXES) or measurement.scenario.get("cluster")
    if len(chips_of_rows(measurement.rows)) > 1 or (_is_log(measurement) and not said):
        return 0
    return measurement.world_size


def _is_log(measurement: Measurement) -> bool:
    return measurement.origin.format.startswith("log/")


def _logged_tokens_per_s(measurement: Measurement) -> float | None:
    """The median rate that a log's steps say, of all GPUs; None without one."""
    if not _is_log(measurement):
        return None
    for column, times in (("tokens_per_s", 1), ("tokens_per_s_per_gpu", measurement.world_size)):
        rates = [row[column] * times for row in measurement.rows if _is_rate(row.get(column))]
        if rates:
            return float(median(rates))
    return None


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and value > 0


def scenario_of(measurement: Measurement) -> Scenario | None:
    """Return the measurement's scenario where it is complete and possible, else None."""
    if not measurement.scenario:
        return None
    try:
        return scenario_from_json(scenario_run(measurement))
    except InputProblems:
        return None


def ops_beside(path: Path) -> Path:
    """Where the op list of a stored measurement would be."""
    return path.parent.parent / OPS_FOLDER / path.name


def read_measurement(path: Path) -> Measurement:
    """Read a stored measurement; raises OSError or msgspec.DecodeError (ValidationError where a field is wrong)."""
    return _MEASUREMENT.decode(path.read_bytes())
