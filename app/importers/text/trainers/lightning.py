"""Lightning: the report of its simple profiler, and the rates of its progress bars."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from app.importers.text.trainers.log import Log, number
from estimator.scenario.measurement import Warning

_HEADER = re.compile(r"^\|\s*Action\s*\|\s*Mean duration \(s\)\s*\|\s*Num calls")
_ROW = re.compile(
    r"^\|\s*(\S.{0,300}?)\s*\|\s*([\d.e+-]{1,20})\s*\|\s*(\d{1,12})\s*\|\s*([\d.e+-]{1,20})\s*\|\s*([\d.e+-]{1,20})[\s%]*\|"
)
_BAR = re.compile(
    r"Epoch\s+(\d{1,9})(?:/\d{1,9})?[: ].{0,200}?\b(\d{1,9})/(\d{1,9})\b.{0,80}?([\d.]{1,20})\s?(it/s|s/it)"
)
_BATCH = "run_training_batch"


def read(lines: Sequence[str]) -> Log | None:
    """Read the profiler's report, else the rate at the end of each epoch; None where there is neither."""
    start = next((at for at, line in enumerate(lines) if _HEADER.match(line)), None)
    return _epochs(lines) if start is None else _report(lines[start:])


def _report(lines: Sequence[str]) -> Log | None:
    rows: list[dict[str, Any]] = []
    for line in lines:
        if found := _ROW.match(line):
            mean_s, calls, total_s = number(found[2]), int(found[3]), number(found[4])
            share = number(found[5]) / 100
            rows.append({"name": found[1], "calls": calls, "mean_s": mean_s, "total_s": total_s, "share_frac": share})
    if not rows:
        return None
    message = "Actions hold one another, so their times do not add up; on a GPU they are the host's, which runs ahead"
    warnings = [Warning(code="host-times", message=message)]
    batch = next((row for row in rows if row["name"] == _BATCH and row["mean_s"]), None)
    if batch:
        message = f"The step time is the mean of {batch['calls']:,} batches, the first ones among them"
        warnings.append(Warning(code="mean-of-run", message=message))
    return Log(rows=tuple(rows), steps_s=(batch["mean_s"],) if batch else (), warnings=tuple(warnings))


def _epochs(lines: Sequence[str]) -> Log | None:
    """Whole epochs alone: a bar is drawn again and again while it fills."""
    epochs: dict[int, dict[str, Any]] = {}
    for line in lines:
        found = _BAR.search(line)
        if found and found[2] == found[3] and (rate := number(found[4])):
            step_s = rate if found[5] == "s/it" else 1 / rate
            epochs[int(found[1])] = {"epoch": int(found[1]), "batches": int(found[3]), "step_s": step_s}
    if not epochs:
        return None
    message = "Each time is the mean of an epoch's batches, with the loading of data, the first ones among them"
    warning = Warning(code="mean-of-run", message=message)
    rows = tuple(epochs.values())
    return Log(rows=rows, steps_s=tuple(row["step_s"] for row in rows), warnings=(warning,))
