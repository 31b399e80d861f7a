"""Logs in lines of JSON, an object for each step: DLLogger (``DLLL {…}``), LLaMA-Factory (trainer_log.jsonl), others.

Each object is said in the words of ``app.importers.text.trainers.loop``, which knows what names and units mean.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from app.importers.names import column_name
from app.importers.text.trainers import loop
from app.importers.text.trainers.log import Log
from app.importers.text.trainers.settings import with_settings
from app.importers.text.values.units import unit as unit_of
from estimator.scenario.measurement import Warning

_OBJECT = re.compile(r"\s{0,20}(?:DLLL |.{0,120}\bjson_stats: )?(\{.{2,8000}\}),?\s*")
_STEPS = (
    "step",
    "global_step",
    "current_steps",
    "iteration",
    "iter",
    "cur_iter",
    "_step",
    "train/global_step",
    "trainer/global_step",
)
_SINCE_START = {"elapsedtime": "elapsed", "_runtime": "elapsed", "elapsed_s": "elapsed"}
_STAMPS = ("timestamp", "_timestamp", "time", "ts", "datetime", "asctime")
_SHOWN_UNITS = ("_s", "_bytes", "_frac")
_UNIT = re.compile(r"(.{1,80}?)\s?\(([A-Za-z%]{1,8})\)")
"""Behind a name, as TensorBoard's tags have it: ``mfu(%)``."""
_CLOCK = re.compile(r"(?:(\d{1,4}) days?, )?(\d{1,4}):(\d\d):(\d\d(?:\.\d{1,6})?)")
_FIRST = re.compile(r"time|sec|elapsed|tok|throughput|_s$|mfu|loss", re.IGNORECASE)
_LEAST, _MOST_LETTERS, _MOST_FIELDS, _DEEPEST = 2, 560, 24, 3
_YEAR_2000_S, _YEAR_2100_S = 946_684_800, 4_102_444_800


def read(lines: Sequence[str]) -> Log | None:
    """Read its steps, else its rows where it is nothing but objects; None where it is no such log."""
    objects = [found for line in lines if (found := _object(line))]
    if len(objects) < _LEAST:
        return None
    if log := of_objects(objects):
        return log
    if len(objects) < sum(bool(line.strip()) for line in lines):
        return None
    rows = [
        {column_name(name) or "value": number for name, number in [*_amounts(one)][:_MOST_FIELDS]} for one in objects
    ]
    message = "No two of its lines say a step and its time or rate, so the log gives no step time"
    return Log(rows=tuple(row for row in rows if row), warnings=(Warning(code="no-step-time", message=message),))


def of_objects(
    objects: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
) -> Log | None:
    """The log of objects that say a step and its time or rate; None where fewer than three do.

    ``settings``: what else is said of the run, ``model`` as a scenario has one.
    """
    log = loop.read([text for one in objects if (text := _in_words(one))])
    return with_settings(log, _settings([settings or {}, *objects]), model) if log else None


def _settings(objects: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """All that is said by name, as it is said first; of what is nested the innermost name."""
    first: dict[str, object] = {}
    waiting = [(one, 1) for one in objects]
    for one, depth in waiting:  # grows while it is read
        for key, value in one.items():
            if isinstance(value, dict) and depth < _DEEPEST:
                waiting.append((value, depth + 1))
            elif key not in first and isinstance(value, (str, bool, int, float)):
                first[key] = value
    found: dict[str, str] = {}
    for key, value in first.items():
        found.setdefault(column_name(key) or "value", str(value))
    return found


def _object(line: str) -> dict[str, Any]:
    found = _OBJECT.fullmatch(line)
    if found is None:
        return {}
    try:
        document = json.loads(found[1])
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _in_words(one: Mapping[str, Any]) -> str:
    """As a line of a loop; "" without a step."""
    fields = dict(_amounts(one))
    if "total_tokens" in fields and "throughput" in fields:  # LLaMA-Factory's: tokens/s of all GPUs since the start
        rate = fields.pop("throughput")
        fields |= {"tokens_per_s": rate} if rate > 0 else {}
    step = next((name for name in _STEPS if fields.get(name, -1.0) >= 0), "")
    if not step:
        return ""
    text = f"{_stamp(one)} step {int(fields[step])}"
    others = sorted((name for name in fields if name not in (step, *_STAMPS)), key=lambda name: not _FIRST.search(name))
    for name in others:
        unit = " s" if name in ("elapsed", "elapsed_time") else ""
        plain = name
        if (printed := _UNIT.fullmatch(name)) and (known := unit_of(printed[2])) and known.suffix in _SHOWN_UNITS:
            plain, unit = printed[1], f" {printed[2]}"
        said = f" | {re.sub(r'[^A-Za-z0-9_/@.-]', '_', plain)[:60]}: {fields[name]!r}{unit}"
        text += said if len(text) + len(said) < _MOST_LETTERS else ""
    return text


def _amounts(one: Mapping[str, Any], depth: int = 1) -> Iterator[tuple[str, float]]:
    """Names and numbers; what is nested under ``data`` as if it stood beside it, of a list of steps the last."""
    for key, value in one.items():
        name = _SINCE_START.get(key, key)
        if isinstance(value, dict) and depth < _DEEPEST:
            inner = _amounts(value, depth + 1)
            yield from inner if key == "data" else ((f"{key}/{of}", number) for of, number in inner)
        elif key == "step" and isinstance(value, list) and value:
            yield from _amounts({key: value[-1]}, depth)
        elif (number := _number(value)) is not None:
            yield name, number


def _number(value: Any) -> float | None:
    if isinstance(value, str) and (clock := _CLOCK.fullmatch(value)):
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and abs(number) < 1e15 else None


def _stamp(one: Mapping[str, Any]) -> str:
    """When it was written, in words; "" where it does not say."""
    for name in _STAMPS:
        value = one.get(name)
        if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d", value):
            return value[:40]
        seconds = _number(value) or 0.0
        seconds *= 1e-3 if seconds > _YEAR_2100_S else 1.0
        if _YEAR_2000_S < seconds < _YEAR_2100_S:
            return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
    return ""
