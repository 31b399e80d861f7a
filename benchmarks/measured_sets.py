"""Measured sets: every table of measured steps at hand, each row beside its prediction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.commands.validate import read_rows
from estimator.calibration.calibrate import Source, calibrate
from estimator.cost.efficiency import Efficiencies
from estimator.cost.host import GATHERED
from estimator.cost.slowest_chip import shared_host
from estimator.estimate.estimate import estimate
from estimator.estimate.host_pace import at_pace, pace_factor
from estimator.estimate.residual import memory_kind_of
from estimator.scenario.breakdown import WORK_PHASES, MemoryKind
from estimator.scenario.catalog import chip
from estimator.scenario.measurement import Measurement, scenario_run, step_time_s
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import Scenario, scenario_from_json, scenario_problems
from estimator.validation.predicted_rows import predicted_table
from estimator.validation.predicted_rows.device import TableDevice
from estimator.validation.predicted_rows.steps import MODE_PARTS, Row, estimated, part_s, scenario_of, variant_plan
from estimator.validation.score import Predicted, largest_of, predict_rows
from runners.job import read_measurement

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "tests" / "reference"
STEPS = ("cs336", "llm", "modes", "recompute")
STEP_COLUMNS = ("model", "layers", "seq_len", "micro_batch", "precision", "attention", "graph", "mode",
                "optimizer_kernel", "recompute", "ranks", "variant", "micro_batches")  # fmt: skip
"""What tells one step of a table from its others, and is the same of one step on two days."""
PROBES = "probes"
"""Begins the names of those among the paths of a set that the others are predicted by, calibrated on nothing else."""
AT_ITS_PACE = "at its pace"
"""Ends the names of sets whose probed host is taken at the pace that was noted before each of their steps."""
PLANS_AGAIN, OTHER_HOST, PACED = REFERENCE / "h200_plans" / "again", REFERENCE / "h200_host", REFERENCE / "h200_paced"
ONE_RANK = [PACED / f"probes-one-{gpu}.json" for gpu in range(4)]
TWO_RANKS = [*ONE_RANK, PACED / "probes-two-0.json", PACED / "probes-two-2.json"]
FOUR_RANKS = [*TWO_RANKS, PACED / "probes-four.json"]
_THIRD = {
    "one GPU": (PACED / "1", ONE_RANK),
    "two GPUs": (PACED / "2", TWO_RANKS),
    "four GPUs": (PACED / "4", FOUR_RANKS),
    "two GPUs, rings and experts": (PACED / "2_more", TWO_RANKS),
    "four GPUs, rings and experts": (PACED / "4_more", FOUR_RANKS),
}
_OF_THIRD = {
    f"h200 of a third host, {what}{by}": [steps, *(probes if by else [])]
    for what, (steps, probes) in _THIRD.items()
    for by in ("", ", by its probes", f", by its probes {AT_ITS_PACE}")
}
DRAWN, DRAWN_H100 = REFERENCE / "h200_drawn", REFERENCE / "h100_drawn"
_DRAWN_PROBES = {
    "one GPU": ("1", ["one"]), "two GPUs": ("2", ["one", "two"]), "four GPUs": ("4", ["one", "two", "four"])
}  # fmt: skip
_DRAWN = {
    f"{series}, {what}{by}": [
        folder / ranks / "steps",
        *(sorted(path for tag in tags for path in folder.glob(f"probes-{tag}-*")) if by else []),
    ]
    for series, folder in (
        ("h200 steps drawn", DRAWN), ("h200 steps drawn again", DRAWN / "second"), ("h100 steps drawn", DRAWN_H100),
        ("h200 steps drawn a fourth time", DRAWN / "fourth"), ("h200 steps of a fifth host", DRAWN / "fifth"),
        ("h200 steps drawn a sixth time", DRAWN / "sixth"), ("h200 steps drawn a seventh time", DRAWN / "seventh"),
        ("h200 steps drawn an eighth time", DRAWN / "eighth"),
        ("h200 rings and gathered keys drawn", DRAWN / "sequences"),
    )
    for what, (ranks, tags) in _DRAWN_PROBES.items()
    if (folder / ranks).is_dir()
    for by in ("", ", by its probes", f", by its probes {AT_ITS_PACE}")
} | {
    f"h200 steps drawn a third time, two GPUs{by}": [
        DRAWN / "third" / "2" / "steps", *([DRAWN / "third" / "probes-two-a0.json"] if by else [])
    ]
    for by in ("", ", by its probes", f", by its probes {AT_ITS_PACE}")
}  # fmt: skip
BUNDLED = {
    "h200 steps, first day": [REFERENCE / "h200" / f"step-{name}.json" for name in STEPS],
    "h200 steps, second day": [REFERENCE / "h200" / f"{name}-1.json" for name in STEPS],
    "h200 data parallel and pipelines": sorted((REFERENCE / "h200").glob("ddp-*.json")),
    "h200 memory": [REFERENCE / "h200" / "memory-1.json"],
    "h200 plans, one GPU": [REFERENCE / "h200_plans" / "1"],
    "h200 plans, two GPUs": [REFERENCE / "h200_plans" / "2"],
    "h200 plans, four GPUs": [REFERENCE / "h200_plans" / "4"],
    "h200 plans, two GPUs, again": [PLANS_AGAIN / "2"],
    "h200 plans, two GPUs, again, by its probes": [
        PLANS_AGAIN / "2", PLANS_AGAIN / "probes.json"
    ],
    f"h200 plans, two GPUs, again, by its probes {AT_ITS_PACE}": [PLANS_AGAIN / "2", PLANS_AGAIN / "probes.json"],
    "h200 of another host, one GPU": [OTHER_HOST / "1"],
    "h200 of another host, one GPU, by its probes": [OTHER_HOST / "1", OTHER_HOST / "probes.json"],
    "h200 of another host, two GPUs": [OTHER_HOST / "2"],
    "h200 of another host, two GPUs, by its probes": [OTHER_HOST / "2", OTHER_HOST / "probes.json"],
    **_OF_THIRD,
    "h200 of a fourth host, four GPUs": [PACED / "4_other"],
    f"h200 of a fourth host, four GPUs, by the third's probes {AT_ITS_PACE}": [PACED / "4_other", *FOUR_RANKS],
    **_DRAWN,
    "published, bundled": [REFERENCE / "estimator_measured_runs.csv"],
}  # fmt: skip


def _of_variant(row: Row, place: TableDevice) -> Scenario | None:
    plan = variant_plan(row)
    return scenario_of(row, place, plan) if plan else None


SCENARIOS = {"step": scenario_of, "ddp": _of_variant}
"""The scenario of a row, by the benchmark that measured it; None where it is of no plan."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One measured step beside its prediction, from whatever table: errors in percent, None where not measured.

    ``memory_bytes``: predicted, of the kind of memory that was measured. ``source``: who published it; "" of our own.
    Of the project's own steps: ``step`` names what was measured, on whatever day; ``plan`` what spreads it, "" on one
    GPU; ``waits_frac`` is the share of the predicted time in which the device waits for the host.
    """

    hardware: str
    model: str
    time: float | None
    memory: float | None
    forward: float | None = None
    backward: float | None = None
    naive: float | None = None
    peers: dict[str, float] | None = None
    kind: str = ""
    largest: str = ""
    measured_s: float | None = None
    open_frac: tuple[float, float] = (1.0, 1.0)
    low: float | None = None
    high: float | None = None
    memory_low: float | None = None
    memory_high: float | None = None
    memory_bytes: float = 0.0
    memory_kind: str = ""
    open_memory_frac: tuple[float, float] = (1.0, 1.0)
    source: str = ""
    step: str = ""
    precision: str = ""
    plan: str = ""
    waits_frac: float | None = None

    @property
    def memory_covered(self) -> bool | None:
        """Whether the measured peak lies in its interval, whose ends are ratios to the predicted one."""
        if self.memory is None or self.memory_low is None or self.memory_high is None:
            return None
        return self.memory_low <= 1 / (1 + self.memory / 100) <= self.memory_high

    @property
    def covered(self) -> bool | None:
        """Whether the measured time lies in the interval, whose ends are ratios to the predicted time."""
        return (
            None if self.low is None or self.high is None or self.ratio is None else self.low <= self.ratio <= self.high
        )

    @property
    def ratio(self) -> float | None:
        """Measured over predicted time."""
        return None if self.time is None else 1 / (1 + self.time / 100)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One step whose time was measured, with what it is predicted from.

    ``parts``: phases that were timed, none where the whole step was; ``waits``: with their waits for the host.
    """

    scenario: Scenario
    measured_s: float
    parts: tuple[str, ...] = ()
    waits: bool = True
    calibrated: Efficiencies | None = None


def cases(paths: Sequence[Path], *, at_its_pace: bool = False) -> list[Case]:
    """The steps of a set whose time was measured and whose scenario is possible."""
    found: list[Case] = []
    calibrated = calibration_of(paths)
    for path in paths:
        if path.name.startswith(PROBES):
            continue
        if path.suffix == ".csv":
            predicted = (one for one in predict_rows(read_rows(path)) if isinstance(one, Predicted))
            for row in (one.row for one in predicted):
                if row.scenario and row.measured.step_s:
                    measured = row.measured
                    found.append(Case(scenario=row.scenario, measured_s=row.measured.step_s, parts=measured.timed_parts,
                                      waits=not measured.graphs))  # fmt: skip
        elif path.is_dir():
            for name in sorted(path.glob("*.json")):
                run = read_measurement(name) if name.name != "predictions.json" else None
                if run is not None and run.status == "ok" and run.scenario and run.steps_s:
                    scenario = scenario_from_json(scenario_run(run))
                    if not scenario_problems(scenario):
                        e = _at_its_pace(calibrated, run) if at_its_pace else calibrated
                        if e is not None or not at_its_pace:
                            found.append(Case(scenario=scenario, measured_s=step_time_s(run.steps_s), calibrated=e))
        else:
            table = read_measurement(path)
            place = TableDevice(chip="h200-sxm", ranks=max(1, table.world_size))
            for cells in table.rows:
                of = SCENARIOS.get(table.origin.format)
                scenario = of(cells, place) if of and whole_step(cells) else None
                if scenario is not None and not scenario_problems(scenario):
                    found.append(Case(scenario=scenario, measured_s=cells["step_s"]))
    return found


def whole_step(row: Mapping[str, Any]) -> bool:
    """Whether a row of a table times a whole step that its host launches."""
    return bool(row.get("step_s")) and not row.get("graph") and row.get("mode", "step") == "step"


def calibration_of(paths: Sequence[Path]) -> Efficiencies | None:
    """What a set's probes say of its device and host; None where it has none."""
    probes = [
        Source(name=path.name, measurement=read_measurement(path)) for path in paths if path.name.startswith(PROBES)
    ]
    return calibrate(probes).efficiencies if probes else None


def _at_its_pace(calibrated: Efficiencies | None, run: Measurement) -> Efficiencies | None:
    """The host at the pace that was noted beside a run; None where none was, as of what was ended while it profiled."""
    if calibrated is None:
        return None
    shared = shared_host(calibrated, max(run.world_size, 1))
    factor = pace_factor(run.samples, shared.host_pace_s, shared.host_backward_pace_s)
    return None if factor is None else at_pace(calibrated, factor)


def sets(tables: Sequence[Path]) -> Iterator[tuple[str, list[Path]]]:
    """Yield the bundled sets, then a set per table of measured runs among those given."""
    yield from BUNDLED.items()
    for path in tables:
        for table in sorted(path.glob("*.csv")) if path.is_dir() else [path]:
            with table.open(encoding="utf-8") as file:
                header = file.readline()
            if "hardware" in header and "global_batch" in header and "measured_step_time_s" in header:
                yield table.stem, [table]


def read(paths: Sequence[Path], *, at_its_pace: bool = False) -> tuple[list[Scored], int]:
    """Predict every row of a set; the second number is of those that could not be."""
    scored: list[Scored] = []
    skipped = 0
    calibrated = calibration_of(paths)
    for path in paths:
        if path.name.startswith(PROBES):
            continue
        if path.suffix == ".csv":
            rows = predict_rows(read_rows(path))
            scored += [_of_row(row) for row in rows if isinstance(row, Predicted)]
            skipped += sum(not isinstance(row, Predicted) for row in rows)
        elif path.is_dir():
            results = (
                _of_result(result, calibrated, at_its_pace)
                for result in sorted(path.glob("*.json"))
                if result.name != "predictions.json"
            )
            for one in results:
                scored += [one] if one else []
                skipped += one is None
        else:
            scored += _of_table(path)
    return scored, skipped


def _of_row(row: Predicted) -> Scored:
    return Scored(
        hardware=row.row.scenario.cluster.chip.name if row.row.scenario else row.hardware,
        model=row.model,
        time=row.time_error_pct,
        memory=row.memory_error_pct,
        forward=row.parts_error_pct.get("forward"),
        backward=row.parts_error_pct.get("backward"),
        kind=row.kind,
        largest=row.largest,
        measured_s=row.row.measured_step_s,
        open_frac=row.open_frac,
        low=row.low_s / row.step_s,
        high=row.high_s / row.step_s,
        memory_low=row.peak_low_bytes / row.peak_bytes,
        memory_high=row.peak_high_bytes / row.peak_bytes,
        memory_bytes=row.peak_bytes,
        memory_kind=row.memory_kind,
        open_memory_frac=row.open_memory_frac,
        source=row.source,
        naive=row.naive_error_pct,
        peers=row.peers_error_pct,
    )


def source_of(name: str) -> str:
    """Where a set's steps are from: sets whose names begin alike are one."""
    return name.partition(",")[0]


MENDED_SINCE = ("zero1-2", "zero2-batches-2", "pp-1f1b-2", "pp-interleaved-2")
"""Steps of the first series on two GPUs whose program the runners have mended since: whole parameters were there twice
under ZeRO-1 and 2, and a pipeline's last stage kept all logits until the next step. Their peaks are of no program that
can be run; ``again`` has them as it is now."""
FIRST_SERIES = (REFERENCE / "h200_plans" / "2", OTHER_HOST / "2")


def measured_peak_bytes(path: Path, measured: Measurement, workspace_bytes: float) -> float:
    """The fullest rank's peak; 0 where none was measured, or of another program than the runners have.

    What the steps before had left was taken off it. Workspaces of libraries were among that, which a step that finds
    them there needs as well.
    """
    if path.stem in MENDED_SINCE and path.parent in FIRST_SERIES:
        return 0.0
    peaks = measured.samples.get("peak_bytes_by_rank") or [measured.memory.peak_bytes or 0.0]
    left = measured.samples.get("left_bytes_by_rank") or [0.0] * len(peaks)
    return max((peak + min(one, workspace_bytes) for peak, one in zip(peaks, left, strict=True) if peak), default=0.0)


def _of_result(path: Path, calibrated: Efficiencies | None, at_its_pace: bool) -> Scored | None:
    """Score a run by the scenario that it was of."""
    measured = read_measurement(path)
    if measured.status != "ok" or not measured.scenario:
        return None
    e = _at_its_pace(calibrated, measured) if at_its_pace else calibrated
    if at_its_pace and e is None:
        return None
    try:
        scenario = scenario_from_json(scenario_run(measured))
        one = estimate(scenario, e)
    except InputProblems:
        return None
    step_s = step_time_s(measured.steps_s)
    peak_bytes = measured_peak_bytes(path, measured, one.memory.by_kind[MemoryKind.FRAMEWORK])
    return Scored(
        hardware=scenario.cluster.chip.name,
        model=str(measured.scenario["model"].get("name", "")),
        time=100 * (one.step_time_s / step_s - 1) if step_s else None,
        memory=100 * (one.memory.peak_bytes / peak_bytes - 1) if peak_bytes else None,
        kind=one.kind,
        largest=largest_of(one),
        measured_s=step_s,
        low=one.interval_s[0] / one.step_time_s,
        high=one.interval_s[1] / one.step_time_s,
        memory_low=one.memory.interval_bytes[0] / one.memory.peak_bytes,
        memory_high=one.memory.interval_bytes[1] / one.memory.peak_bytes,
        memory_bytes=one.memory.peak_bytes,
        memory_kind=memory_kind_of(scenario),
        step=path.stem,
        precision=scenario.training.precision,
        plan=spread_by(scenario),
        waits_frac=sum(one.host_wait_by_phase_s.values()) / one.step_time_s,
    )


def spread_by(scenario: Scenario) -> str:
    """Name what spreads a step over GPUs, by what is hardest to predict of it; "" on one."""
    plan = scenario.plan
    words = {
        "tensor parallel": plan.tp > 1,
        "pipeline": plan.pp > 1,
        "context parallel": plan.cp > 1,
        "experts apart": plan.ep > 1,
        "sharded": plan.dp > 1 and plan.sharding in GATHERED,
        "data parallel": plan.dp > 1,
    }
    return next((word for word, said in words.items() if said), "")


def _of_table(path: Path) -> list[Scored]:
    """Score the rows of one of the project's benchmarks, whole steps' time where they have one."""
    measured = read_measurement(path)
    predicted = predicted_table(measured, "h200-sxm")
    place = TableDevice(chip="h200-sxm", ranks=max(1, measured.world_size))

    def error(row: Any, columns: dict[str, float], name: str) -> float | None:
        if name not in columns:
            return None
        left = row.get("left_over_bytes") or 0.0
        # What earlier rows had left, as CUDA graphs' own memory, was held beside what this one needed.
        others = max(left - place.efficiencies.workspace_bytes, 0.0) if name == "peak_bytes" else 0.0
        return 100 * (columns[name] / (row[name] - others) - 1)

    of = SCENARIOS.get(measured.origin.format)

    def about(row: Any, scenario: Scenario) -> dict[str, Any]:
        parts, wait = MODE_PARTS.get(str(row.get("mode", "step")), WORK_PHASES), not row.get("graph")
        one = estimated(scenario, None)
        whole_s = sum(part_s(one, part, wait=wait) for part in parts)
        if parts == WORK_PHASES and wait:
            whole_s = one.step_time_s
        return {
            "step": " ".join(str(row.get(name)) for name in STEP_COLUMNS),
            "precision": scenario.training.precision,
            "plan": spread_by(scenario),
            "waits_frac": sum(one.host_wait_by_phase_s[part] for part in parts) / whole_s if wait else 0.0,
            "measured_s": row.get("step_s"),
        }

    def interval(row: Any, scenario: Scenario) -> dict[str, Any]:
        if row.get("graph") or row.get("mode", "step") != "step":
            return {}
        one = estimate(scenario, explained=False)
        low, high = (end / one.step_time_s for end in one.interval_s)
        return {
            "kind": one.kind,
            "largest": largest_of(one),
            "low": low,
            "high": high,
            "memory_low": one.memory.interval_bytes[0] / one.memory.peak_bytes,
            "memory_high": one.memory.interval_bytes[1] / one.memory.peak_bytes,
            "memory_bytes": one.memory.peak_bytes,
            "memory_kind": memory_kind_of(scenario),
        }

    def known(row: Any) -> dict[str, Any]:
        scenario = of(row, place) if of else None
        return {} if scenario is None else {**interval(row, scenario), **about(row, scenario)}

    return [
        Scored(
            **known(row),
            hardware=chip("h200-sxm").name,
            model=str(row.get("model", "")),
            time=error(row, columns, "step_s"),
            memory=error(row, columns, "peak_bytes"),
            forward=error(row, columns, "forward_s"),
            backward=error(row, columns, "backward_s"),
        )
        for row, columns in zip(measured.rows, predicted.rows, strict=True)
        if columns
    ]
