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
from app.importers.text.values.models import model_of
from app.importers.text.values.units import unit
from estimator.scenario.measurement import Measurement, Warning
from estimator.validation.spellings import sharding_of

_REMEDY = "Upload a PyTorch profiler trace, a result that Headroom wrote, or rows that name a time: step_ms, tokens/s."
_SHOWN = 6
_MOST_COLUMNS = 500


def unknown(names: Iterable[str]) -> ImportRefused:
    """The refusal of JSON in which nothing tells what it is, by some of its keys."""
    keys = ", ".join(name[:30] for name in islice(names, _SHOWN)) or "none"
    return ImportRefused("json", "byte 0", f"this JSON is of an unknown kind (keys: {keys})", _REMEDY)


def records(content: bytes) -> list[dict[str, Any]]:
    """The objects that the content is, lists or wraps, where any has a number; [] where it is anything else."""
    return next((found for found in _readings(content) if found), [])


def _readings(content: bytes) -> list[list[dict[str, Any]]]:
    """The content as one object or a list of them, then as the one list that an object wraps."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return []
    found = [document if isinstance(document, list) else [document]]
    if isinstance(document, dict):
        lists = [name for name, value in document.items() if isinstance(value, list) and _all_objects(value)]
        if len(lists) == 1:
            around = _flat({key: value for key, value in document.items() if key != lists[0]}, {})
            found.append([_under(around, one) for one in document[lists[0]]])
        keyed = _keyed(document)
        of_runs = keyed and any(column in keyed[0][0] for column in _RUNS) and not any(map(_plain, document.values()))
        found = [*keyed, *found] if of_runs else [*found, *keyed]
    return [each if _counted(each) else [] for each in found]


def _keyed(document: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Objects keyed by name that hold the same figures, as a list: all of an object, or one value of it."""
    for name, value in [("", document), *document.items()]:
        each = value.values() if isinstance(value, dict) else ()
        if len(each) >= _FEWEST_KEYED and all(isinstance(one, dict) for one in each) and _alike(list(each)):
            around = _flat({key: other for key, other in document.items() if name and key != name}, {})
            column = _what(list(value))
            return [[_under(around, {column: key, **one}) for key, one in value.items()]]
    return []


_FEWEST_KEYED = 2
_RUNS = ("strategy", "model")
"""What names that key objects may be of, so that these are runs and no parts of one."""


def _alike(each: list[dict[str, Any]]) -> bool:
    """Whether objects share a column with a number in every one."""
    numbers = [{key for key, value in _flat(one, {}).items() if _number(value)} for one in each]
    return bool(set.intersection(*numbers))


def _what(names: list[str]) -> str:
    """What names that key objects are, as the column of a table."""
    if all(sharding_of(name) for name in names):
        return "strategy"
    return "model" if all(model_of({"model": name}) for name in names) else "name"


def _all_objects(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(one, dict) for one in value)


def _counted(found: list[Any]) -> bool:
    return _all_objects(found) and any(any(map(_number, _flat(one, {}).values())) for one in found)


def _under(around: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """An object with what stands around its list, where it says nothing of that name itself."""
    own = {*one, *_flat(one, {})}
    return {**{key: value for key, value in around.items() if key not in own}, **one}


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read the objects as rows; raise ImportRefused where no column of theirs is a time, a rate or a size."""
    *others, last = [each for each in _readings(source.read("json")) if each] or [[]]
    for every in others:
        try:
            return _rows(every, source, filename, limits)
        except ImportRefused:
            continue
    return _rows(last, source, filename, limits)


def _rows(every: list[dict[str, Any]], source: Source, filename: str, limits: Limits) -> Imported:
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
    message = (
        "Lists, what is nested deeper than two objects, and means beside a value of their own name are no columns and "
        f"were left out: {shown}{more}"
    )
    return Warning(code="values-left-out", message=message)


def _flat(one: dict[str, Any], left: dict[str, None]) -> dict[str, Any]:
    """Plain values by name; those of an object inside by their own names, where no other has them, else by both.

    An object with a mean stands for that, wherever it is. ``left`` takes the names of what is neither.
    """
    one = _with_means(one, left, "")
    row = {key: value for key, value in one.items() if _plain(value)}
    inside = {key: _with_means(value, left, f"{key}.") for key, value in one.items() if isinstance(value, dict)}
    names = Counter(name for value in inside.values() for name in value)
    for key, value in one.items():
        if not _plain(value) and not isinstance(value, dict):
            left[key] = None
    for key, value in inside.items():
        for name, what in value.items():
            if not _plain(what):
                left[f"{key}.{name}"] = None
            elif key in _DEVICES and name in _HOW_MANY:
                row.setdefault("gpus", what)
            else:
                row.setdefault(name if names[name] == 1 and name not in one else f"{key} {name}", what)
    return row


def _with_means(one: dict[str, Any], left: dict[str, None], within: str) -> dict[str, Any]:
    """An object with means in place of the objects that say them, where none of its own values has that name."""
    found = {}
    for key, value in one.items():
        name, what = _mean(key, value)
        if name != key and name in one:
            left[f"{within}{key}"] = None
        else:
            found[name] = what
    return found


_DEVICES, _HOW_MANY = ("hardware", "gpu", "gpus", "device", "devices", "cluster"), ("count", "n", "num", "number")


def _mean(name: str, value: Any) -> tuple[str, Any]:
    """Of an object that says a mean, or else a median, that, with the unit of its name; anything else as it is."""
    if not isinstance(value, dict):
        return name, value
    for word in _MEANS:
        for key in value:
            what, _, printed = key.partition("_")
            if what == word and (not printed or unit(printed)) and _plain(value[key]):
                return f"{name}_{printed}" if printed else name, value[key]
    return name, value


_MEANS = ("mean", "avg", "average", "median")


def _written(value: Any) -> str:
    return "" if value is None else " ".join(str(value).split())


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
