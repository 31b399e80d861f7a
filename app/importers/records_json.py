"""Results of one's own in JSON: an object is a row of its plain values, a list of them a table, read as text is."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

from app.importers import text
from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.source import Source
from app.importers.text.kinds import generic
from app.importers.text.reading import MEASURED
from estimator.scenario.measurement import Measurement, Warning

_REMEDY = "Upload a PyTorch profiler trace, a result that Headroom wrote, or rows that name a time: step_ms, tokens/s."
_SHOWN = 6
_MOST_COLUMNS = 500


def unknown(names: Iterable[str]) -> ImportRefused:
    """The refusal of JSON in which nothing tells what it is, by some of its keys."""
    keys = ", ".join(name[:30] for name in islice(names, _SHOWN)) or "none"
    return ImportRefused("json", "byte 0", f"this JSON is of an unknown kind (keys: {keys})", _REMEDY)


def records(content: bytes) -> list[dict[str, Any]]:
    """The objects that the content is or lists, where any has a number; [] where it is anything else."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return []
    found = document if isinstance(document, list) else [document]
    numbers = (isinstance(one, dict) and any(map(_number, _flat(one, {}).values())) for one in found)
    return found if all(isinstance(one, dict) for one in found) and any(numbers) else []


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read the objects as rows; raise ImportRefused where no column of theirs is a time, a rate or a size."""
    every = records(source.read("json"))
    objects = every[: limits.rows]
    refused = unknown(dict.fromkeys(key for one in objects for key in one))
    rows, left = [], dict[str, None]()
    for one in objects:
        rows.append(_flat(one, left))
    names = list(dict.fromkeys(key for row in rows for key in row))
    if not names or len(names) > _MOST_COLUMNS:
        raise refused
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _written(value) for key, value in row.items()} for row in rows)
    try:
        found = text.read_text(out.getvalue(), filename, limits, headers=source.headers)
    except ImportRefused:
        raise refused from None
    measured = any(name.endswith(MEASURED) for one in found.measurements for row in one.rows for name in row)
    if not measured and all(one.origin.format == f"text/{generic.KIND}" for one in found.measurements):
        raise refused
    warnings = [_left_out(left)] if left else []
    return dataclasses.replace(
        found,
        measurements=tuple(_saying(one, warnings) for one in found.measurements),
        warnings=(*warnings, *found.warnings),
        skipped=found.skipped + len(every) - len(objects),
    )


def _saying(one: Measurement, warnings: list[Warning]) -> Measurement:
    return dataclasses.replace(one, warnings=(*warnings, *one.warnings))


def _left_out(names: Iterable[str]) -> Warning:
    every = list(names)
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    shown = ", ".join(name[:30] for name in every[:_SHOWN])
    message = f"Lists, and what is nested deeper than two objects, are no columns and were left out: {shown}{more}"
    return Warning(code="values-left-out", message=message)


def _flat(one: dict[str, Any], left: dict[str, None]) -> dict[str, Any]:
    """Plain values by name; those of an object inside by their own names, where no other has them, else by both.

    ``left`` takes the names of what is neither.
    """
    row = {key: value for key, value in one.items() if _plain(value)}
    inside = {key: value for key, value in one.items() if isinstance(value, dict)}
    names = Counter(name for value in inside.values() for name in value)
    for key, value in one.items():
        if not _plain(value) and not isinstance(value, dict):
            left[key] = None
    for key, value in inside.items():
        for name, what in value.items():
            if not _plain(what):
                left[f"{key}.{name}"] = None
            else:
                row[name if names[name] == 1 and name not in one else f"{key} {name}"] = what
    return row


def _written(value: Any) -> str:
    return "" if value is None else " ".join(str(value).split())


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
