"""Logs of DeepSpeed: its throughput timer, its wall clock breakdown, its pipeline engine and its FLOPs profiler."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from app.importers.text.trainers import clock
from app.importers.text.trainers.log import Log, Step, number, rows_of, whole, without_first
from estimator.scenario.breakdown import PHASES, Phase
from estimator.scenario.measurement import MeasuredMemory, Warning
from estimator.scenario.units import GIB

_TIMER = re.compile(
    r"(?:global_step=|\b\d{1,6}/)(\d{1,9}),\s+(?:RunningAvg)?SamplesPerSec=([\d.e+]{1,30})"
    r"(?:,\s+CurrSamplesPerSec=([\d.e+]{1,30}))?"
)
_MEMORY = re.compile(r"MaxMemAllocated=([\d.]{1,20})\s?GB")
_CLOCK = re.compile(r"\btime \(ms\) \|(.{1,1000})")
_PAIR = re.compile(r"\s*(\w{1,60}):\s*([\d.]{1,20})\s*(?:\||$)")
_PIPELINE = re.compile(
    r"\bsteps:\s*(\d{1,9})\s+loss:\s*([\d.e+-]{1,20})\s+(?:\w{1,20} loss:\s*[\d.e+-]{1,20}\s+){0,4}"
    r"iter time \(s\):\s*([\d.]{1,20})(?:\s+samples/sec:\s*([\d.]{1,20}))?"
)
_ARGUMENT = re.compile(r"\[config\.py:\d{1,6}:print\w{0,20}\]\s+(\w{1,60}) \.{0,80} (\S.{0,200})$")
_PROFILE = re.compile(
    r"^\s*(?:\S{0,60}:\s?)?(params per gpu|params of model \S* *|fwd macs per gpu|fwd flops per gpu|fwd latency"
    r"|bwd latency|step latency|iter latency|samples/second|world size|batch size per gpu)[^:=]{0,60}[:=]\s+"
    r"([\d.,]{1,20})\s*([A-Za-z]{0,10})\s*$",
    re.IGNORECASE,
)
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_CLOCK_PHASES = {
    "forward": Phase.FORWARD, "fwd": Phase.FORWARD,
    "backward_inner": Phase.BACKWARD, "bwd_inner": Phase.BACKWARD,
    "backward_allreduce": Phase.EXPOSED_COMMUNICATION, "bwd_allreduce": Phase.EXPOSED_COMMUNICATION,
    "step": Phase.OPTIMIZER,
}  # fmt: skip
"""Timers of a whole step; those that end in ``_microstep`` are of one micro-batch."""
_PROFILED = {"forward_s": Phase.FORWARD, "backward_s": Phase.BACKWARD, "optimizer_s": Phase.OPTIMIZER}
_SHARDINGS = {"0": "ddp", "1": "zero1", "2": "zero2", "3": "zero3"}
_LEAST = 2


def read(lines: Sequence[str]) -> Log | None:
    """Read its steps, from the clock where it breaks them down, else from its rates; None where there are neither."""
    arguments = {hit[1]: hit[2].strip() for line in lines if (hit := _ARGUMENT.search(line))}
    batch = whole(arguments, {"train_batch_size": "batch"}).get("batch", 0)
    warnings: list[Warning] = []
    said = [(step, clock.stamp(line)) for line in lines if (step := _timed(line, batch)) is not None]
    timed = [step for step, _ in said]
    clocked = [row for line in lines if (row := _clocked(line))]
    piped = [step for line in lines if (step := _piped(line)) is not None]
    profiled = _profiled(lines)
    phases: dict[str, float] = {}
    if len(clocked) >= _LEAST and len(piped) < _LEAST:  # the engine of pipelines adds up its clocks between prints
        steps = [Step(number=at, seconds=row["step_s"], row=row) for at, row in enumerate(clocked, 1)]
        message = "With wall_clock_breakdown the host waits for the device between the phases, so a step takes longer"
        warnings.append(Warning(code="clock-synchronises", message=message))
        kept = [row for row in clocked[1:] if row["step_s"] > 0]
        for phase in PHASES:
            if any(f"{phase}_s" in row for row in kept):
                phases[phase] = statistics.median(row.get(f"{phase}_s", 0.0) for row in kept)
    else:
        steps = piped if len(piped) >= _LEAST else timed
    if len(steps) < _LEAST and not profiled:
        return None
    steps_s = without_first(steps, warnings) if len(steps) >= _LEAST else ()
    if not steps_s and "iter_s" in profiled:
        steps_s = (profiled["iter_s"],)
        phases = {phase: profiled[key] for key, phase in _PROFILED.items() if key in profiled}
        message = "The FLOPs profiler measures one step with hooks around every module, so it takes longer"
        warnings.append(Warning(code="profiled-step", message=message))
    if not steps_s and steps is timed and len(timed) >= _LEAST:
        steps, steps_s = clock.timed(timed, [stamp for _, stamp in said], warnings)
    if not steps_s:
        message = "The log gives samples per second, but not train_batch_size, so it gives no step time"
        warnings.append(Warning(code="no-step-time", message=message))
    peaks = [number(hit[1]) for line in lines if (hit := _MEMORY.search(line))]
    scenario, world = _scenario(arguments)
    return Log(
        rows=(*rows_of(steps), *([profiled] if profiled else [])),
        steps_s=steps_s,
        phases_s=phases,
        scenario=scenario,
        world_size=max(world, int(profiled.get("world_size", 1))),
        memory=MeasuredMemory(peak_bytes=max(peaks) * GIB if peaks else None),
        warnings=tuple(warnings),
    )


def _timed(line: str, batch: int) -> Step | None:
    found = _TIMER.search(line)
    if found is None:
        return None
    rate = number(found[3] or found[2])
    row: dict[str, Any] = {"samples_per_s": rate}
    seconds = batch / rate if batch and rate and found[3] else None
    if seconds:
        row["step_s"] = seconds
    if peak := _MEMORY.search(line):
        row["peak_bytes"] = number(peak[1]) * GIB
    return Step(number=int(found[1]), seconds=seconds, row=row)


def _clocked(line: str) -> dict[str, Any]:
    """Phases of a step and their sum; {} for a line of micro-steps, and for timers of a program above (GPT-NeoX's)."""
    found = _CLOCK.search(line)
    if found is None:
        return {}
    row: dict[str, Any] = {}
    for name, text in _PAIR.findall(found[1]):
        if name in _CLOCK_PHASES:
            row[f"{_CLOCK_PHASES[name]}_s"] = number(text) * 1e-3
    whole = {f"{Phase.FORWARD}_s", f"{Phase.BACKWARD}_s"} <= set(row)
    return {**row, "step_s": sum(row.values())} if whole else {}


def _piped(line: str) -> Step | None:
    found = _PIPELINE.search(line)
    if found is None:
        return None
    seconds = number(found[3])
    row = {"step_s": seconds, "loss": number(found[2]), **({"samples_per_s": number(found[4])} if found[4] else {})}
    return Step(number=int(found[1]), seconds=seconds or None, row=row)


def _profiled(lines: Sequence[str]) -> dict[str, Any]:
    """What the FLOPs profiler printed of one step; {} where it did not run."""
    start = next((at for at, line in enumerate(lines) if "DeepSpeed Flops Profiler" in line), None)
    row: dict[str, Any] = {}
    if start is None:
        return row
    for line in lines[start : start + 60]:
        if found := _PROFILE.match(line):
            name, value, printed = found[1].lower(), number(found[2]), found[3]
            if name.endswith("latency"):
                key = {"fwd": "forward_s", "bwd": "backward_s", "step": "optimizer_s", "iter": "iter_s"}[
                    name.split()[0]
                ]
                row[key] = value * _UNITS.get(printed, 1.0)
            elif name in ("world size", "batch size per gpu"):
                row[name.replace(" ", "_")] = int(value)
            elif name == "samples/second":
                row["samples_per_s"] = value
            elif name == "fwd flops per gpu":
                row["forward_flops"] = number(f"{found[2]} {printed[:1].upper()}")
    return row


def _scenario(arguments: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    """Plan and training; of the model its configuration says nothing."""
    said = whole(arguments, {"world_size": "world", "train_batch_size": "batch",
                             "train_micro_batch_size_per_gpu": "micro_batch"})  # fmt: skip
    world = max(1, said.get("world", 1))
    if "batch" not in said:
        return {}, world
    plan: dict[str, Any] = {"dp": world, "micro_batch": said.get("micro_batch", 1)}
    if arguments.get("zero_optimization_stage") in _SHARDINGS:
        plan["sharding"] = _SHARDINGS[arguments["zero_optimization_stage"]]
    precision = "bf16-amp" if arguments.get("bfloat16_enabled") == "True" else (
        "fp16-amp" if arguments.get("fp16_enabled") == "True" else "fp32")  # fmt: skip
    return {
        "plan": plan,
        "training": {"global_batch": said["batch"], "precision": precision, "framework": "pytorch-eager"},
    }, world
