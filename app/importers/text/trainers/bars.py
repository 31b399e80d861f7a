"""Bars: the rate that a bar of progress said last, ``555/5000 [05:03<40:38,  1.82it/s, loss=5.6]``, and rates alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from app.importers.text.trainers.log import Log, Step, number, without_first
from app.importers.text.trainers.marks import LONGEST_LINE
from app.importers.text.values.units import unit
from estimator.scenario.measurement import Warning

PER_STEP = r"(?:it|iter|iteration|step|batch)"
_RATE = rf"([\d.]{{1,20}})\s?({PER_STEP}/s|(?:us|ms|s)/{PER_STEP})\b"
_BAR = re.compile(rf"(?<![\w/])(\d{{1,9}})/(\d{{1,9}})\b(?!/).{{1,160}}?\b{_RATE}", re.IGNORECASE)
_DRAWN = re.compile(rf"(?<![\w/])(\d{{1,9}})/(\d{{1,9}})\s{{0,2}}\[[\d:]{{4,12}}<.{{1,40}}?\b{_RATE}", re.IGNORECASE)
"""As tqdm draws one, whose counts stand before its times; others may stand in its name: ``Epoch: 1/3, step 9/203``."""
_NO_STEP = re.compile(
    r"\b(?:eval\w*|valid\w*|val|test\w*|sanity|predict\w*|inference|generat\w*|mAP\w*|map|filter\w*|load\w*"
    r"|download\w*|fetch\w*|tokeniz\w*|(?:pre)?process\w*|convert\w*|sav(?:e|ing)|extract\w*|cach\w*|pack\w*)\b",
    re.IGNORECASE,
)
"""Names of bars that count no steps of training: passes of evaluation, and work on data."""
_WHOLE_S = re.compile(r"\s(\d{1,7})s\s{1,2}\d{1,7}(?:us|ms|s)/step\b")
"""Keras rounds its time of a step to one digit or two, and says that of all beside it in whole seconds."""
_FEWEST_OF_A_BAR, _FEWEST, _LEAST_WHOLE_S = 10, 3, 20
_STEPS_PER_S = re.compile(r"\bglobal_steps?/sec(?:ond)?\s?[:=]\s?([\d.]{1,20})")
_TIME_ALONE = re.compile(r"\bINFO\b.{0,200}?\bstep time\s?[:=]\s?([\d.]{1,20})\s?(ms|s)?\b", re.IGNORECASE)
_SAMPLES_PER_S = re.compile(r"\bexamples/sec(?:ond)?\s?[:=]\s?([\d.]{1,20})")


def longest_bar_s(lines: Sequence[str]) -> float | None:
    """Seconds of a step, as the bar of most steps said last; None without a bar."""
    found = bars(lines)
    return max(found.rows, key=lambda row: (row["steps"], row["step"]))["step_s"] if found else None


def bars(lines: Sequence[str]) -> Log | None:
    """The rate at which each bar of steps ended or was left; a bar is drawn again and again while it fills."""
    rows: list[dict[str, Any]] = []
    left = False
    for line in lines:
        found = _DRAWN.search(line[:LONGEST_LINE]) or _BAR.search(line[:LONGEST_LINE])
        value = number(found[3]) if found else 0.0
        if found is None or value <= 0 or _NO_STEP.search(line[: found.start()]):
            left = left or bool(line.strip() and rows and rows[-1]["step"] == rows[-1]["steps"])
            continue
        done, batches, printed = int(found[1]), int(found[2]), found[4].lower()
        time = unit(printed.split("/")[0]) if not printed.endswith("/s") else None
        row = {
            "bar": len(rows) + 1,
            "step": done,
            "steps": batches,
            "step_s": value * time.scale if time else 1 / value,
        }
        if done == batches and (whole := _WHOLE_S.search(line[:LONGEST_LINE])) and int(whole[1]) >= _LEAST_WHOLE_S:
            row["step_s"] = int(whole[1]) / batches
        if rows and not left and rows[-1]["steps"] == batches and rows[-1]["step"] <= done:
            rows[-1] = {**row, "bar": len(rows)}
        else:
            rows.append(row)
        left = False
    rows = [row for row in rows if row["step"] >= _FEWEST_OF_A_BAR]
    if not rows:
        return None
    message = "Each time is what a bar of progress said last, a mean over its steps with the loading of data"
    warning = Warning(code="mean-of-run", message=message)
    return Log(rows=tuple(rows), steps_s=tuple(row["step_s"] for row in rows), warnings=(warning,))


def rates_alone(lines: Sequence[str]) -> Log | None:
    """Times of steps that lines say without its number, or steps per second; None where fewer than three do.

    ColossalAI's say times, and TensorFlow's estimators rates, each of them twice.
    """
    rows: list[dict[str, Any]] = []
    for line in lines:
        if (hit := _STEPS_PER_S.search(line[:LONGEST_LINE])) and (rate := number(hit[1])) > 0:
            if not rows or rows[-1]["step_s"] != 1 / rate:
                rows.append({"print": len(rows) + 1, "step_s": 1 / rate})
        elif (hit := _TIME_ALONE.search(line[:LONGEST_LINE])) and (seconds := number(hit[1])) > 0:
            rows.append({"print": len(rows) + 1, "step_s": seconds * (1e-3 if hit[2] == "ms" else 1.0)})
        elif rows and (hit := _SAMPLES_PER_S.search(line[:LONGEST_LINE])):
            rows[-1]["samples_per_s"] = number(hit[1])
    if len(rows) < _FEWEST:
        return None
    warnings: list[Warning] = []
    steps = [Step(number=at, seconds=row["step_s"], row=row) for at, row in enumerate(rows, 1)]
    return Log(rows=tuple(rows), steps_s=without_first(steps, warnings), warnings=tuple(warnings))
