"""Measurement: what a run, an import or a stored upload gives; partial by nature, never guessed."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from estimator.scenario.timeline import Timeline

SCHEMA_VERSION = 1
OOM = "oom"
STATUSES = ("ok", OOM, "failed", "cancelled")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a measurement comes from: ``kind`` is run or upload, ``format`` the importer's or benchmark's name."""

    kind: str
    format: str
    producer: str = ""
    version: str = ""


BATCH_GUESSED = "batch-guessed"
"""Code of the warning that says why the batch of a log may be another."""

FIELD_GUESSED = "field-guessed"
"""Code of a warning that the field of the scenario at ``where`` is guessed, as its trainer's default is."""

FIELD_DERIVED = "field-derived"
"""Code of a warning that the field of the scenario at ``where`` is derived, and of which figures of the source."""

PARAMETERS = "parameters"
"""Of a log's samples: how many parameters it says that its model has, or that are trained."""


@dataclass(frozen=True, kw_only=True)
class Warning:
    """Something a reader of the numbers must know: a stable code, a sentence, and the place in the source."""

    code: str
    message: str
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """All executions of one kernel (or op) in one step; FLOPs and bytes are totals too, where known."""

    name: str
    category: str
    count: int
    total_s: float
    flops: float | None = None
    bytes: float | None = None


@dataclass(frozen=True, kw_only=True)
class MeasuredCollective:
    """One collective at one size; bus bandwidth is algorithm bandwidth times the kind's traffic factor."""

    kind: str
    bytes: float
    ranks: int
    seconds: float
    algorithm_bytes_per_s: float | None = None
    bus_bytes_per_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class MeasuredMemory:
    """Peaks as the allocator saw them; ``by_kind`` only where the source tells kinds apart."""

    peak_bytes: float | None = None
    reserved_bytes: float | None = None
    by_kind: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One measured step, benchmark or table; times in seconds, sizes in bytes.

    ``phases_s`` and ``breakdown_s`` use the names of estimator.scenario.breakdown; ``rows`` holds tables, one dict per
    row, with the unit in every column's name. ``timeline`` is of the profiled step, which took a little longer.
    """

    id: str = ""
    label: str = ""
    origin: Origin = Origin(kind="run", format="step")
    device: dict[str, Any] = field(default_factory=dict)
    world_size: int = 1
    rank: int = 0
    scenario: dict[str, Any] = field(default_factory=dict)
    steps_s: tuple[float, ...] = ()
    phases_s: dict[str, float] = field(default_factory=dict)
    breakdown_s: dict[str, float] = field(default_factory=dict)
    kernels: tuple[Kernel, ...] = ()
    collectives: tuple[MeasuredCollective, ...] = ()
    memory: MeasuredMemory = MeasuredMemory()
    timeline: Timeline | None = None
    rows: tuple[dict[str, Any], ...] = ()
    status: str = "ok"
    environment: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[Warning, ...] = ()
    samples: dict[str, Any] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION


def fullest_peak_bytes(measurement: Measurement) -> float | None:
    """The peak of the fullest rank, which a prediction is of; ``memory`` is of the rank that wrote the result.

    None where none was measured.
    """
    by_rank = measurement.samples.get("peak_bytes_by_rank")
    known = [one for one in by_rank if isinstance(one, (int, float)) and one] if isinstance(by_rank, list) else []
    return max(known, default=measurement.memory.peak_bytes)


SAID_BY_OPTIONS = ("experts", "optimizer_kernel")
"""Fields of the training that options of a measured step may say otherwise than its scenario."""


def as_asked(scenario: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario's document with what options of a measured step say of its training, where they do."""
    said = {name: options[name] for name in SAID_BY_OPTIONS if options.get(name, "default") != "default"}
    training = scenario.get("training", {})
    if not said or not isinstance(training, Mapping):
        return dict(scenario)
    return {**scenario, "training": {**training, **said}}


def scenario_run(measurement: Measurement) -> dict[str, Any]:
    """The scenario as it ran: with what the run's options say otherwise of its training."""
    return as_asked(measurement.scenario, measurement.samples.get("options") or {})


DISTURBED_RATIO = 2.0
"""Steps of one run that differ by more were disturbed by something else, and their median says as little."""
MANY_STEPS = 40
"""In a log of as many, a twentieth at each end are steps that evaluated, wrote a checkpoint or stopped short."""


def _usual(steps_s: Sequence[float]) -> list[float]:
    """The steps, shortest first, without a twentieth at each end where there are many."""
    beyond = len(steps_s) // 20 if len(steps_s) >= MANY_STEPS else 0
    return sorted(steps_s)[beyond : len(steps_s) - beyond]


def disturbance(steps_s: Sequence[float]) -> float:
    """Slowest over fastest of the usual steps where that is more than :data:`DISTURBED_RATIO`, else 0."""
    usual = _usual(steps_s)
    ratio = usual[-1] / usual[0] if usual and usual[0] > 0 else 0.0
    return ratio if ratio > DISTURBED_RATIO else 0.0


def step_time_s(steps_s: Sequence[float]) -> float | None:
    """Seconds of one step: the median of the measured ones, the fastest where they were disturbed; None without any."""
    if not steps_s:
        return None
    return _usual(steps_s)[0] if disturbance(steps_s) else statistics.median(steps_s)


_COUNTS = ("world_size", "gpus", "n_gpus", "ranks")
_DEGREES = ("dp", "tp", "pp", "cp")


def chips_of_rows(rows: Iterable[Mapping[str, Any]]) -> set[int]:
    """How many chips the rows of a table say that they ran on, by a count, else by nodes or degrees."""
    return {found for row in rows if (found := _chips_of(row)) > 0}


def _chips_of(row: Mapping[str, Any]) -> int:
    def count(name: str) -> int:
        value = row.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

    if stated := next((found for name in _COUNTS if (found := count(name))), 0):
        return stated
    if of_nodes := count("nodes") * count("gpus_per_node"):
        return of_nodes
    degrees = [found for name in _DEGREES if (found := count(name))]
    return math.prod(degrees) if degrees else 0


def status_reason(measurement: Measurement) -> str:
    """Why a measurement is no full one, in the words of its warnings; "" where it is."""
    return "; ".join(warning.message for warning in measurement.warnings if warning.code == measurement.status)


def status_of_row(row: Mapping[str, Any]) -> str:
    """What became of a row; one that does not say was measured."""
    return str(row.get("status", "ok"))


def any_measured(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any of the rows was measured."""
    return any(status_of_row(row) == "ok" for row in rows)


def rows_by_status(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Count rows by what became of them, the most frequent first."""
    return dict(Counter(status_of_row(row) for row in rows).most_common())


def statuses_text(counts: Mapping[str, int]) -> str:
    """Write rows counted by status, as in ``2 ok, 1 oom``."""
    return ", ".join(f"{count:,} {status}" for status, count in counts.items())
