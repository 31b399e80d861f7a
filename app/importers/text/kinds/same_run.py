"""Same run: which rows of tables of step times are steps of one run, and which stood in an earlier table already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.importers.text.kinds.run_cells import COUNTS
from estimator.scenario.measurement import Measurement, Warning
from estimator.scenario.units import counted

_TIMES = ("forward", "backward", "forward_backward", "step", "optimizer")


def steps_of_one_run(rows: Sequence[dict[str, Any]]) -> tuple[float, ...]:
    """Seconds of the steps of a table whose rows are all of one run, by everything that they say of it; () else."""
    if not rows or not all(row.get("catalogue_model") and row.get("status") == "ok" for row in rows):
        return ()
    settings = [{name: value for name, value in row.items() if name in _OF_THE_RUN} for row in rows]
    times = [row.get("step_s") for row in rows]
    if any(other != settings[0] for other in settings) or not all(isinstance(one, float) and one > 0 for one in times):
        return ()
    numbered = len(times) > 2 and any("step" in row or "iteration" in row for row in rows)
    return tuple(float(one or 0.0) for one in times[1 if numbered else 0 :])


_OF_THE_RUN = {
    "model", "gpu", "device", "precision", "sharding", "strategy", "recompute", "compile", "attention", "offload",
    "optimizer", "optimizer_kernel", "framework", "gradient_accumulation", "variant", "config", "name", "run",
    "implementation", "parameters", *(name for _, name in COUNTS),
}  # fmt: skip
"""Columns that say what ran; rows that differ in one are of different runs."""


def mark_repeats(measurements: Sequence[Measurement]) -> list[Warning]:
    """Mark rows that stood in an earlier table already: all settings that both state, the times and their spreads.

    Rows of one table are no repeats of each other: its author wrote each for something that no column may say.
    """
    seen: dict[tuple[Any, ...], list[tuple[dict[str, Any], str]]] = {}
    repeats, figures, where = 0, 0, ""
    for measurement in measurements:
        own: dict[tuple[Any, ...], list[tuple[dict[str, Any], str]]] = {}
        for row in measurement.rows:
            times = tuple((key, row[key]) for key in sorted(row) if _is_time(key) and row[key] is not None)
            if not times:
                continue
            key = (row.get("model"), row.get("seq_len"), row.get("precision"), row.get("compile"), times)
            settings = _settings(row)
            label = next((label for other, label in seen.get(key, []) if _agree(settings, other)), None)
            if label is not None:
                row["duplicate_of"] = label
                repeats += 1
                where = where or measurement.label
                figures += sum(not name.endswith("_std_s") for name, _ in times)
            elif len(seen.get(key, [])) + len(own.get(key, [])) < _MOST_ALIKE:
                own.setdefault(key, []).append((settings, measurement.label))
        for key, some in own.items():
            seen.setdefault(key, []).extend(some)
    if not repeats:
        return []
    message = (
        f"{counted(repeats, 'row')} ({counted(figures, 'timing')}) of earlier tables stand here again, to the last "
        "digit; they are kept, marked duplicate_of, and must not be counted twice"
    )
    return [Warning(code="duplicate-rows", message=message, where=where)]


_MOST_ALIKE = 100
"""Rows of equal times that another one is held against."""
_NO_SETTINGS = {"status", "iterations", "parameters", "catalogue_model", "duplicate_of"}


def _settings(row: dict[str, Any]) -> dict[str, Any]:
    """What a row says of how it was measured: words and counts, no figures."""
    return {
        key: value
        for key, value in row.items()
        if isinstance(value, (str, int)) and key not in _NO_SETTINGS and not _is_time(key)
    }


def _agree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(other[key] == value for key, value in one.items() if key in other)


def _is_time(key: str) -> bool:
    return key.endswith("_s") and any(key.startswith(name) for name in _TIMES)
