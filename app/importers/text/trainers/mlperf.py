"""Logs of MLPerf Training, in lines that every submission prints: ``:::MLLOG {"time_ms": …, "key": …, "value": …}``.

A step takes the global batch over the samples per second that a block says, where what it counts bears that rate out,
as benchmarks differ in what their ``throughput`` is of. Else a block's samples over its time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.importers.text.trainers.log import Log
from estimator.scenario.measurement import Warning

_LINE = re.compile(r"(?::::MLLOG |^)(\{\"namespace\".{20,4000}\})\s*$")
_EPOCHS = ("", "train_samples", "samples_per_epoch")
_COUNTED = {"samples_count": ("",), "step_num": ("global_batch_size",), "step": _EPOCHS, "epoch_num": _EPOCHS}
"""Where a line of a block says how far the run has come, and what setting makes samples of it, if it is not samples."""
_LEAST_FRAC, _MOST_FRAC = 0.5, 1.05
"""Evaluations between two lines count to their time; a rate beyond what was done is of something else."""
_LEAST, _MOST_LINES, _LARGEST = 5, 200_000, 1e15


@dataclass(frozen=True, kw_only=True)
class _Event:
    """A line: its time in seconds, and its metadata."""

    key: str
    value: Any
    time_s: float
    said: Mapping[str, Any]


def read(lines: Sequence[str]) -> Log | None:
    """Read what each block and each evaluation says; None where there are no such lines."""
    events = [event for line in lines[:_MOST_LINES] if '"namespace"' in line and (event := _event(line)) is not None]
    if len(events) < _LEAST:
        return None
    settings = {event.key: value for event in events if (value := _amount(event.value)) > 0}
    batch = settings.get("global_batch_size", 0.0)
    begin = next((event.time_s for event in events if event.key == "run_start"), events[0].time_s)
    rows: list[dict[str, Any]] = []
    rates = _rates(events, settings)
    for at, event in enumerate(events):
        row: dict[str, Any] = {}
        if at in rates:
            row = {"samples_per_s": rates[at]}
        elif event.key == "block_stop":
            rate = _of_block(at, events, settings)
            row = {"samples_per_s": rate} if rate else {}
        elif event.key == "eval_accuracy" and _amount(event.value):
            row = {"eval_accuracy": _amount(event.value)}
        if "samples_per_s" in row and batch:
            row["step_s"] = batch / row["samples_per_s"]
        if row:
            rows.append({"since_start_s": event.time_s - begin, **row})
    times = [row["step_s"] for row in rows if "step_s" in row]
    local = settings.get("local_batch_size", settings.get("d_batch_size", 0.0))
    local *= settings.get("gradient_accumulation_steps", 1.0)
    world = int(batch // local) if local and batch % local == 0 else 1
    if not rows:
        return None
    return Log(rows=tuple(rows), steps_s=tuple(times), world_size=world, warnings=(_warning(bool(times)),))


def _warning(timed: bool) -> Warning:
    if timed:
        message = "Each time is the mean of a block of steps: the global batch over its samples per second"
        return Warning(code="mean-of-block", message=message)
    message = "The log says when it evaluated, but not how many samples a block has, so it gives no step time"
    return Warning(code="no-step-time", message=message)


def _event(line: str) -> _Event | None:
    found = _LINE.search(line)
    if found is None:
        return None
    try:
        document = json.loads(found[1])
    except (ValueError, RecursionError):
        return None
    time_s, said = _amount(document.get("time_ms")) * 1e-3, document.get("metadata")
    key = document.get("key")
    if not time_s or not isinstance(key, str):
        return None
    return _Event(key=key[:60], value=document.get("value"), time_s=time_s, said=said if isinstance(said, dict) else {})


def _amount(value: Any) -> float:
    """A number from 0; 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _LARGEST:
        return 0.0
    return float(value)


def _rates(events: Sequence[_Event], settings: Mapping[str, float]) -> dict[int, float]:
    """The rate that lines say, by their places; none where most are not borne out."""
    said = {
        at: rate
        for at, event in enumerate(events)
        if event.key == "tracked_stats" and isinstance(event.value, dict)
        if (rate := _amount(event.value.get("throughput")))
    }
    kept = {at: rate for at, rate in said.items() if _borne_out(rate, at, events, settings)}
    return kept if 2 * len(kept) > len(said) else {}


def _borne_out(rate: float, at: int, events: Sequence[_Event], settings: Mapping[str, float]) -> bool:
    """Whether the way from the mark before, in samples, steps or epochs, is what the rate makes of its time."""
    event = events[at]
    key = next((one for one in _COUNTED if _amount(event.said.get(one))), "")
    before = next((one for one in reversed(events[:at]) if one.key == event.key and key in one.said), None)
    begin = before or next((one for one in reversed(events[:at]) if one.key.endswith("_start")), None)
    if not key or begin is None or event.time_s <= begin.time_s:
        return False
    way = _amount(event.said[key]) - (_amount(before.said[key]) if before else 0.0)
    batch = settings.get("global_batch_size", 0.0)
    units = [settings.get(unit, 0.0) if unit else 1.0 for unit in _COUNTED[key]]
    made = [way * unit / (event.time_s - begin.time_s) for unit in units if unit == 1.0 or unit >= batch]
    return any(_LEAST_FRAC * rate <= one <= _MOST_FRAC * rate for one in made)


def _of_block(at: int, events: Sequence[_Event], settings: Mapping[str, float]) -> float:
    """Samples per second of a block that counts them, or tokens (GPT-3); 0 where it does neither."""
    stop = events[at]
    since = next((one for one in range(at - 1, -1, -1) if events[one].key in ("block_start", "block_stop")), 0)
    start, batch = events[since], settings.get("global_batch_size", 0.0)
    evaluated = any(event.key == "eval_start" for event in events[since:at])
    if start.key != "block_start" or stop.time_s <= start.time_s or evaluated or not batch:
        return 0.0
    if "samples_count" in stop.said:
        before = next((one for one in reversed(events[:since]) if one.key == "block_stop"), None)
        samples = _amount(stop.said["samples_count"]) - (_amount(before.said.get("samples_count")) if before else 0.0)
    else:
        length = settings.get("max_sequence_length", 0.0)
        samples = _amount(start.said.get("epoch_count")) / length if length else 0.0
    return samples / (stop.time_s - start.time_s) if samples > 0 and samples % batch == 0 else 0.0
