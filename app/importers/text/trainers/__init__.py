"""Trainers: the logs that training programs print step by step; one module and one line here for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from app.importers.text.trainers import (
    columns,
    deepspeed,
    fairseq,
    hugging_face,
    json_lines,
    lightning,
    loop,
    megatron,
    mlperf,
    nanogpt,
    nanotron,
    torchtitan,
)
from app.importers.text.trainers.first_lines import settings_before
from app.importers.text.trainers.log import Log, measurement
from estimator.scenario.measurement import Measurement

TRAINERS: dict[str, Callable[[Sequence[str]], Log | None]] = {
    "Megatron-LM": megatron.read,
    "torchtitan": torchtitan.read,
    "nanotron": nanotron.read,
    "DeepSpeed": deepspeed.read,
    "fairseq": fairseq.read,
    "Transformers": hugging_face.read,
    "Lightning": lightning.read,
    "nanoGPT": nanogpt.read,
    "MLPerf": mlperf.read,
    "JSON lines": json_lines.read,
}
LOOP = "loop"
"""A loop without a name, in formats and origins."""
COLUMNS = "columns"
"""A table with a row for each step, likewise."""
_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_LONGEST_LINE = 8000


def read(text: str, filename: str) -> Measurement | None:
    """Read the log of whichever trainer says most of its steps, None where it is of none.

    One trainer may drive another; what the one leaves out of the scenario and of memory, the other may say.
    """
    lines = _lines(text)
    logs = [(name, log) for name, reader in TRAINERS.items() if (log := reader(lines)) is not None]
    if not logs:
        return None
    name, best = max(logs, key=lambda one: len(one[1].steps_s))
    if name == "MLPerf" and (own := loop.read(lines)) and len(own.steps_s) > len(best.steps_s):
        name, best = LOOP, own
    if len(logs) > 1:
        others = [log.scenario for _, log in logs if log is not best and log.scenario]
        world = max(log.world_size for _, log in logs)
        memory = best.memory
        if memory.peak_bytes is None:
            memory = next((log.memory for _, log in logs if log.memory.peak_bytes is not None), memory)
        best = replace(best, scenario=_filled(best.scenario, others), world_size=world, memory=memory)
    return measurement(best, name, filename)


def _filled(scenario: dict[str, Any], others: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A scenario with what others say beyond it of model, plan and training."""
    found = dict(scenario)
    for other in others:
        for part, said in other.items():
            found[part] = (
                said | found[part] if part in ("plan", "training") and part in found else found.get(part, said)
            )
    return found


def read_loop(text: str, filename: str) -> Measurement | None:
    """Read the log of a loop that somebody wrote; ask the named trainers first, whose lines say steps too."""
    log = loop.read(_lines(text))
    return measurement(log, LOOP, filename) if log else None


def read_columns(
    names: Sequence[str], rows: Sequence[Sequence[str]], before: Sequence[str], filename: str
) -> Measurement | None:
    """Read a table whose rows are steps of a run and say their time or rate; None for any other.

    ``before``: the lines above it, which may say what ran.
    """
    log = columns.read(names, rows, settings_before(before))
    return measurement(log, COLUMNS, filename) if log else None


def read_chart(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Measurement]:
    """Read the runs of a chart that Weights & Biases exported; [] of any other table."""
    return [measurement(log, COLUMNS, run) for run, log in columns.runs_of_chart(names, rows).items()]


def _lines(text: str) -> list[str]:
    return [_ANSI.sub("", line) for line in text.splitlines() if len(line) < _LONGEST_LINE]


__all__ = ["COLUMNS", "LOOP", "TRAINERS", "read", "read_chart", "read_columns", "read_loop"]
