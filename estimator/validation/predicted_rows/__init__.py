"""Tables: what every row of a measured table should have been, in the row's own columns.

A row says what was measured in columns that its benchmark or importer names; here it becomes a scenario, an op or a
collective, is priced by the formulas that price everything, and comes back as numbers of the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from estimator.cost.efficiency import Calibrated
from estimator.scenario import catalog
from estimator.scenario.hardware import Chip
from estimator.scenario.measurement import OOM, Measurement, status_of_row
from estimator.scenario.problems import InputProblems, either
from estimator.validation.predicted_rows import (
    attention,
    collectives,
    measured_runs,
    said_scenario,
    sequence,
    steps,
    text_attention,
    text_steps,
    toy_parallel,
)
from estimator.validation.predicted_rows.device import NEEDED, TableDevice, chip_named, chips_said
from estimator.validation.predicted_rows.uncovered import UNKNOWN_ROWS, uncovered, unknown_rows
from estimator.validation.score import Errors, errors, ran_out
from estimator.validation.spellings import LONGEST_NAME, chips_of_row, gpu_of_row

RowOf = Callable[[Mapping[str, Any], TableDevice], dict[str, float]]

PREDICTED: dict[str, RowOf] = {
    "step": steps.grid_row,
    "memory": steps.memory_row,
    "ddp": steps.variant_row,
    "attention": attention.attention_row,
    "collectives": collectives.run_row,
    "ulysses": sequence.layer_row,
    "text/step-times": text_steps.text_row,
    "text/step-memory": text_steps.text_memory_row,
    "text/data-parallel-steps": text_steps.text_data_parallel_row,
    "text/data-parallel-variants": toy_parallel.row,
    "text/collectives": collectives.text_row,
    "text/attention": text_attention.sweep_row,
    "text/attention-memory": text_attention.sweep_row,
    "text/speedups": text_attention.speedup_row,
    "text/measured-runs": measured_runs.run_row,
    "text/attention-implementations": text_attention.implementations_row,
}
"""By the format of a measurement's origin: predictions of a row's columns, none where the row is not covered."""

NO_CHIP = "the measurement does not say what it ran on"
NOT_MEASURED = "none of its rows was measured"
ROW_NOT_MEASURED = "it was not measured"
ROW_WITHOUT_NUMBERS = "it has no number in a column that is predicted"
NO_NUMBERS = "its rows have no number in a column that is predicted"


@dataclass(frozen=True, kw_only=True)
class Fits:
    """Rows that ran out of memory, how many of them have a predicted need, and how many do not fit by it.

    ``ran`` and ``ran_unfit``: the same of the rows that ran.
    """

    oom: int = 0
    oom_known: int = 0
    oom_unfit: int = 0
    ran: int = 0
    ran_unfit: int = 0


@dataclass(frozen=True, kw_only=True)
class PredictedTable:
    """Predictions of a table on ``chip``, row by row ({} where there is none), and their errors by column.

    ``reasons`` says of each row why it has none, "" where it has; ``unpredicted`` why no row has one; ``doubt`` what
    is likely wrong where every prediction of an imported table is far off. Where rows name their own GPU and others do
    not, ``errors`` are of those that do, and ``taken_errors`` of the others, for which ``chip`` was taken. ``names``:
    what each name of a GPU in the rows of an imported table was taken for, "" where for none. ``fits``: whether what
    ran out of memory is predicted to.
    """

    chip: str
    rows: tuple[dict[str, float], ...]
    reasons: tuple[str, ...]
    errors: dict[str, Errors]
    assumptions: tuple[str, ...]
    unpredicted: str
    doubt: str = ""
    taken_errors: dict[str, Errors] = field(default_factory=dict)
    taken: str = ""
    names: dict[str, str] = field(default_factory=dict)
    fits: Fits = Fits()


def predicted_table(
    measurement: Measurement, chip: str | Chip, calibration: Calibrated | None = None
) -> PredictedTable:
    """Predict a measurement's rows as if measured on the catalogue's ``chip``; raise InputProblems if it has none.

    ``chip`` may be one's own; ``calibration`` as for an estimate. Without a chip, "", only rows of a text that name
    their own in a column ``gpu`` are predicted; each of those stays on it, or on what people said that its name is,
    whatever ``chip`` is. Columns are where the row has a number in them. Rows
    that no formula covers, and those that were not measured, stay empty.
    """
    row_of, unknown = _formula_of(measurement, chip)
    assumed: dict[str, None] = {}

    @cache
    def place_of(key: str | Chip) -> TableDevice:
        ranks = max(1, measurement.world_size)
        return TableDevice(chip=key, ranks=ranks, calibration=calibration, assumed=assumed)

    name = measurement.device.get("name")
    if chip and place_of(chip).hardware.name == catalog.THIS_CPU and name and str(name) not in place_of(chip).label:
        place_of(chip).assume(f"this CPU, though another was measured ({name})")
    form, said = measurement.origin.format, chips_said(measurement)
    own = [_chip_of_row(row, chip, form, said) for row in measurement.rows]
    if not chip and not any(key for key, _ in own):
        whys = dict.fromkeys(why for _, why in own) or {NO_CHIP: None}
        why = "; ".join(whys) if row_of else unknown
        return replace(unpredicted_table(measurement, why), names=_names(measurement, [None] * len(own)))
    for key, why in own:
        if key and why and why != NO_CHIP:
            place_of(key).assume(why)
    places = [place_of(key) if key else None for key, _ in own]
    formulas = [
        _formula(row_of, row, place) if row_of and place and status_of_row(row) in ("ok", OOM) else {}
        for row, place in zip(measurement.rows, places, strict=True)
    ]
    if starts := _starts(measurement):
        formulas[0] = {}
    found = tuple(map(_columns, measurement.rows, formulas))
    needs = [
        (status_of_row(row), formula.get(NEEDED, 0.0), place.hardware.memory_bytes if place else 0.0)
        for row, formula, place in zip(measurement.rows, formulas, places, strict=True)
    ]
    percent: dict[str, list[float]] = {}
    of_taken: dict[str, list[float]] = {}
    mixed = any(predicted and not why for predicted, (_, why) in zip(found, own, strict=True))
    for row, predicted, (_, why) in zip(measurement.rows, found, own, strict=True):
        for column, value in predicted.items():
            (of_taken if mixed and why else percent).setdefault(column, []).append(100 * (value / row[column] - 1))
    labels = dict.fromkeys(place.label for place in places if place) or {place_of(chip).label: None}
    reasons = tuple(
        why
        if place is None
        else _out_of_memory(*need)
        or (starts if row is measurement.rows[0] else "")
        or _reason(measurement.origin.format, row, predicted, row_of, place, unknown)
        for row, predicted, place, (_, why), need in zip(measurement.rows, found, places, own, needs, strict=True)
    )
    return PredictedTable(
        chip=", ".join(labels),
        rows=found,
        reasons=reasons,
        errors={column: errors(some) for column, some in percent.items()},
        assumptions=tuple(assumed),
        unpredicted="" if percent else _why_not(measurement, row_of, places, reasons, unknown),
        doubt=_doubt(measurement.origin.format, percent),
        taken_errors={column: errors(some) for column, some in of_taken.items()},
        taken=place_of(chip).label if of_taken else "",
        names=_names(measurement, places),
        fits=_fits(needs),
    )


def _formula_of(measurement: Measurement, chip: str | Chip) -> tuple[RowOf | None, str]:
    """What predicts each row of a measurement, else why nothing does."""
    form = measurement.origin.format
    if form in PREDICTED or not form.startswith(LOGS):
        return PREDICTED.get(form), unknown_rows(form, measurement.rows)
    found = said_scenario.scenario_of_log(measurement, chip)
    if isinstance(found, str):
        return None, found.removesuffix(".")
    return lambda row, place: said_scenario.log_row(found, place), UNKNOWN_ROWS


LOGS = ("log/", "tensorboard", "trainer-state", "golden-values")
"""How formats begin whose rows are steps of one run."""


def _starts(measurement: Measurement) -> str:
    """Why the first row of a log is held against nothing; "" where it is a step like any other."""
    slow = any(one.code in ("first-step-slow", "first-step-left-out") for one in measurement.warnings)
    return "the first logged step may hold start-up work" if slow and measurement.rows else ""


def _fits(needs: Sequence[tuple[str, float, float]]) -> Fits:
    oom = [(needed, there) for status, needed, there in needs if status == OOM]
    ran = [(needed, there) for status, needed, there in needs if status == "ok" and needed]
    return Fits(
        oom=len(oom),
        oom_known=sum(needed > 0 for needed, _ in oom),
        oom_unfit=sum(needed > there for needed, there in oom if needed),
        ran=len(ran),
        ran_unfit=sum(needed > there for needed, there in ran),
    )


def _out_of_memory(status: str, needed: float, there: float) -> str:
    """Why a row that ran out of memory has no prediction: what it is predicted to need; "" where nothing tells."""
    if status != OOM or not needed:
        return ""
    return ran_out(needed, there)


MOST_REASONS = 3
FAR = 3.0
"""By how many times every prediction of a table is off where it is not the estimator that is likely wrong."""


ABOUT_A_THOUSAND = (300.0, 3000.0)
"""What two units of time that follow one another are apart by, and how far predictions may be off beside it."""


def _doubt(form: str, percent: Mapping[str, Sequence[float]]) -> str:
    times = [1 + error / 100 for name, some in percent.items() if name.endswith("_s") and not name.endswith("per_s")
             for error in some]  # fmt: skip
    low, high = ABOUT_A_THOUSAND
    if form.startswith(("text/", *LOGS)) and times:
        if all(low < 1 / ratio < high for ratio in times):
            return "every time is about 1000 times its prediction: is its unit ms? Write it behind the number or header"
        if all(low < ratio < high for ratio in times):
            return "every time is about a thousandth of its prediction: is its unit s? Write it into the header"
    ratios = [1 + error / 100 for some in percent.values() for error in some]
    if not form.startswith("text/") or not ratios or any(1 / FAR < ratio < FAR for ratio in ratios):
        return ""
    return "every prediction is more than 3 times off: something assumed, or a unit of the table, is likely wrong"


def _names(measurement: Measurement, places: Sequence[TableDevice | None]) -> dict[str, str]:
    """What each name of a GPU in the rows of a text was taken for, the rows' order."""
    if not measurement.origin.format.startswith("text/"):
        return {}
    named = ((gpu_of_row(row), place) for row, place in zip(measurement.rows, places, strict=True))
    return {name: place.label if place else "" for name, place in named if name}


def _chip_of_row(
    row: Mapping[str, Any], chip: str | Chip, form: str, said: Mapping[str, str | Chip]
) -> tuple[str | Chip, str]:
    """The chip of a row, its own where it names one, else the table's ``chip``; "", and why, where nothing tells.

    ``said``: what people say that names are.
    """
    if not form.startswith("text/") or not gpu_of_row(row):
        return chip, NO_CHIP
    if found := chip_named(row, said):
        return found, ""
    named, name = chips_of_row(row), gpu_of_row(row)[:LONGEST_NAME]
    table = chip if isinstance(chip, Chip) else catalog.chip(chip) if chip else None
    if named:
        if table and table.name in named:
            return chip, ""
        column = "gpu" if "gpu" in row else "hardware"
        return "", f"{name} may be {either(named)}: write which into the column {column}"
    unknown = f"the catalogue has no GPU {name!r}"
    if table:
        return chip, f"{unknown}, so {table.label or table.name} is taken"
    return "", f"{unknown}: choose one that is like it under “On what?”, or add it (docs/adding_a_gpu.md)"


def unpredicted_table(measurement: Measurement, why: str) -> PredictedTable:
    """Write that no row of a measurement has a prediction."""
    rows: tuple[dict[str, float], ...] = ({},) * len(measurement.rows)
    reasons = (why,) * len(rows)
    return PredictedTable(chip="", rows=rows, reasons=reasons, errors={}, assumptions=(), unpredicted=why)


def _reason(
    form: str,
    row: Mapping[str, Any],
    predicted: Mapping[str, float],
    row_of: RowOf | None,
    place: TableDevice,
    unknown: str,
) -> str:
    if predicted:
        return ""
    if (status := status_of_row(row)) != "ok":
        return f"{ROW_NOT_MEASURED}: {status}"
    if row_of is None:
        return unknown
    if _formula(row_of, row, place):
        return ROW_WITHOUT_NUMBERS
    return (_refusal(row_of, row, place) if form.startswith("text/") else "") or uncovered(form, [row])


def _refusal(row_of: RowOf, row: Mapping[str, Any], place: TableDevice) -> str:
    """What of an imported row does not fit together."""
    try:
        row_of(row, place)
    except InputProblems as error:
        return "; ".join(f"{one.field}: {one.message}" for one in error.problems[:3])
    return ""


def _why_not(
    measurement: Measurement,
    row_of: RowOf | None,
    places: Sequence[TableDevice | None],
    reasons: Sequence[str],
    unknown: str,
) -> str:
    if row_of is None:
        return unknown
    rows = [(row, place) for row, place in zip(measurement.rows, places, strict=True) if status_of_row(row) == "ok"]
    if not rows:
        return NOT_MEASURED
    same = list(dict.fromkeys(reasons))
    if any(_formula(row_of, row, place) for row, place in rows if place):
        others = [why for why in same if why != ROW_WITHOUT_NUMBERS]
        return "; ".join(["some of its rows have no number in a column that is predicted", *others[:MOST_REASONS]]
                         if others else [NO_NUMBERS])  # fmt: skip
    why = same[0] if len(same) == 1 else uncovered(measurement.origin.format, [row for row, _ in rows])
    return why if why != UNKNOWN_ROWS or UNKNOWN_ROWS in same else "; ".join(same[:MOST_REASONS])


def _columns(row: Mapping[str, Any], formula: Mapping[str, float]) -> dict[str, float]:
    if status_of_row(row) != "ok":
        return {}
    return {
        column: value
        for column, value in formula.items()
        if isinstance(row.get(column), (int, float)) and not isinstance(row[column], bool) and row[column] > 0
    }


def _formula(row_of: RowOf, row: Mapping[str, Any], place: TableDevice) -> dict[str, float]:
    try:
        return row_of(row, place)
    except InputProblems:  # not what its benchmark writes, or nothing that the estimator can build
        return {}
