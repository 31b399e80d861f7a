"""What ``headroom run`` says of a benchmark of rows: how many were measured, and how far their predictions are off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.commands.cpu import with_this_cpu
from estimator.scenario.measurement import Measurement, rows_by_status, statuses_text
from estimator.scenario.problems import InputProblems
from estimator.scenario.units import counted
from estimator.validation.predicted_rows import PREDICTED, PredictedTable, predicted_table
from estimator.validation.predicted_rows.device import chip_of
from estimator.validation.score import Errors


@dataclass(frozen=True, kw_only=True)
class MeasuredRows:
    """Rows by their status, and what they should have been; ``unpredicted`` says why where there is nothing."""

    rows_by_status: dict[str, int]
    predicted_rows: PredictedTable | None = None
    unpredicted: str = ""


def measured_rows(measurement: Measurement, data: Path | None) -> MeasuredRows | None:
    """Sum up a measurement's rows, predicted on the chip that was measured; None where it has no rows.

    This CPU is measured first where no earlier command has.
    """
    if not measurement.rows:
        return None
    counts = rows_by_status(measurement.rows)
    if measurement.origin.format not in PREDICTED:
        return MeasuredRows(rows_by_status=counts)
    chip = chip_of(measurement)
    try:
        with_this_cpu({"cluster": {"chip": chip}}, data)
        table = predicted_table(measurement, chip)
    except InputProblems as error:
        return MeasuredRows(rows_by_status=counts, unpredicted="; ".join(one.message for one in error.problems))
    return MeasuredRows(rows_by_status=counts, predicted_rows=table, unpredicted=table.unpredicted)


def lines(found: MeasuredRows) -> list[str]:
    """Write the summary for a terminal: a line of counts, then one for each column that is predicted."""
    counts = found.rows_by_status
    text = [f"rows         {sum(counts.values()):,}: {statuses_text(counts)}"]
    if found.unpredicted:
        text.append(f"predicted    nothing: {found.unpredicted}")
    table = found.predicted_rows
    if table is not None and table.fits.oom_known:
        fits = table.fits
        rows = counted(fits.oom_known, "row")
        text.append(f"memory       {fits.oom_unfit:,} of {rows} that ran out of memory predicted not to fit")
    if table is None or not table.errors:
        return text
    text += [f"predicted    on {table.chip}", *_columns(table.errors)]
    if table.taken_errors:
        text += [f"predicted    on {table.taken}, taken for rows that name no GPU of the catalogue",
                 *_columns(table.taken_errors)]  # fmt: skip
    return text


def _columns(errors: Mapping[str, Errors]) -> list[str]:
    width = max(len(column) for column in errors)
    most_first = sorted(errors.items(), key=lambda item: -item[1].n)
    return [f"  {column:{width}}  {_errors(of)}" for column, of in most_first]


def _errors(errors: Errors) -> str:
    """Write errors of predictions: of half of the rows they are no larger than ±, whatever their signs."""
    rows = counted(errors.n, "row")
    if errors.median_ape is None or errors.bias is None:
        return rows
    bias = f"{abs(errors.bias):.1f}% too {'low' if errors.bias < 0 else 'high'}"
    return f"{rows}: {bias}" if errors.n == 1 else f"{rows}: median error ±{errors.median_ape:.1f}%, on average {bias}"
