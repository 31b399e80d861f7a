"""Logs of MLPerf Training, in lines that every submission prints: ``:::MLLOG {"time_ms": …, "key": …, "value": …}``.

A step takes the global batch over the samples per second that a block says, where what it counts bears that rate out,
as benchmarks differ in what their ``throughput`` is of. Else a block's samples over its time, or where no block counts
them those between the losses that it logs.
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
    rates = {**_of_blocks(events, settings), **_said(events, settings)} or _between_losses(events, batch)
    rows: list[dict[str, Any]] = []
    for at, event in enumerate(events):
        if at in rates:
            row = {"samples_per_s": rates[at], **({"step_s": batch / rates[at]} if batch else {})}
        elif event.key == "eval_accuracy" and _amount(event.value):
            row = {"eval_accuracy": _amount(event.value)}
        else:
            continue
        rows.append({"since_start_s": event.time_s - begin, **row})
    times = [row["step_s"] for row in rows if "step_s" in row]
    local = settings.get("local_batch_size", settings.get("d_batch_size", 0.0))
    local *= settings.get("gradient_accumulation_steps", 1.0)
    world = int(batch // local) if local and batch % local == 0 else 1
    if not rows:
        return None
    warning = _warning(timed=bool(times), counted=bool(rates))
    return Log(rows=tuple(rows), steps_s=tuple(times), world_size=world, warnings=(warning,))


def _warning(*, timed: bool, counted: bool) -> Warning:
    if timed:
        said = "the global batch over the samples per second of a block, or between two losses"
        return Warning(code="mean-of-block", message=f"Each time is the mean of several steps: {said}")
    lacking = (
        "its global batch" if counted else "how many samples a block has, and no losses between which to count them"
    )
    message = f"The log says when it evaluated, but not {lacking}, so it gives no step time"
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


def _said(events: Sequence[_Event], settings: Mapping[str, float]) -> dict[int, float]:
    """The rate that lines say, by their places; none where most are not borne out."""
    said, kept = 0, dict[int, float]()
    before: _Event | None = None
    start: _Event | None = None
    for at, event in enumerate(events):
        if event.key == "tracked_stats" and isinstance(event.value, dict):
            if rate := _amount(event.value.get("throughput")):
                said += 1
                kept |= {at: rate} if _borne_out(rate, event, before, start, settings) else {}
            before = event
        elif event.key.endswith("_start"):
            start = event
    return kept if 2 * len(kept) > said else {}


def _borne_out(
    rate: float, event: _Event, before: _Event | None, start: _Event | None, settings: Mapping[str, float]
) -> bool:
    """Whether the way from the mark before, in samples, steps or epochs, is what the rate makes of its time."""
    key = next((one for one in _COUNTED if _amount(event.said.get(one))), "")
    counted = before is not None and key in before.said
    begin = before if counted else start
    if not key or begin is None or event.time_s <= begin.time_s:
        return False
    way = _amount(event.said[key]) - (_amount(begin.said.get(key)) if counted else 0.0)
    batch = settings.get("global_batch_size", 0.0)
    units = [settings.get(unit, 0.0) if unit else 1.0 for unit in _COUNTED[key]]
    made = [way * unit / (event.time_s - begin.time_s) for unit in units if unit == 1.0 or unit >= batch]
    return any(_LEAST_FRAC * rate <= one <= _MOST_FRAC * rate for one in made)


def _between_losses(events: Sequence[_Event], batch: float) -> dict[int, float]:
    """Samples per second from one loss to the next within a block, by the place of the later one."""
    found: dict[int, float] = {}
    before: _Event | None = None
    for at, event in enumerate(events):
        if event.key == "train_loss" and "samples_count" in event.said:
            if before is not None and (seconds := round(event.time_s - before.time_s, 3)) > 0:
                samples = _amount(event.said["samples_count"]) - _amount(before.said["samples_count"])
                if batch and samples > 0 and samples % batch == 0:
                    found[at] = samples / seconds
            before = event
        elif event.key.endswith(("_start", "_stop")):
            before = None
    return found


def _of_blocks(events: Sequence[_Event], settings: Mapping[str, float]) -> dict[int, float]:
    """Samples per second of each block that counts them, or tokens (GPT-3), by the place of its end."""
    batch, length = settings.get("global_batch_size", 0.0), settings.get("max_sequence_length", 0.0)
    found: dict[int, float] = {}
    start: _Event | None = None
    done = 0.0
    for at, event in enumerate(events):
        if event.key in ("block_start", "eval_start"):
            start = event if event.key == "block_start" else None
        elif event.key == "block_stop":
            samples = _amount(start.said.get("epoch_count")) / length if start and length else 0.0
            if "samples_count" in event.said:
                samples, done = _amount(event.said["samples_count"]) - done, _amount(event.said["samples_count"])
            if start and batch and samples > 0 and samples % batch == 0 and event.time_s > start.time_s:
                found[at] = samples / (event.time_s - start.time_s)
            start = None
    return found
