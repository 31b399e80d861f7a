"""Uncovered: why no row of a measured table has a prediction, in words for people."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from estimator.scenario import catalog
from estimator.scenario.problems import InputProblems
from estimator.validation.spellings import LENGTH_COLUMNS, MODEL_COLUMNS

UNKNOWN_ROWS = "the estimator has no formula for such rows"
PROBES = "probes"
PROBES_ROWS = (
    "they are probes of a device, which make a calibration and are no step: Calibrated, among Explore's settings, makes"
    " one of them, as headroom calibrate does"
)
SUBJECTS = {
    "step": ("mode {}", "mode"),
    "memory": ("the peak of {} alone", "pass"),
    "ddp": ("{}", "variant", "precision"),
    "attention": ("{}", "implementation", "precision"),
    "collectives": ("{}", "kind"),
    "ulysses": ("{}", "step"),
    "text/collectives": ("{}", "kind"),
    "text/step-memory": ("the peak of {} alone", "pass"),
}
"""By the format of a measurement's origin: how to say what a row is of, and its columns that do."""
LIBRARY = {"collectives": "library", "text/collectives": "backend"}
STEPS_OF_TEXT = ("text/step-times", "text/step-memory", "text/data-parallel-steps")
SHOWN = 3
LONGEST = 40


def unknown_rows(form: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Say why rows of no known kind are not predicted: what they lack, where they hold times or rates of a step."""
    if form == PROBES:
        return PROBES_ROWS
    if form != TABLE:
        return UNKNOWN_ROWS
    lacking = [name for name, columns in NEEDED_COLUMNS.items() if not any(row.get(c) for row in rows for c in columns)]
    if not any(row.get(name) for row in rows for name in OF_A_STEP):
        *others, last = *lacking, "step (ms)"
        words = f"{', '.join(others)} and {last}" if others else last
        return (
            f"of a table of steps it lacks {words} (or another time or rate): docs/importing.md, Columns of a table of"
            " step times, lists the names that its columns may have"
        )
    words = " and ".join(lacking) or "model of the catalogue"
    return f"its rows hold times or rates of a step, but name no {words}: write each into a column of that name"


NAMED = (
    "write its name (CS336 in the heading will do for cs336-small), all digits of its parameters in a column params,"
    " or its n_layers, d_model and n_heads beside hardware, seq_len and global_batch"
)
TABLE = "text/table"
OF_A_STEP = ("step_s", "step_time_s", "forward_s", "backward_s", "forward_backward_s", "tokens_per_s", "samples_per_s",
             "tokens_per_s_per_gpu", "steps_per_s", "time_s", "iteration_s", "iter_time_s")  # fmt: skip
NEEDED_COLUMNS = {"model": MODEL_COLUMNS, "seq_len": LENGTH_COLUMNS}


def uncovered(form: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Say why rows that no formula covers are not: the library, the model, or else what they are of."""
    if form in LIBRARY:
        libraries = _words(row.get(LIBRARY[form]) for row in rows)
        if not {"nccl", "gloo"}.intersection(libraries):
            ran = f"its rows ran over {_listed(libraries)}" if libraries else "its rows do not say what they ran over"
            return f"{ran}, and only NCCL and gloo are predicted"
    models = _words(row.get("model") for row in rows)
    if form.startswith("text/") and models and not any("catalogue_model" in row for row in rows):
        near = _near(models[:SHOWN])
        return f"its rows do not tell which model of the catalogue {_listed(models)} is{near}: {NAMED}"
    known = [row for row in rows if "catalogue_model" in row]
    if form in STEPS_OF_TEXT and known and not any(row.get("seq_len") for row in known):
        return "the table states no sequence length: write it into a column seq_len (or sequence length, context)"
    if form in ("step", "memory", "ddp") and models and not any(map(_in_catalogue, models)):
        return f"the catalogue has no model {_listed(models)}"
    if form not in SUBJECTS:
        return UNKNOWN_ROWS
    how, *columns = SUBJECTS[form]
    subjects = _words(" in ".join(_words(row.get(column) for column in columns)) for row in rows)
    return f"the estimator has no formula for {how.format(_listed(subjects))}" if subjects else UNKNOWN_ROWS


def _near(names: Sequence[str]) -> str:
    """The catalogue's names that look most like unknown ones, in words; "" where none does."""
    keys = [entry.key for entry in catalog.entries("models")]
    near = dict.fromkeys(key for name in names for key in difflib.get_close_matches(name.lower(), keys, n=3))
    return f" (the nearest names are {', '.join(list(near)[:SHOWN])})" if near else ""


def _words(values: Iterable[object]) -> list[str]:
    """Write each value once, cut short: a file may have put anything there."""
    return list(dict.fromkeys(str(value)[:LONGEST] for value in values if value not in (None, "")))


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return f"{', '.join(words[:SHOWN])}{more}"


def _in_catalogue(name: str) -> bool:
    try:
        catalog.model(name)
    except InputProblems:
        return False
    return True
