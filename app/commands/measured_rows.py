"""What ``headroom run`` says of a benchmark of rows: how many were measured, and how far their predictions are off."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from app.commands.cpu import with_this_cpu
from app.this_cpu import KEY
from estimator.measurement import Measurement
from estimator.problems import InputProblems
from estimator.score import Errors
from estimator.tables import PREDICTED, PredictedTable, predicted_table


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
    counts = dict(Counter(str(row.get("status", "ok")) for row in measurement.rows).most_common())
    if measurement.origin.format not in PREDICTED:
        return MeasuredRows(rows_by_status=counts)
    chip = KEY if measurement.device.get("kind") == "cpu" else str(measurement.device.get("name") or "")
    try:
        with_this_cpu({"cluster": {"chip": chip}}, data)
        table = predicted_table(measurement, chip)
    except InputProblems as error:
        return MeasuredRows(rows_by_status=counts, unpredicted=str(error))
    why = "" if table.errors else "no row has a number that the estimator knows"
    return MeasuredRows(rows_by_status=counts, predicted_rows=table, unpredicted=why)


def lines(found: MeasuredRows) -> list[str]:
    """Write the summary for a terminal: a line of counts, then one for each column that is predicted."""
    total = sum(found.rows_by_status.values())
    counts = ", ".join(f"{count} {status}" for status, count in found.rows_by_status.items())
    text = [f"rows         {total}: {counts}"]
    if found.unpredicted:
        text.append(f"predicted    nothing: {found.unpredicted}")
    table = found.predicted_rows
    if table is None or not table.errors:
        return text
    text.append(f"predicted    on {table.chip}")
    width = max(len(column) for column in table.errors)
    most_first = sorted(table.errors.items(), key=lambda item: -item[1].n)
    return text + [f"  {column:{width}}  {_errors(errors)}" for column, errors in most_first]


def _errors(errors: Errors) -> str:
    rows = f"{errors.n} row{'' if errors.n == 1 else 's'}"
    if errors.median_ape is None or errors.bias is None:
        return rows
    return f"{rows}, off by {errors.median_ape:.1f}% in the median, {errors.bias:+.1f}% on average"
