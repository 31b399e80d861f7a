"""Measured runs: rows of the table that ``headroom validate`` reads, predicted as it does, under the same columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.units import GIB
from estimator.validation.predicted_rows.device import NEEDED, TableDevice
from estimator.validation.score import Skipped, predict_rows

RATES = ("measured_tokens_per_s_per_gpu", "measured_tflops_per_gpu", "measured_mfu")
"""Columns that say the step's time as a rate; by each source's own convention of FLOPs."""
OWN = "own"
"""The name of a chip of one's own that has none."""


def run_row(row: Mapping[str, Any], place: TableDevice) -> dict[str, float]:
    """Predict a run on the chip of its row; raise InputProblems saying why it cannot be."""
    cells = {name: _cell(value) for name, value in row.items()} | {"hardware": place.hardware.name.strip() or OWN}
    own = {} if isinstance(place.chip, str) else {cells["hardware"]: place.chip}
    (found,) = predict_rows([cells], place.calibration, own)
    if isinstance(found, Skipped) and found.needed_bytes:
        return {NEEDED: found.needed_bytes}
    if isinstance(found, Skipped):
        remedy = "Correct the row, and import the table again."
        raise InputProblems([Problem(field=found.source_id or "row", message=found.reason, remedy=remedy)])
    for words in found.row.assumptions:
        place.assume(words)
    parts = {f"measured_{part}_s": seconds for part, seconds in found.parts_s.items()}
    both_s = found.parts_s["forward"] + found.parts_s["backward"]
    measured_s = found.row.measured_step_s
    rates = {name: row[name] * measured_s / found.step_s for name in RATES if measured_s and _number(row.get(name))}
    return {
        **parts,
        "measured_forward_backward_s": both_s,
        "measured_step_time_s": found.step_s,
        "measured_peak_mem_gib": found.peak_bytes / GIB,
        **rates,
    }


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cell(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
