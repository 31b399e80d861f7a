"""Tables: what every row of a measured table should have been, in the row's own columns.

A row says what was measured in columns that its benchmark or importer names; here it becomes a scenario, an op or a
collective, is priced by the formulas that price everything, and comes back as numbers of the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from estimator.scenario import catalog
from estimator.scenario.measurement import Measurement, status_of_row
from estimator.scenario.problems import InputProblems
from estimator.validation.predicted_rows import attention, collectives, sequence, steps, text_attention, toy_parallel
from estimator.validation.predicted_rows.device import TableDevice
from estimator.validation.predicted_rows.uncovered import UNKNOWN_ROWS, uncovered
from estimator.validation.score import Errors, errors

RowOf = Callable[[Mapping[str, Any], TableDevice], dict[str, float]]

PREDICTED: dict[str, RowOf] = {
    "step": steps.grid_row,
    "memory": steps.memory_row,
    "ddp": steps.variant_row,
    "attention": attention.attention_row,
    "collectives": collectives.run_row,
    "ulysses": sequence.layer_row,
    "text/step-times": steps.text_row,
    "text/data-parallel-steps": steps.text_data_parallel_row,
    "text/data-parallel-variants": toy_parallel.row,
    "text/collectives": collectives.text_row,
    "text/attention": text_attention.sweep_row,
    "text/attention-memory": text_attention.sweep_row,
    "text/speedups": text_attention.speedup_row,
    "text/attention-implementations": text_attention.implementations_row,
}
"""By the format of a measurement's origin: predictions of a row's columns, none where the row is not covered."""

NO_CHIP = "the measurement does not say what it ran on"
NOT_MEASURED = "none of its rows was measured"
ROW_NOT_MEASURED = "it was not measured"
ROW_WITHOUT_NUMBERS = "it has no number in a column that is predicted"
NO_NUMBERS = "its rows have no number in a column that is predicted"


@dataclass(frozen=True, kw_only=True)
class PredictedTable:
    """Predictions of a table on ``chip``, row by row ({} where there is none), and their errors by column.

    ``reasons`` says of each row why it has none, "" where it has; ``unpredicted`` why no row has one.
    """

    chip: str
    rows: tuple[dict[str, float], ...]
    reasons: tuple[str, ...]
    errors: dict[str, Errors]
    assumptions: tuple[str, ...]
    unpredicted: str


def predicted_table(measurement: Measurement, chip: str) -> PredictedTable:
    """Predict a measurement's rows as if measured on the catalogue's ``chip``; raise InputProblems if it has none.

    Without a chip, "", nothing is predicted. Columns are where the row has a number in them. Rows that no formula
    covers, and those that were not measured, stay empty.
    """
    if not chip:
        return unpredicted_table(measurement, NO_CHIP)
    place = TableDevice(chip=chip, ranks=max(1, measurement.world_size))
    row_of = PREDICTED.get(measurement.origin.format)
    name = measurement.device.get("name")
    if catalog.chip(chip).name == catalog.THIS_CPU and name and str(name) not in place.label:
        place.assume(f"this CPU, though another was measured ({name})")
    found = tuple(_row(row_of, row, place) if row_of else {} for row in measurement.rows)
    percent: dict[str, list[float]] = {}
    for row, predicted in zip(measurement.rows, found, strict=True):
        for column, value in predicted.items():
            percent.setdefault(column, []).append(100 * (value / row[column] - 1))
    return PredictedTable(
        chip=place.label,
        rows=found,
        reasons=tuple(_reasons(measurement, found, row_of, place)),
        errors={column: errors(some) for column, some in percent.items()},
        assumptions=tuple(place.assumed),
        unpredicted="" if percent else _why_not(measurement, row_of, place),
    )


def unpredicted_table(measurement: Measurement, why: str) -> PredictedTable:
    """Write that no row of a measurement has a prediction."""
    rows: tuple[dict[str, float], ...] = ({},) * len(measurement.rows)
    reasons = (why,) * len(rows)
    return PredictedTable(chip="", rows=rows, reasons=reasons, errors={}, assumptions=(), unpredicted=why)


def _reasons(
    measurement: Measurement, found: Sequence[Mapping[str, float]], row_of: RowOf | None, place: TableDevice
) -> Iterator[str]:
    for row, predicted in zip(measurement.rows, found, strict=True):
        if predicted:
            yield ""
        elif (status := status_of_row(row)) != "ok":
            yield f"{ROW_NOT_MEASURED}: {status}"
        elif row_of is None:
            yield UNKNOWN_ROWS
        else:
            formula = _formula(row_of, row, place)
            yield ROW_WITHOUT_NUMBERS if formula else uncovered(measurement.origin.format, [row])


def _why_not(measurement: Measurement, row_of: RowOf | None, place: TableDevice) -> str:
    if row_of is None:
        return UNKNOWN_ROWS
    rows = [row for row in measurement.rows if status_of_row(row) == "ok"]
    if not rows:
        return NOT_MEASURED
    return (
        NO_NUMBERS if any(_formula(row_of, row, place) for row in rows) else uncovered(measurement.origin.format, rows)
    )


def _row(row_of: RowOf, row: Mapping[str, Any], place: TableDevice) -> dict[str, float]:
    if status_of_row(row) != "ok":
        return {}
    return {
        column: value
        for column, value in _formula(row_of, row, place).items()
        if isinstance(row.get(column), (int, float)) and not isinstance(row[column], bool) and row[column] > 0
    }


def _formula(row_of: RowOf, row: Mapping[str, Any], place: TableDevice) -> dict[str, float]:
    try:
        return row_of(row, place)
    except InputProblems:  # not what its benchmark writes, or nothing that the estimator can build
        return {}
