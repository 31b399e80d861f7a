"""Logs of torchtitan: rates and memory by step, ``step: 10  loss: 8.1  memory: 42.5GiB(53.7%)  tps: 7,012``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from app.importers.text.trainers import clock
from app.importers.text.trainers.log import Log, Step, number, rows_of, without_first
from app.importers.text.trainers.torchtitan_settings import settings_of
from estimator.scenario.measurement import MeasuredMemory, Warning
from estimator.scenario.units import GIB

_LINE = re.compile(r"\bstep:\s*(\d{1,9})\s+loss:\s*\S{1,20}(.{0,300}\btps:\s*[\d,]{1,20}.{0,200})")
_PAIR = re.compile(r"\b(loss|memory|tps|tflops|mfu):\s*([\d.,]{1,20})(GiB)?%?")
_KEYS = {
    "memory": ("reserved_bytes", float(GIB)),
    "tps": ("tokens_per_s_per_gpu", 1.0),
    "tflops": ("flops_per_s_per_gpu", 1e12),
    "mfu": ("mfu_frac", 0.01),
    "loss": ("loss", 1.0),
}
_LEAST = 2


def read(lines: Sequence[str]) -> Log | None:
    """Read its steps, None where there are none."""
    steps: list[Step] = []
    stamps: list[clock.Stamp | None] = []
    for line in lines:
        if (found := _LINE.search(line)) and not (steps and steps[-1].number == int(found[1])):  # another rank's
            stamps.append(clock.stamp(line))
            row = {_KEYS[name][0]: number(text) * _KEYS[name][1] for name, text, _ in _PAIR.findall(found[0])}
            if not row.get("reserved_bytes", 1.0):  # of a device whose allocator it does not ask
                del row["reserved_bytes"]
            steps.append(Step(number=int(found[1]), seconds=None, row=row))
    if len(steps) < _LEAST:
        return None
    warnings: list[Warning] = []
    said = settings_of(lines)
    tokens = said.step_tokens_of_rank
    steps, steps_s = clock.timed(steps, stamps, warnings)
    if not steps_s and tokens:
        steps = [_by_rate(step, tokens) for step in steps]
        steps_s = without_first(steps, warnings)
    if not steps_s:
        message = "The log gives tokens per second, but not how many tokens a step has, so it gives no step time"
        warnings.append(Warning(code="no-step-time", message=message))
    reserved = [step.row["reserved_bytes"] for step in steps if "reserved_bytes" in step.row]
    return Log(
        rows=rows_of(steps),
        steps_s=steps_s,
        scenario=said.scenario,
        world_size=said.world_size,
        gpu=said.gpu,
        memory=MeasuredMemory(reserved_bytes=max(reserved, default=None)),
        warnings=(*warnings, *said.warnings),
    )


def _by_rate(step: Step, tokens: float) -> Step:
    """A step with its time by its rate: tokens of a rank over tokens/s of one."""
    rate = step.row.get("tokens_per_s_per_gpu", 0.0)
    return replace(step, seconds=tokens / rate, row={**step.row, "step_s": tokens / rate}) if rate else step
