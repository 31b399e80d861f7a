"""Logs in columns, a row for each step: what Lightning's CSVLogger, Weights & Biases and MLflow export.

Each row is said as a line of JSON would be; of MLflow's long form, a row for each metric, those of one step together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from app.importers.text.trainers import json_lines
from app.importers.text.trainers.log import Log

_NAMES, _VALUES, _STEPS = ("key", "metric", "tag", "name"), ("value",), ("step",)
_LEAST = 3
_OF_RUN = re.compile(r"(.{1,200}) - (.{1,120})")
_BESIDE = ("__min", "__max")
"""Columns that Weights & Biases writes beside each one of a chart: the smoothed line's least and most."""
_ASIDE = re.compile(r"^([\d.,]{1,30}) \([^()]{1,40}\)$")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3}){1,5}(?:\.\d{0,20})?")
_BY = ("step", "_step", "global_step", "train/global_step", "trainer/global_step")


def read(columns: Sequence[str], rows: Sequence[Sequence[str]], settings: Mapping[str, str]) -> Log | None:
    """Read steps that follow one another and say how long or how fast they were; None where they do not.

    ``settings``: what is said of the run elsewhere.
    """
    names = [name.strip("*` ").lower() for name in columns]
    objects = [
        {name: text for name, cell in zip(names, row, strict=True) if name and (text := _plain(cell))} for row in rows
    ]
    log = json_lines.of_objects(_by_step(names, objects) or objects, settings)
    if log is None or len(log.rows) < _LEAST or not log.steps_s:
        return None
    numbers = [row.get("step", 0) for row in log.rows]
    return log if all(before < after for before, after in pairwise(numbers)) else None


def _plain(cell: str) -> str:
    """A cell without emphasis, an aside behind its number, and commas between thousands: ``**7,199.5**``."""
    text = _ASIDE.sub(r"\1", cell.strip("*` "))
    return text.replace(",", "") if _THOUSANDS.fullmatch(text) else text


def runs_of_chart(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, Log]:
    """The log of each run of a chart that Weights & Biases exported; {} where it is none, or of no times and rates.

    Columns are ``Step``, then ``RUN - METRIC`` with ``…__MIN`` and ``…__MAX`` beside it.
    """
    names = [name.strip() for name in columns]
    beside = [at for at, name in enumerate(names) if name.lower().endswith(_BESIDE)]
    by = next((at for at, name in enumerate(names) if name.lower() in _BY), -1)
    if by < 0 or not beside:
        return {}
    metrics: dict[str, list[tuple[int, str]]] = {}
    for at, name in enumerate(names):
        if at not in beside and (hit := _OF_RUN.fullmatch(name)):
            metrics.setdefault(hit[1], []).append((at, hit[2]))
    found = {}
    for run, own in metrics.items():
        objects = [
            {"step": row[by].strip(), **{name: row[at].strip() for at, name in own if row[at].strip()}} for row in rows
        ]
        log = json_lines.of_objects([one for one in objects if len(one) > 1])
        if log is not None and len(log.rows) >= _LEAST:
            found[run] = log
    return found


def _by_step(names: Sequence[str], objects: Sequence[dict[str, str]]) -> list[dict[str, Any]]:
    """The metrics of each step in one object; [] where there is no row for each metric."""
    which, value, step = (
        next((name for name in names if name in some), "") for some in (_NAMES, _VALUES, _STEPS)
    )  # fmt: skip
    if not (which and value and step):
        return []
    found: dict[str, dict[str, Any]] = {}
    for one in objects:
        if {which, value, step} <= one.keys():
            others = {name: text for name, text in one.items() if name not in (which, value, step)}
            found.setdefault(one[step], {"step": one[step], **others})[one[which]] = one[value]
    return list(found.values())
