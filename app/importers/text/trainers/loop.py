"""Loops that people write themselves: lines that say a step and its time or rate, in whatever words.

``iter 3: loss 9.8, time 135.51ms``, ``step 2/10 | 3056.36 ms | 171543 tok/s``, ``Epoch: [0][ 10/37]  Time  0.861``,
``[batch=1/40]:`` with a line for each figure beneath, bars that fill, ``555/5000 [05:03<40:38,  1.82it/s, loss=5.6]``.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from app.importers.text.trainers import clock, passes, torchtune
from app.importers.text.trainers.bars import PER_STEP, bars, rates_alone
from app.importers.text.trainers.first_lines import settings_before
from app.importers.text.trainers.log import (
    SHORT,
    Log,
    Step,
    memory_of,
    number,
    phases_of,
    ranks_by_rates,
    rows_of,
    without_first,
)
from app.importers.text.trainers.marks import LONGEST_LINE, MOST_FIELDS, in_words, marked, place_of
from app.importers.text.trainers.settings import with_settings
from app.importers.text.values.units import PREFIXES, unit
from estimator.scenario.breakdown import WORK_PHASES, Phase
from estimator.scenario.measurement import Warning
from estimator.scenario.units import GIB, MIB

_SECOND = r"(?:s|sec|second)"
_UNIT = (
    rf"(?:ns|us|µs|μs|msec|ms|seconds|second|secs|sec|s)(?:\s?/\s?{PER_STEP})?"
    rf"|(?:it|its|iters|iter|iterations|steps|step|batches|batch)/{_SECOND}"
    rf"|(?:tokens|token|toks|tok|samples|examples|images|imgs|img|sequences|seqs)\s?/\s?{_SECOND}(?:/(?:gpu|device))?"
    r"|%|[KMGT]i?B|[KMGTP]FLOPS?(?:/s)?"
)
_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?:\.\d{0,20})?(?:e[-+]?\d{1,3})?(?:[KMB](?![A-Za-z]))?"
_NAME = r"[A-Za-z_][\w/@.-]{0,60}(?: [A-Za-z_][\w/@.-]{0,30}){0,3}"
_FIELD = re.compile(
    rf"(?:(?<![\w/@.-])({_NAME})\s{{0,4}}(?:\(([a-zA-Z]{{1,8}})\))?\s{{0,4}}[:=]?\s{{0,12}})?"
    rf"(?<![\w.])({_NUMBER})(?:\s?({_UNIT})(?![\w/]))?(?![\w.])",
    re.IGNORECASE,
)
_OF_SEVERAL = re.compile(
    r"\b(?:time|elapsed|took)\s?\(\s?(\d{1,6}) (?:iter|iteration|step|batche?)s\s?\)", re.IGNORECASE
)
"""HugeCTR: ``Iter: 200 Time(100 iters): 0.366941s``."""
_STEP_TOKENS = re.compile(r"\btokens(?: per | ?/ ?)(?:iteration|step|batch)\b\D{0,20}([\d,]{2,15})", re.IGNORECASE)
_TIME = re.compile(
    r"(?:[a-z]{1,12}_)?(?:step|iter|iteration|it|batch)_(?:time|duration|dt|latency|elapsed|cost)"
    r"|time|dt|time_diff|(?:(?:perf|train|speed|throughput)_)?time_(?:per_)?(?:step|it|iter|iteration|batch)|timing_s_step"
    r"|elapsed_time_per_iteration|step|iter"
    r"|(?:train_)?(?:step|iter|batch)_timing(?:_in)?"
)
_SINCE_START = re.compile(
    r"(?:train|training|total|wall|cumulative)(?:_training)?_time|elapsed(?:_time)?|time_elapsed|wallclock"
)
_MEAN = re.compile(r"(?:step|iter|iteration|batch)_(?:avg|mean)|(?:avg|mean)_(?:time|step)")
_RATE = re.compile(
    r"(?:^|_)(?:tok|toks|token|tokens)_(?:per_)?(?:s|sec|second)(?:_(?:per_)?(?:gpu|device|dev|rank))?$|(?:^|_)tps$"
)
_FLOP_RATE = re.compile(r"(?:^|_)([kmgtp])flops?_(?:per_)?(?:s|sec|second)_(?:per_)?(?:gpu|device|dev|chip|rank)$")
_SETTING = re.compile(r"\b(?:Config param (\w{1,60})|(Num_devices)): ([^\s,]{1,80})")
"""MaxText: what it was asked to do, and on how many devices."""
_ANY_FLOP_RATE = re.compile(r"([kmgtp])flops?_(?:per_)?(?:s|sec|second)$")
"""Of one GPU or of all, which nothing says."""
_DURATION = re.compile(r"(?:^|_)(?:time|elapsed|duration|runtime)$")
_SAMPLE_RATE = re.compile(
    r"(?:^|_)(?:samples|sequences|examples)_per_(?:s|sec|second)(_(?:per_)?(?:gpu|device|rank))?$"
)
_OF_EACH = re.compile(r"(?:^|_)(?:device|gpu|rank)_")
"""Before a rate: that of one of several, as Composer's ``throughput/device/batches_per_sec``."""
_STEP_RATE = re.compile(r"(?:^|_)(?:batches|steps|its|iters|iterations|it)_(?:per_)?(?:s|sec|second)$")
_UNIT_IN_NAME = re.compile(r"_(ms|us|s|sec|secs|seconds|[mg]ib)$")
_PASSED_OVER = re.compile(r"remaining|(?:^|_)eta(?:_|$)|(?:^|_)left$")
_MARKS = ("step", "steps", "iter", "iters", "iteration", "batch")
_FEWEST, _DIGITS = 3, 9
_FEWEST_BYTES, _FEWEST_MIB, _MOST_MIB = 1e8, 1000.0, 1e6
"""Memory without a unit that is more counts bytes; between the others it counts MiB, as OpenMMLab's does."""
_IN_GIB = ("peak_memory_alloc", "peak_memory_active", "peak_memory_reserved")
_IN_GB = ("peak_allocated_mem", "peak_reserved_mem")
_MOST_RUNS = 8
"""Of a log that several processes write, as one that began anew beside another."""
_LONGEST_STEP_S = 100.0
"""A time without a unit that is longer is hardly in seconds."""


def read(lines: Sequence[str]) -> Log | None:
    """Read its steps, else the rates of its bars; None where no three lines say a step and how long or how fast."""
    warnings: list[Warning] = []
    timed_lines = [
        (step, line, passes.pass_of(line[: place_of(line)], text))
        for mark, text, line in marked(lines)
        if (step := _step(mark, text)).row
    ]
    config = torchtune.settings_of(lines)
    steps = _timed([step for step, _, _ in timed_lines], lines, warnings, torchtune.step_tokens_of_rank(config))
    if len({step.number for step in steps}) < _FEWEST:
        return bars(lines) or rates_alone(lines) or _by_clock(lines)
    said = [one for _, _, one in timed_lines]
    each = passes.passes_of_step([step.number for step in steps], said) if len(steps) == len(timed_lines) else 1
    if each > 1:
        steps, steps_s = passes.in_steps(steps, said, each, warnings)
        return Log(rows=rows_of(steps, "iteration"), steps_s=steps_s, warnings=tuple(warnings))
    steps_s = without_first(steps, warnings)
    if steps_s and not steps[0].seconds and "since_start_s" in steps[0].row:
        message = "Times are from one logged step to the next, so the first logged one has none"
        warnings.append(Warning(code="first-step-untimed", message=message, where=f"step {steps[0].number}"))
    means = [step.row["mean_step_s"] for step in steps if "mean_step_s" in step.row]
    if not steps_s and means:
        steps_s = (means[-1],)
        message = "The step time is the mean of the run up to its last line, the first steps among them"
        warnings.append(Warning(code="mean-of-run", message=message))
    if not steps_s and len(steps) == len(timed_lines):
        steps, steps_s = clock.timed(steps, [clock.stamp(line) for _, line, _ in timed_lines], warnings)
    if not steps_s:
        message = "The log gives tokens per second, but not how many tokens a step has, so it gives no step time"
        warnings.append(Warning(code="no-step-time", message=message))
    world = max(1, ranks_by_rates(steps[-1]))
    rows = rows_of(steps)
    log = Log(
        rows=rows,
        steps_s=steps_s,
        phases_s=phases_of(rows, steps_s, warnings),
        world_size=world,
        memory=memory_of(rows, warnings),
        warnings=tuple(warnings),
    )
    return _with_settings(log, lines, timed_lines[0][1], config)


def _with_settings(log: Log, lines: Sequence[str], first: str, settings: Mapping[str, str]) -> Log:
    """The log with what the lines before its ``first`` step, in words, say of its run, unless ``settings`` do."""
    settings = settings or {
        (hit[1] or hit[2]).lower(): hit[3]
        for line in lines
        if len(line) < LONGEST_LINE and (hit := _SETTING.search(line))
    }
    if not settings:
        settings = settings_before(lines[: next((at for at, line in enumerate(lines) if in_words(line) == first), 0)])
    return with_settings(log, settings) if settings else log


def _by_clock(lines: Sequence[str]) -> Log | None:
    """Steps whose lines say a loss and no time, timed by what each line begins with; None where that says nothing."""
    found = [
        (number, text, line, stamp)
        for number, text, line in marked(lines)
        if "loss" in line.lower() and (stamp := clock.stamp(line)) is not None
    ]
    if len(found) < _FEWEST or any(one[0] >= other[0] for one, other in pairwise(found)):
        return None
    warnings: list[Warning] = []
    steps = [Step(number=number, seconds=None, row=_fields(text)) for number, text, _, _ in found]
    steps, steps_s = clock.timed(steps, [stamp for *_, stamp in found], warnings)
    if not steps_s:
        return None
    rows = rows_of(steps)
    log = Log(rows=rows, steps_s=steps_s, memory=memory_of(rows, warnings), warnings=tuple(warnings))
    return _with_settings(log, lines, found[0][2], {})


def _step(mark: int, text: str) -> Step:
    """What a line says of a step, with those beneath it where it says no time; no row where neither says one."""
    row = _fields(text.partition("\n")[0])
    if not any(key in row for key in _TIMED):
        row = _fields(text)
    return Step(number=mark, seconds=row.get("step_s"), row=row if any(key in row for key in _TIMED) else {})


_TIMED = ("step_s", "step_without_unit", "mean_step_s", "since_start_s", "tokens_per_s", "tokens_per_s_per_gpu")


def _fields(text: str) -> dict[str, Any]:
    """Columns and SI values of what is said of a step."""
    row: dict[str, Any] = {}
    unnamed, of_each = None, 0.0
    several = _OF_SEVERAL.search(text)
    steps = max(1, int(several[1])) if several else 1
    text = _OF_SEVERAL.sub("time", text)
    for at, field in enumerate(_FIELD.finditer(text)):
        if at >= MOST_FIELDS:
            break
        name, value = re.sub(r"[^a-z0-9]+", "_", (field[1] or "").lower()).strip("_"), number(field[3].upper())
        printed = re.sub(r"\s", "", field[4] or field[2] or "").lower()
        if _PASSED_OVER.search(name):
            continue
        if field[3].endswith("m") and _DURATION.search(name):  # total time: 0.02m
            row.setdefault(f"{name}_s", round(number(field[3][:-1]) * 60, _DIGITS))
            continue
        key, scale = _meaning(name.removeprefix("train_memory_"), printed)
        if key == "steps_per_s_of_each":
            of_each = value
            continue
        if key == "steps_per_s":
            key, value = "step_s", 1 / value if value > 0 else 0.0
        value = value / steps if key in ("step_s", "step_without_unit") else value
        if key == "unnamed_s":
            unnamed = value * scale
        elif (held := _bytes_of(key, value)) and not printed:
            row.setdefault(f"{key}_bytes", held)
        elif key and key not in _MARKS and not (key == "mfu_frac" and value <= 0):
            row.setdefault(key, value * (0.01 if key == "mfu_frac" and not printed and value > 1 else scale))
    if unnamed:
        row.setdefault("step_s", unnamed)
    if not any(key in row for key in ("step_s", "step_without_unit")) and (whole := _whole_of_phases(row)):
        row["step_s"] = whole
    if of_each > 0 and not any(key in row for key in ("step_s", "step_without_unit")):
        row["step_s"] = 1 / of_each  # OLMo's, who counts the steps of one; Composer's is a share, beside that of all
    return {key: value for key, value in row.items() if not (key.endswith("step_s") and value <= 0)}


def _bytes_of(name: str, value: float) -> float:
    """Bytes of memory without a unit, 0 where it is none, or a number of anything: so many are bytes, or MiB.

    torchtune writes GiB under names of its own, Composer GB, and detectron2 ``3961M`` for MiB.
    """
    if name in _IN_GIB:
        return value * GIB
    if name in _IN_GB and value < _FEWEST_MIB:
        return value * 1e9
    if not name.endswith(("memory", "mem")):
        return 0.0
    if name == "max_mem" and value >= _FEWEST_BYTES:
        return value / 1e6 * MIB
    return value if value >= _FEWEST_BYTES else value * MIB if _FEWEST_MIB <= value < _MOST_MIB else 0.0


def _whole_of_phases(row: dict[str, Any]) -> float:
    """The time of a step whose line says those of its passes: what it calls the total, else their sum; 0 without.

    The total is taken out of the row, as it is the step's.
    """
    said = {
        phase: value
        for phase in WORK_PHASES
        for name in (phase, *SHORT[phase])
        if isinstance(value := row.get(f"{name}_s"), float)
    }
    if not {Phase.FORWARD, Phase.BACKWARD} <= said.keys():
        return 0.0
    total = row.pop("total_s", None)
    return float(total) if isinstance(total, float) else sum(said.values())


def _meaning(name: str, printed: str) -> tuple[str, float]:
    """Column and SI value of one; no column for a number that has neither name nor a unit that says what it is."""
    per_step = re.fullmatch(rf"(\w+)/{PER_STEP}", printed)
    if per_step and (time := unit(per_step[1])):
        return ("mean_step_s" if _MEAN.fullmatch(name) else "step_s"), time.scale
    if re.fullmatch(rf"{PER_STEP}(?:e?s)?/{_SECOND}", printed) or _STEP_RATE.search(name):
        return ("steps_per_s_of_each" if _OF_EACH.search(name) else "steps_per_s"), 1.0
    if rate := _FLOP_RATE.search(name):
        return "flops_per_s_per_gpu", PREFIXES[rate[1]]
    if rate := _ANY_FLOP_RATE.match(name):
        return "flops_per_s", PREFIXES[rate[1]]
    if printed.startswith("tok") or _RATE.search(name):
        each = any(word in printed + name for word in ("gpu", "device", "rank")) or name.endswith("_dev")
        return ("tokens_per_s_per_gpu" if each else "tokens_per_s"), 1.0
    if (rate := _SAMPLE_RATE.search(name)) and not _OF_EACH.search(name) and not rate[1]:
        return "samples_per_s", 1.0
    if "/" in printed and not printed.endswith("flops/s"):
        return "samples_per_s", 1.0
    if name.endswith("mfu"):
        return "mfu_frac", 0.01 if printed else 1.0
    if name in ("seconds", "secs", "milliseconds"):
        return "step_s", 1e-3 if name == "milliseconds" else 1.0
    if in_name := _UNIT_IN_NAME.search(name):
        name, printed = name[: in_name.start()], printed or in_name[1]
    known = unit(printed + "/s" if printed.endswith("flops") else printed) if printed else None
    if known and known.suffix == "_s":
        if not name:
            return "unnamed_s", known.scale
        for pattern, key in ((_SINCE_START, "since_start_s"), (_MEAN, "mean_step_s"), (_TIME, "step_s")):
            if pattern.fullmatch(name):
                return key, known.scale
    elif not known and _TIME.fullmatch(name) and name not in ("step", "iter"):
        return "step_without_unit", 1.0
    if not name:
        return "", 1.0
    return (name + known.suffix, known.scale) if known else (name, 1.0)


def _timed(steps: Sequence[Step], lines: Sequence[str], warnings: list[Warning], each_tokens: int) -> list[Step]:
    """The steps with their seconds: as said, as seconds where no unit is, apart, or by the tokens of a step.

    ``each_tokens``: those of one GPU, 0 where they are not known.
    """
    bare = [step.row["step_without_unit"] for step in steps if "step_without_unit" in step.row]
    in_seconds = bool(bare) and 0 < statistics.median(bare) < _LONGEST_STEP_S
    said = in_seconds or any(step.seconds for step in steps)
    if bare:
        message = "Times have no unit and are read as seconds"
        if not in_seconds:
            message = (
                "Times have no unit and are too long for seconds, so they are left out. Write one behind them: 35 ms"
            )
        warnings.append(Warning(code="unit-missing", message=message))
    if not said and _of_each_step(steps):
        steps = [_with_own_time(step) for step in steps]
        said = True
    hit = next((hit for line in lines[:2000] if (hit := _STEP_TOKENS.search(line[:LONGEST_LINE]))), None)
    tokens = number(hit[1]) if hit else 0.0
    timed = []
    runs: list[Step] = []
    for step in steps:
        row = {key: value for key, value in step.row.items() if key != "step_without_unit"}
        seconds = step.seconds or (step.row.get("step_without_unit") if in_seconds else None)
        if not said and "since_start_s" in row:
            if any(last.number == step.number for last in runs):
                continue  # another rank's
            if (at := _run_of(step, runs)) is not None:
                apart = step.number - runs[at].number
                seconds = round((row["since_start_s"] - runs[at].row["since_start_s"]) / apart, _DIGITS)
                runs[at] = step
            else:
                runs = [*runs[1 - _MOST_RUNS :], step]
        elif not said and tokens and row.get("tokens_per_s"):
            seconds = tokens / row["tokens_per_s"]
        elif not said and each_tokens and row.get("tokens_per_s_per_gpu"):
            seconds = each_tokens / row["tokens_per_s_per_gpu"]
        timed.append(replace(step, seconds=seconds, row={**row, "step_s": seconds} if seconds else row))
    return timed


def _of_each_step(steps: Sequence[Step]) -> bool:
    """Whether what is called elapsed is the time of each step: it falls while one run's steps go on."""
    elapsed = [(step.number, step.row["since_start_s"]) for step in steps if "since_start_s" in step.row]
    return all(one[0] < other[0] for one, other in pairwise(elapsed)) and any(
        other[1] < one[1] for one, other in pairwise(elapsed)
    )


def _with_own_time(step: Step) -> Step:
    row = {key: value for key, value in step.row.items() if key != "since_start_s"}
    return replace(step, seconds=step.row.get("since_start_s"), row=row)


def _run_of(step: Step, runs: Sequence[Step]) -> int | None:
    """Which of several runs that write into one log goes on with a step: that whose last one it is nearest after."""
    since_s = step.row["since_start_s"]
    earlier = [at for at, last in enumerate(runs)
               if last.number < step.number and last.row["since_start_s"] < since_s]  # fmt: skip
    return max(earlier, key=lambda at: runs[at].number, default=None)
