"""Frames: an estimate, a search, a measurement or a validated table as a table of pandas, for notebooks and exports.

A function and no method: what is predicted and measured with needs no pandas, on hosts that have none. Columns have the
names and units of the JSON, and cells are empty (NaN, None) where nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from functools import singledispatch
from typing import Any

import pandas as pd

from estimator.estimate.estimate import Estimate
from estimator.estimate.report import Collective, MemoryOfStage, OpCost
from estimator.scenario.measurement import Kernel, MeasuredCollective, Measurement
from estimator.scenario.plan import Plan
from estimator.search.sweep import Found, Sweep
from estimator.validation.score import Predicted, Skipped

_PREDICTED = {
    "row": "int", "source_id": "str", "hardware": "str", "model": "str", "source": "str",
    "measured_step_time_s": "float", "predicted_step_time_s": "float", "predicted_low_s": "float",
    "predicted_high_s": "float", "naive_step_time_s": "float", "measured_peak_bytes": "float",
    "predicted_peak_bytes": "float", "fits": "boolean", "time_error_pct": "float", "memory_error_pct": "float",
    "naive_error_pct": "float", "assumptions": "str", "skipped": "str",
}  # fmt: skip
"""Columns and their types, so that a table where nothing was measured or skipped has the same ones."""


@singledispatch
def to_frame(found: object, table: str = "") -> pd.DataFrame:
    """Return one table of an Estimate, a Sweep or a Measurement; without ``table`` the first of these that has rows.

    Estimate: ``ops``, ``collectives``, ``memory`` (a row per pipeline stage), ``phases``. Sweep: ``plans``.
    Measurement: ``rows``, ``kernels``, ``collectives``, ``steps``. Raises ValueError for another table, TypeError for
    another type.
    """
    raise TypeError(f"{type(found).__name__} has no table; Estimate, Sweep and Measurement do")


@to_frame.register
def _(found: Estimate, table: str = "") -> pd.DataFrame:
    phases = [{"phase": name, "seconds": value} for name, value in found.phases_s.items()]
    return _chosen(
        table,
        ops=lambda: _records(OpCost, found.ops),
        collectives=lambda: _records(Collective, found.collectives),
        memory=lambda: _spread(_records(MemoryOfStage, found.memory.stages), "by_kind", "_bytes"),
        phases=lambda: pd.DataFrame(phases),
    )


@to_frame.register
def _(found: Sweep, table: str = "") -> pd.DataFrame:
    return _chosen(table, plans=lambda: _plans(found))


@to_frame.register
def _(found: Measurement, table: str = "") -> pd.DataFrame:
    steps = [{"step": number, "seconds": value} for number, value in enumerate(found.steps_s, 1)]
    return _chosen(
        table,
        rows=lambda: pd.DataFrame(found.rows),
        kernels=lambda: _records(Kernel, found.kernels),
        collectives=lambda: _records(MeasuredCollective, found.collectives),
        steps=lambda: pd.DataFrame(steps, columns=["step", "seconds"]),
    )


def predicted_frame(found: Iterable[Predicted | Skipped]) -> pd.DataFrame:
    """Return a row per row of a validated table: what it is, its prediction and its errors; of one skipped only why."""
    rows = [
        {"row": number, "source_id": item.source_id, "skipped": item.reason}
        if isinstance(item, Skipped)
        else {
            "row": number,
            "source_id": item.row.source_id,
            "hardware": item.hardware,
            "model": item.model,
            "source": item.source,
            "measured_step_time_s": item.row.measured_step_s,
            "predicted_step_time_s": item.step_s,
            "predicted_low_s": item.low_s,
            "predicted_high_s": item.high_s,
            "naive_step_time_s": item.naive_s,
            "measured_peak_bytes": item.row.measured_memory_bytes,
            "predicted_peak_bytes": item.peak_bytes,
            "fits": item.fits,
            "time_error_pct": item.time_error_pct,
            "memory_error_pct": item.memory_error_pct,
            "naive_error_pct": item.naive_error_pct,
            "assumptions": "; ".join(item.row.assumptions),
        }
        for number, item in enumerate(found, 1)
    ]
    return pd.DataFrame(rows, columns=list(_PREDICTED)).astype(_PREDICTED)


def _chosen(table: str, **tables: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    if not table:
        built = (build() for build in tables.values())
        return next((frame for frame in built if len(frame)), pd.DataFrame())
    if table not in tables:
        raise ValueError(f"there is no table {table!r}; one of: {', '.join(tables)}")
    return tables[table]()


def _plans(found: Sweep) -> pd.DataFrame:
    """Write a row per plan: the best ones, numbered in their order, then the rest of the front."""
    numbers = [field.name for field in fields(Found) if field.name != "scenario"]
    columns = ["best", "pareto", *(field.name for field in fields(Plan)), *numbers]
    plans = [*found.best, *(one for one in found.pareto if one not in found.best)]
    rows = [
        {"best": place if place <= len(found.best) else None, "pareto": one in found.pareto}
        | asdict(Plan())
        | one.scenario["plan"]
        | {name: getattr(one, name) for name in numbers}
        for place, one in enumerate(plans, 1)
    ]
    return pd.DataFrame(rows, columns=columns).astype({"best": "Int64"})


def _records(kind: type[Any], items: Iterable[Any]) -> pd.DataFrame:
    names = [field.name for field in fields(kind)]
    return pd.DataFrame([[getattr(item, name) for name in names] for item in items], columns=names)


def _spread(frame: pd.DataFrame, column: str, unit: str) -> pd.DataFrame:
    """Put a column of mappings as one column per key, with the unit in its name."""
    kinds: list[Mapping[str, float]] = frame[column].tolist()
    return frame.drop(columns=column).join(pd.DataFrame(kinds, index=frame.index).add_suffix(unit))
