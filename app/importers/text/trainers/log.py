"""Log: what the log of any trainer gives, and how its words for numbers are read."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.importers.text.values.devices import of_name
from estimator.scenario.breakdown import WORK_PHASES, Phase
from estimator.scenario.codec import encode
from estimator.scenario.huggingface.config import model_from_hf
from estimator.scenario.measurement import PARAMETERS, MeasuredMemory, Measurement, Origin, Warning
from estimator.scenario.problems import InputProblems

_SLOW = 1.2
_LARGEST = 1e18
_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12, "P": 1e15}
_NUMBER = re.compile(r"([-+]?[\d.,]{1,40}(?:[eE][-+]?\d{1,3})?)\s?([KMGBTP]?)")
ARGUMENT = re.compile(r"(?<![\w.])([a-z_]\w{0,60})=([^,()\s]{1,80})")
"""A field in the repr of a dataclass: ``bf16=True``."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One logged step: its number, its seconds where the log says them, and all else in SI."""

    number: int
    seconds: float | None
    row: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Log:
    """What was logged of one run, row by row, and what the run says of itself; ``gpu`` as it names it."""

    rows: tuple[dict[str, Any], ...]
    steps_s: tuple[float, ...] = ()
    phases_s: dict[str, float] = field(default_factory=dict)
    scenario: dict[str, Any] = field(default_factory=dict)
    world_size: int = 1
    memory: MeasuredMemory = field(default_factory=MeasuredMemory)
    warnings: tuple[Warning, ...] = ()
    gpu: str = ""
    parameters: int = 0
    """As the run counts those of its model; 0 where it does not."""


def without_first(steps: Sequence[Step], warnings: list[Warning]) -> tuple[float, ...]:
    """Seconds of all steps but the first, which holds start-up work or may; say that it was left out."""
    kept = tuple(step.seconds for step in steps[1:] if step.seconds)
    if kept and steps[0].seconds:
        slow = steps[0].seconds > _SLOW * statistics.median(kept)
        message = f"The first logged step {'holds' if slow else 'may hold'} start-up work and was left out"
        code = "first-step-slow" if slow else "first-step-left-out"
        warnings.append(Warning(code=code, message=message, where=f"step {steps[0].number}"))
    return kept


def ranks_by_rates(step: Step) -> int:
    """Ranks, as the tokens per second of all over those of one; 0 where not both are logged."""
    each = step.row.get("tokens_per_s_per_gpu", 0.0)
    return round(step.row.get("tokens_per_s", 0.0) / each) if each else 0


def rows_of(steps: Sequence[Step], count: str = "step") -> tuple[dict[str, Any], ...]:
    """The table of the steps, or of what else they ``count``."""
    return tuple({count: step.number, **step.row} for step in steps)


def memory_of(rows: Sequence[Mapping[str, Any]], warnings: list[Warning]) -> MeasuredMemory:
    """The most that any step says was allocated, and reserved, by the names that loops give it; say what is a guess."""
    peaks = (value for row in rows for name in _PEAKS if isinstance(value := row.get(name), (int, float)) and value > 0)
    held = (value for row in rows for name in _HELD if isinstance(value := row.get(name), (int, float)) and value > 0)
    peak, reserved = max(peaks, default=None), max(held, default=None)
    plain = {} if peak else _plain_memory(rows)
    if plain:
        name, peak = max(plain.items(), key=lambda one: one[1])
        message = f"{name.removesuffix('_bytes')!r} is taken for the peak of what was allocated, as most loops print"
        warnings.append(Warning(code="memory-as-peak", message=f"{message}; it may be what was held at the time"))
    return MeasuredMemory(peak_bytes=peak, reserved_bytes=reserved)


def _plain_memory(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The most of each column of memory that does not say whether it is a peak."""
    found: dict[str, float] = {}
    for row in rows:
        for name, value in row.items():
            if _PLAIN.fullmatch(name) and isinstance(value, (int, float)) and value > 0:
                found[name] = max(value, found.get(name, 0.0))
    return found


_PLAIN = re.compile(
    r"(?:(?:gpu|cuda|device|used|allocated)_)?(?:mem|memory|vram)(?:_(?:used|allocated|alloc|usage))?_bytes"
)


_PEAKS = ("peak_bytes", "peak_memory_bytes", "peak_mem_bytes", "max_mem_bytes", "max_memory_bytes",
          "max_memory_allocated_bytes", "peak_memory_allocated_bytes", "peak_memory_alloc_bytes",
          "peak_allocated_mem_bytes", "memory_max_active_bytes")  # fmt: skip
_HELD = (
    "reserved_bytes",
    "peak_reserved_mem_bytes",
    "reserved_memory_bytes",
    "max_memory_reserved_bytes",
    "peak_memory_reserved_bytes",
    "memory_max_reserved_bytes",
)


def phases_of(rows: Sequence[Mapping[str, Any]], steps_s: Sequence[float], warnings: list[Warning]) -> dict[str, float]:
    """Medians in s of forward, backward and optimizer, but of the first row; {} where they are not nearly a step.

    They are of such a size that they add to the share of the step that the phases of a row have in the median: medians
    of steps that differ add to anything.
    """
    phases: dict[str, float] = {}
    sums_s = [0.0] * len(rows[1:])
    for phase in WORK_PHASES:
        for name in (phase, *SHORT.get(phase, ())):
            each = [row[f"{name}_s"] for row in rows[1:] if isinstance(row.get(f"{name}_s"), float)]
            if each and len(each) == len(rows) - 1 and phase not in phases:
                phases[phase] = statistics.median(each)
                sums_s = [one + other for one, other in zip(sums_s, each, strict=True)]
    shares = [of_row / row["step_s"] for of_row, row in zip(sums_s, rows[1:], strict=True) if row.get("step_s")]
    step_s, share = (statistics.median(steps_s), statistics.median(shares)) if steps_s and shares else (0.0, 0.0)
    if (added_s := sum(phases.values())) > 0:
        phases = {phase: value * share * step_s / added_s for phase, value in phases.items()}
    if not {Phase.FORWARD, Phase.BACKWARD} <= phases.keys() or not _LEAST_OF_STEP <= share <= _MOST_OF_STEP:
        return {}
    message = f"Its forward, backward and optimizer add to {share:.0%} of the step; backward holds what it waits for"
    warnings.append(Warning(code="phases-of-a-log", message=message))
    return phases


SHORT: Mapping[Phase | str, tuple[str, ...]] = {
    Phase.FORWARD: ("fwd",),
    Phase.BACKWARD: ("bwd",),
    Phase.OPTIMIZER: ("optim", "opt"),
}
"""What loops call a phase besides its name."""
_LEAST_OF_STEP, _MOST_OF_STEP = 0.9, 1.02


def measurement(log: Log, producer: str, filename: str) -> Measurement:
    """The measurement of a run."""
    return Measurement(
        label=filename[:200],
        origin=Origin(kind="upload", format=f"log/{producer}", producer=producer),
        world_size=max(1, log.world_size),
        scenario=log.scenario,
        steps_s=log.steps_s,
        phases_s=log.phases_s,
        memory=log.memory,
        rows=log.rows,
        warnings=log.warnings,
        device=_device(log.gpu),
        samples={PARAMETERS: log.parameters} if log.parameters else {},
    )


BUSY_GPUS = "busy_gpus"
"""Setting: on how many GPUs nvidia-smi saw work."""
CPU = "cpu"
"""What a log calls the device of a run without a GPU."""


def _device(gpu: str) -> dict[str, Any]:
    if gpu == CPU:
        return {"kind": CPU}
    return {"candidates": of_name(gpu, "the log says")} if gpu else {}


def number(text: str) -> float:
    """A number with or without commas for thousands, in figures or as 1.2K; 0 where it is none, or none of a log."""
    found = _NUMBER.fullmatch(text.strip())
    try:
        value = float(found[1].replace(",", "")) * _SCALES[found[2]] if found else 0.0
    except ValueError:
        return 0.0
    return value if abs(value) < _LARGEST else 0.0


def whole(arguments: Mapping[str, str], names: Mapping[str, str]) -> dict[str, int]:
    """Arguments that are whole numbers, under our names."""
    return {
        ours: int(arguments[own]) for own, ours in names.items() if re.fullmatch(r"\d{1,12}", arguments.get(own, ""))
    }


def model_of(config: object) -> dict[str, Any]:
    """The model of a Hugging Face configuration, as JSON; {} where it is not one that can be built."""
    try:
        model: dict[str, Any] = encode(model_from_hf(config))
    except InputProblems:
        return {}
    return model
