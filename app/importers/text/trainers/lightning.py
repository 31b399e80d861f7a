"""Lightning: the report of its simple profiler, the rates of its progress bars, what it says as it starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.importers.text.trainers.log import Log, number
from estimator.scenario import catalog
from estimator.scenario.measurement import FIELD_GUESSED, Warning
from estimator.scenario.parameters import parameters

_HEADER = re.compile(r"^\|\s*Action\s*\|\s*Mean duration \(s\)\s*\|\s*Num calls")
_ROW = re.compile(
    r"^\|\s*(\S.{0,300}?)\s*\|\s*([\d.e+-]{1,20})\s*\|\s*(\d{1,12})\s*\|\s*([\d.e+-]{1,20})\s*\|\s*([\d.e+-]{1,20})[\s%]*\|"
)
_BAR = re.compile(
    r"Epoch\s+(\d{1,9})(?:/\d{1,9})?[: ].{0,200}?\b(\d{1,9})/(\d{1,9})\b.{0,80}?([\d.]{1,20})\s?(it/s|s/it)"
)
_BATCH = "run_training_batch"
_OWN = re.compile(r"^GPU available: |^LOCAL_RANK: \d|\bv_num=")
"""Lines that no other program with such bars prints."""
_FEWEST_OF_A_BAR = 10
_RANKS = re.compile(r"\bStarting with (\d{1,6}) processes|\bGLOBAL_RANK: \d{1,6}, MEMBER: \d{1,6}/(\d{1,6})")
_PRECISION = re.compile(r"\bUsing (bfloat16|16bit) Automatic Mixed Precision")
_PRECISIONS = {"bfloat16": "bf16-amp", "16bit": "fp16-amp"}
_TOTAL = re.compile(r"^(?:([\d.]{1,8}) ([KMBT])\s{1,20}Total params|Total params: ([\d.]{1,8}) ([KMBT]))\b")
_PART = re.compile(r"^[\s|│]{0,4}\d{1,4}\s{1,4}[|│]\s{1,4}\S{1,80}\s{1,80}[|│]\s{1,4}(\w{1,80})\s{1,80}[|│]")
"""A row of its summary: ``0 | model | GPT2LMHeadModel | 124 M  | train``."""
_FAMILY = re.compile(r"[a-z]{3,}")
"""How a model's name begins that is of a family: two letters, as a course has, stand in any class's."""


def read(lines: Sequence[str]) -> Log | None:
    """Read the profiler's report, else the rate at the end of each epoch; None where there is neither."""
    start = next((at for at, line in enumerate(lines) if _HEADER.match(line)), None)
    log = _epochs(lines) if start is None else _report(lines[start:])
    return _with_settings(log, lines) if log else None


def _with_settings(log: Log, lines: Sequence[str]) -> Log:
    """The log with what it says of its run as it starts: ranks, precision, and a guess at its model."""
    hit = next((hit for line in lines if (hit := _RANKS.search(line))), None)
    ranks = int(hit[1] or hit[2]) if hit else 0
    precise = next((hit[1] for line in lines if (hit := _PRECISION.search(line))), "")
    model, why = _model(lines)
    if not (ranks or precise or model):
        return log
    warnings = [Warning(code=FIELD_GUESSED, message=why, where="model.name")] if model else []
    training = {"precision": _PRECISIONS[precise]} if precise else {}
    scenario = {
        **({"model": model} if model else {}),
        "plan": {"dp": ranks} if ranks else {},
        "training": training,
    }
    return replace(log, scenario=scenario, world_size=max(ranks, 1), warnings=(*log.warnings, *warnings))


def _model(lines: Sequence[str]) -> tuple[str, str]:
    """The one model of the catalogue whose family a module's class names and whose parameters round to those printed.

    With why that is a guess; "" where none or several do.
    """
    total = next((hit for line in lines if (hit := _TOTAL.match(line))), None)
    if total is None:
        return "", ""
    text, prefix = (total[1] or total[3]), (total[2] or total[4])
    count = number(f"{text}{prefix}")
    digits = len(text.partition(".")[2])
    off = 0.5 * number(f"1{prefix}") / 10**digits
    classes = [hit[1] for line in lines if (hit := _PART.match(line))]
    near = [
        (entry.key, name)
        for entry in catalog.entries("models")
        if abs(parameters(entry.value) - count) <= off
        for name in classes
        if (family := _FAMILY.match(entry.key)) and family[0] in name.lower()
    ]
    if len({key for key, _ in near}) != 1:
        return "", ""
    key, name = near[0]
    return key, f"{name} of {text} {prefix} parameters, which it rounds"


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
    """Whole epochs alone, as a bar is drawn again while it fills; of a first epoch under way what it said last."""
    epochs: dict[int, dict[str, Any]] = {}
    unfinished: dict[str, Any] = {}
    own = any(_OWN.search(line) for line in lines)
    for line in lines:
        found = _BAR.search(line)
        if found and (rate := number(found[4])):
            step_s = rate if found[5] == "s/it" else 1 / rate
            row = {"epoch": int(found[1]), "batches": int(found[2]), "step_s": step_s}
            if found[2] == found[3]:
                epochs[int(found[1])] = row
            elif own and int(found[2]) >= _FEWEST_OF_A_BAR:
                unfinished = row
    if not epochs and unfinished:
        epochs = {unfinished["epoch"]: unfinished}
    if not epochs:
        return None
    message = "Each time is the mean of an epoch's batches, with the loading of data, the first ones among them"
    warning = Warning(code="mean-of-run", message=message)
    rows = tuple(epochs.values())
    return Log(rows=rows, steps_s=tuple(row["step_s"] for row in rows), warnings=(warning,))
