"""Score: predictions of a whole table of measured runs against what was measured, beside the naive formula."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import mean, median

from estimator.cost.efficiency import Calibrated, efficiencies_for, without_autograd
from estimator.estimate.estimate import Estimate, Memory, estimate
from estimator.estimate.report import MemoryOfStage
from estimator.estimate.residual import allocator_range, held_interval, memory_interval, memory_kind_of
from estimator.scenario.breakdown import WORK_PHASES
from estimator.scenario.hardware import Chip, peak_flops_per_s
from estimator.scenario.parameters import parameters
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import Scenario
from estimator.validation.at_a_time import AS_MANY_AS_FIT
from estimator.validation.csv_row import ASSUMED_THRIFT, CsvRow, scenario_of_row
from estimator.validation.measured import Measured, is_inference


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Errors of predictions in percent of the measurement; bias is signed, negative when predicted too short."""

    n: int
    mape: float | None
    median_ape: float | None
    p90_ape: float | None
    max_ape: float | None
    bias: float | None


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """One row with its prediction and errors in percent; ``fits``: the prediction finds room in its chips' memory.

    ``parts_s``: predicted seconds of forward, backward and optimizer, waiting for the host included. ``naive_s``: None
    where the row times a part of a step. ``peers_error_pct``: errors of predictions that stand in the table, by whose.
    ``peak_low_bytes``, ``peak_high_bytes``: the interval of the kind of memory that the row measured.
    ``open_frac``: the shortest and the longest step that what the row leaves open admits, over the predicted one.
    ``open_memory_frac``: the same of peaks, the smallest and the largest.
    ``largest``: the category that most of the step is of. ``hardware``: the catalogue's key, however the row spells it.
    """

    row: CsvRow
    hardware: str
    model: str
    source: str
    step_s: float
    low_s: float
    high_s: float
    peak_bytes: float
    peak_low_bytes: float
    peak_high_bytes: float
    fits: bool
    kind: str
    memory_kind: str
    open_frac: tuple[float, float]
    open_memory_frac: tuple[float, float]
    largest: str
    parts_s: dict[str, float]
    naive_s: float | None
    time_error_pct: float | None
    memory_error_pct: float | None
    naive_error_pct: float | None
    parts_error_pct: dict[str, float]
    peers_error_pct: dict[str, float]

    @property
    def covered(self) -> bool | None:
        """Whether the measured time lies in the interval; None where none was measured."""
        measured = self.row.measured_step_s
        return None if measured is None else self.low_s <= measured <= self.high_s


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A row that was not predicted, and why; rows count from 1.

    ``needed_bytes``: of one that ran out of memory, what it is predicted to need, 0 where nothing tells.
    """

    row: int
    source_id: str
    reason: str
    needed_bytes: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Of ``n`` measured times, the share that lies in the predicted interval; it is meant to hold 80 %."""

    n: int
    covered_frac: float | None


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Score of a table: time and memory of the model, its phases, its interval, other predictions, and time by group.

    ``baseline``: the naive formula, and what the table itself holds of others' predictions. ``not_fitting``: rows that
    were scored, and by the prediction need more memory than their chips have.
    """

    rows: int
    predicted: int
    skipped: tuple[Skipped, ...]
    not_fitting: tuple[str, ...]
    time: Errors
    memory: Errors
    forward: Errors
    backward: Errors
    optimizer: Errors
    interval: Coverage
    baseline: dict[str, Errors]
    by: dict[str, dict[str, Errors]]


TOO_LARGE = "needs more memory than its chip has whatever is recomputed: give recompute and optimizer"
LEAST_LIKELY = 0.9
"""Risk of running out of memory from which on the thriftiest that a row may have been is not what ran."""
ASSUMED_TUNED = "(the fastest that fits, as the table is of tuned runs)"


def naive_step_s(scenario: Scenario) -> float:
    """Predict by 6·N·tokens FLOPs (8 with full recomputation) at half of the peak, times the pipeline's bubble."""
    factor = 8.0 if scenario.plan.recompute == "full" else 6.0
    flops = factor * parameters(scenario.model, scenario.training.seq_len) * scenario.tokens
    rate = 0.5 * peak_flops_per_s(scenario.cluster.rank_chip, scenario.training.precision) * scenario.cluster.chips
    bubble = (scenario.micro_batches + scenario.plan.pp - 1) / scenario.micro_batches
    return flops / rate * bubble


def predict_rows(
    rows: Iterable[Mapping[str, str]], calibration: Calibrated | None = None, own: Mapping[str, Chip] | None = None
) -> list[Predicted | Skipped]:
    """Predict every row, or say why not, in the table's order; ``own``: chips that the catalogue lacks, by name."""
    return [_predict(number, row, calibration, own or {}) for number, row in enumerate(rows, 1)]


def validate(rows: Iterable[Mapping[str, str]], calibration: Calibrated | None = None) -> Validation:
    """Predict and score every row of a table."""
    return score(predict_rows(rows, calibration))


def score(found: Sequence[Predicted | Skipped]) -> Validation:
    """Add up the errors of predicted rows."""
    done = [item for item in found if isinstance(item, Predicted)]
    peers = sorted({peer for item in done for peer in item.peers_error_pct})
    groups: dict[str, dict[str, list[float]]] = {"hardware": {}, "model": {}, "source": {}}
    for item in done:
        if item.time_error_pct is None:
            continue
        for group, name in (("hardware", item.hardware), ("model", item.model), ("source", item.source)):
            groups[group].setdefault(name, []).append(item.time_error_pct)
    return Validation(
        rows=len(found),
        predicted=len(done),
        skipped=tuple(item for item in found if isinstance(item, Skipped)),
        not_fitting=tuple(
            row_name(item.row.source_id, number)
            for number, item in enumerate(found, 1)
            if isinstance(item, Predicted) and not item.fits
        ),
        time=errors([item.time_error_pct for item in done]),
        memory=errors([item.memory_error_pct for item in done]),
        **{part: errors([item.parts_error_pct.get(part) for item in done]) for part in WORK_PHASES},
        interval=coverage(done),
        baseline={
            "naive": errors([item.naive_error_pct for item in done]),
            **{peer: errors([item.peers_error_pct.get(peer) for item in done]) for peer in peers},
        },
        by={group: {name: errors(values) for name, values in sorted(names.items())} for group, names in groups.items()},
    )


def coverage(items: Iterable[Predicted]) -> Coverage:
    """Count the measured times that lie in their intervals."""
    known = [item.covered for item in items if item.covered is not None]
    return Coverage(n=len(known), covered_frac=mean(known) if known else None)


def ran_out(needed_bytes: float, there_bytes: float) -> str:
    """Say of a row that ran out of memory what it is predicted to need of what its chip has."""
    sizes = f"{needed_bytes / 1e9:,.1f} of {there_bytes / 1e9:,.1f} GB"
    how = "as predicted: " if needed_bytes > there_bytes else "though predicted to need "
    return f"it ran out of memory, {how}{sizes}"


def row_name(source_id: str, number: int) -> str:
    """Name a row by its identifier, else by its place in the table, counted from 1."""
    return source_id or f"row {number}"


def errors(percent: Iterable[float | None]) -> Errors:
    """Summarise signed errors in percent; None counts as not measured."""
    values = [value for value in percent if value is not None]
    if not values:
        return Errors(n=0, mape=None, median_ape=None, p90_ape=None, max_ape=None, bias=None)
    sizes = sorted(abs(value) for value in values)
    return Errors(
        n=len(values),
        mape=mean(sizes),
        median_ape=median(sizes),
        p90_ape=sizes[min(int(0.9 * len(sizes)), len(sizes) - 1)],
        max_ape=sizes[-1],
        bias=mean(values),
    )


def _predict(
    number: int, cells: Mapping[str, str], calibration: Calibrated | None, own: Mapping[str, Chip]
) -> Predicted | Skipped:
    row = scenario_of_row(cells, own)
    if row.scenario is None:
        return Skipped(row=number, source_id=row.source_id, reason=row.reason)
    if is_inference(cells):
        calibration = without_autograd(row.scenario.cluster.chip, calibration)
    try:
        found = estimate(row.scenario, calibration, explained=False)
    except InputProblems as error:
        return Skipped(row=number, source_id=row.source_id, reason=str(error))
    if row.out_of_memory:
        needed_bytes = found.memory.reserved_bytes
        reason = ran_out(needed_bytes, row.scenario.cluster.rank_chip.memory_bytes)
        return Skipped(row=number, source_id=row.source_id, reason=reason, needed_bytes=needed_bytes)
    measured = row.measured
    unsaid: list[Estimate] = []
    if not found.memory.fits and row.thriftier:
        # It ran, so that it was not this; what it left open it had as little of as it needed.
        tried = [(one, words, estimate(one, calibration, explained=False)) for one, words in row.thriftier]
        fitting = next((each for each in tried if each[2].memory.fits), None)
        if fitting is None and tried[-1][2].memory.out_of_memory_frac < LEAST_LIKELY:
            fitting = tried[-1]  # a full device makes the allocator give back what it holds beyond need
        if fitting is not None:
            # Which of them it was, and whether it recomputed at all, the row does not say.
            unsaid = [found, *(one for *_, one in tried if one.memory.fits)]
            scenario, words, found = fitting
            row = replace(row, scenario=scenario, assumptions=_thrifty(row, scenario, words))
        elif any(words == ASSUMED_THRIFT for _, words in row.thriftier):
            return Skipped(row=number, source_id=row.source_id, reason=TOO_LARGE)
    batches = ((one, other.step_time_s) for one in row.batches if (other := _possible(one, calibration)) is not None)
    fastest, least_s = min(batches, key=lambda one: one[1], default=(None, math.inf))
    if fastest is not None and least_s < found.step_time_s:
        found = estimate(fastest, calibration, explained=False)
        row = replace(row, scenario=fastest, assumptions=_tuned(row, fastest))
    waits = {part: 0.0 if measured.graphs else found.host_wait_by_phase_s[part] for part in WORK_PHASES}
    parts = {part: found.phases_s[part] + waits[part] for part in WORK_PHASES}
    step_s = found.step_time_s - sum(found.host_wait_by_phase_s[part] - waits[part] for part in WORK_PHASES)
    if measured.timed_parts:
        step_s = sum(parts[part] for part in measured.timed_parts)
    others = [_possible(other, calibration) for other in row.alternatives if other != row.scenario]
    unsaid += [other for other in others if other is not None]
    known = [found.step_time_s, *(other.step_time_s for other in unsaid)]
    # What a row leaves open widens the interval by what it would change, in quadrature.
    low_s = step_s * math.exp(-_beside(found.interval_s[0], min(known), found.step_time_s))
    high_s = step_s * math.exp(_beside(found.interval_s[1], max(known), found.step_time_s))
    held = _held(found, measured)
    assert row.scenario is not None
    memory_kind = memory_kind_of(row.scenario)
    if measured.memory_kind == "allocated":
        peak_bytes = held.peak_bytes
        peak_interval = memory_interval(peak_bytes, memory_kind)
    else:
        beside = measured.context_bytes if measured.memory_kind == "device" else 0.0
        peak_bytes = held.reserved_bytes + beside
        allocator = allocator_range(row.scenario, held.moment, efficiencies_for(row.scenario.cluster.chip, calibration))
        low_bytes, high_bytes = held_interval(held.reserved_bytes, memory_kind, allocator)
        peak_interval = low_bytes + beside, high_bytes + beside
    unsaid += [other for one in row.other_moments if (other := _possible(one, calibration)) is not None]
    sizes = [_held(other, measured).peak_bytes / held.peak_bytes for other in unsaid if other.memory.fits]
    # It was one of them: the interval reaches from the lower end of the smallest to the upper end of the largest.
    open_memory_frac = min([1.0, *sizes]), max([1.0, *sizes])
    naive = None if measured.timed_parts else naive_step_s(row.scenario)
    return Predicted(
        row=row,
        hardware=row.scenario.cluster.chip.name,
        model=cells.get("model", ""),
        source=cells.get("source", "").split()[0] if cells.get("source") else "",
        step_s=step_s,
        low_s=low_s,
        high_s=high_s,
        peak_bytes=peak_bytes,
        peak_low_bytes=peak_interval[0] * open_memory_frac[0],
        peak_high_bytes=peak_interval[1] * open_memory_frac[1],
        fits=found.memory.fits,
        kind=found.kind,
        memory_kind=memory_kind,
        open_memory_frac=open_memory_frac,
        open_frac=(min(known) / found.step_time_s, max(known) / found.step_time_s),
        largest=largest_of(found),
        parts_s=parts,
        naive_s=naive,
        time_error_pct=_error(step_s, measured.step_s),
        memory_error_pct=_error(peak_bytes, measured.memory_bytes),
        naive_error_pct=_error(naive, measured.step_s) if naive else None,
        parts_error_pct={part: 100.0 * (parts[part] / seconds - 1.0) for part, seconds in measured.parts_s.items()},
        peers_error_pct={
            peer: 100.0 * (seconds / measured.step_s - 1.0)
            for peer, seconds in measured.peers_s.items()
            if measured.step_s
        },
    )


def _held(found: Estimate, measured: Measured) -> Memory | MemoryOfStage:
    """What is held by the rank whose memory was measured."""
    return found.memory.stages[-1] if measured.memory_of_last else found.memory


def _beside(one: float, other: float, predicted: float) -> float:
    """Add two deviations from a prediction in quadrature, as logarithms."""
    return math.hypot(*(math.log(max(end, 1e-3 * predicted) / predicted) for end in (one, other)))


def _tuned(row: CsvRow, scenario: Scenario) -> tuple[str, ...]:
    """What is assumed of a row once its micro-batch is found."""
    return (*_but_micro_batch(row), f"micro_batch = {scenario.plan.micro_batch} {ASSUMED_TUNED}")


def _thrifty(row: CsvRow, scenario: Scenario, words: str) -> tuple[str, ...]:
    """What is assumed of a row that did not fit as it was taken first."""
    assert row.scenario is not None
    said = () if words == AS_MANY_AS_FIT else (words,)
    size = scenario.plan.micro_batch
    if size == row.scenario.plan.micro_batch:
        return (*row.assumptions, *said)
    return (*_but_micro_batch(row), f"micro_batch = {size} ({AS_MANY_AS_FIT})", *said)


def _but_micro_batch(row: CsvRow) -> tuple[str, ...]:
    return tuple(one for one in row.assumptions if not one.startswith("micro_batch = "))


@lru_cache(maxsize=4096)
def _possible(scenario: Scenario, calibration: Calibrated | None) -> Estimate | None:
    """An alternative that is possible and fits; rows of a table often have the same ones."""
    try:
        found = estimate(scenario, calibration, interval=False, explained=False)
    except InputProblems:
        return None
    return found if found.memory.fits else None


def largest_of(one: Estimate) -> str:
    """Return the category that most of a step is of."""
    return max(one.breakdown_s, key=lambda category: one.breakdown_s[category])


def _error(predicted: float, measured: float | None) -> float | None:
    return 100.0 * (predicted / measured - 1.0) if measured else None
