"""``headroom predict``: the steps of a series before they are measured, and what was measured beside them.

``predictions.json`` in the folder of the results keeps what was predicted first: a later call adds steps that are new
and compares, but changes no prediction that stands there. Each says whether its step had been measured by then.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from app.commands.calibration import read_calibrations
from app.commands.files import print_json, read_document, table, wrapped
from app.commands.laying import option_of, read_laying
from app.tracing import failure, flags_of, trace_command
from estimator.cost.efficiency import Calibrated, Efficiencies, efficiencies_for
from estimator.cost.slowest_chip import shared_host
from estimator.estimate.estimate import Estimate, estimate
from estimator.estimate.host_pace import Curve, over_paces, pace_factor, read_off
from estimator.estimate.layout.lay_out import Laying, estimate_laid_out
from estimator.estimate.of_op_list import cluster_for, estimate_op_list
from estimator.scenario.hardware import Cluster
from estimator.scenario.measurement import as_asked, fullest_peak_bytes, step_time_s
from estimator.scenario.op_list import OpList
from estimator.scenario.op_list import from_json as op_list_from_json
from estimator.scenario.problems import InputProblems, Problem, fields_named
from estimator.scenario.scenario import Scenario, scenario_from_json
from estimator.scenario.units import bytes_text, counted, seconds
from runners.job import read_measurement, write_atomically
from runners.reference.plans import plans
from runners.series_list import Entry, entries_of, read_series

PREDICTIONS_FILE = "predictions.json"
NAMED = 12
"""How many predictions that stand already are named; more would hide what is said of them."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a step should take; ``measured_before``: its result was there when it was predicted.

    ``host_pace_s``, ``host_backward_pace_s``: the paces of both threads of the host behind the efficiencies, 0 where
    they were not noted; ``over_paces_s``: the step at paces so many times that (estimator/estimate/host_pace.py).
    ``plan``: what a list of one rank was laid out by.
    """

    name: str
    efficiencies: str
    step_time_s: float
    interval_s: tuple[float, float]
    phases_s: dict[str, float]
    peak_bytes: float
    measured_before: bool = False
    host_pace_s: float = 0.0
    host_backward_pace_s: float = 0.0
    over_paces_s: Curve = ()
    plan: str = ""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A prediction and what was measured; None where it was not, or where memory was not enough.

    ``host_factor``: how many times as long as while it was calibrated the host took for the same work beside the step.
    """

    prediction: Prediction
    step_time_s: float | None = None
    host_factor: float | None = None
    peak_bytes: float | None = None
    status: str = ""

    @property
    def time_error_frac(self) -> float | None:
        """Predicted over measured step time, less one."""
        return self.prediction.step_time_s / self.step_time_s - 1 if self.step_time_s else None

    @property
    def at_pace_error_frac(self) -> float | None:
        """The same, predicted at the pace at which the host then ran."""
        if not self.step_time_s or self.host_factor is None:
            return None
        return read_off(self.prediction.over_paces_s, self.host_factor) / self.step_time_s - 1

    @property
    def memory_error_frac(self) -> float | None:
        """The same of the peak."""
        return self.prediction.peak_bytes / self.peak_bytes - 1 if self.peak_bytes else None


def predict(
    series: Path | None, ranks: int, chip: str, calibration: Sequence[Path] | None, results: Path | None, as_json: bool,
    plan: Sequence[str] = (), split: Sequence[str] = (),
) -> int:  # fmt: skip
    """Predict a list of steps, or the reference series for so many ranks; raise InputProblems.

    Without a list, measured steps in ``results`` that no prediction stands beside are predicted by the scenario in
    each, and nothing is written there: predictions are kept where they were made before. A scenario says itself how
    many GPUs of what kind; other people's models are traced for ``ranks`` of ``chip``, or for one and laid out by
    ``plan``.
    """
    laying = read_laying(plan, split)
    if results is not None and results.is_file():
        remedy = f"Give the folder that it lies in: {results.parent}."
        raise InputProblems([Problem(field="--results", message=f"{results} is a file", remedy=remedy)])
    measured, unread = _measured(results) if series is None else ([], [])
    if results is not None and series is None:
        print("\n".join(_what_lies_there(results, len(measured), unread, ranks)), file=sys.stderr, end="")
    entries = read_series(series) if series else measured or entries_of(plans(ranks))
    efficiencies = read_calibrations(calibration)
    known = _known(results)
    if results is not None and (stood := [entry.name for entry in entries if entry.name in known]):
        # before the others, which may take minutes and fill the terminal
        print("\n".join(_left_alone(stood, len(entries), results, bool(calibration))), file=sys.stderr)
    asked = " ".join(sorted((*plan, *split)))
    found: list[Prediction] = []
    refused: list[Problem] = []
    for entry in entries:
        one = known.get(entry.name)
        if one is None:
            try:
                one = replace(_predicted(entry, efficiencies, ranks, chip, results, laying), plan=asked)
            except InputProblems as error:
                refused += error.problems
                continue
            known[one.name] = one
            if results is not None and not measured:
                results.mkdir(parents=True, exist_ok=True)
                write_atomically(results / PREDICTIONS_FILE, [asdict(one) for one in known.values()])
        if one.plan == asked:
            found.append(one)
        else:
            message = f"stands there under {one.plan or 'no plan'}"
            refused.append(Problem(field=f"{entry.name}: --plan", message=message, remedy="Name other --results."))
    compared = [_compared(one, results) for one in found]
    if as_json:
        print_json([_flat(one) for one in compared])
    else:
        print("\n".join(_lines(compared)))
    if refused:
        raise InputProblems(refused)  # the others stand
    return 0


def _left_alone(stood: Sequence[str], entries: int, results: Path, calibrated: bool) -> list[str]:
    """Say which predictions of a list stand already, and how they are made anew."""
    names = [*stood[:NAMED], *([f"{len(stood) - NAMED} more"] if len(stood) > NAMED else [])]
    stay = "stays as it is" if len(stood) == 1 else "stay as they are"
    many = f"{len(stood)} of {counted(entries, 'prediction')}"
    said = f"headroom: {many} stood before in {results / PREDICTIONS_FILE} and {stay}: {', '.join(names)}."
    if calibrated:
        said += f" --calibration is {'of the others alone' if len(stood) < entries else 'not used'}."
    return wrapped(f"{said} To predict anew, name other --results, or delete {PREDICTIONS_FILE}.", hanging=2)


def _predicted(
    entry: Entry, efficiencies: Calibrated | None, ranks: int, chip: str, results: Path | None, laying: Laying
) -> Prediction:  # fmt: skip
    with fields_named(lambda name: f"{entry.name}: {name}"):
        if entry.scenario and laying != Laying():
            remedy = "Leave it out, or change the scenario."
            raise InputProblems([Problem(field="--plan", message="is of lists; a scenario has its own", remedy=remedy)])
        if entry.scenario:
            scenario = scenario_from_json(as_asked(entry.scenario, entry.options))
            one = _prediction(entry.name, estimate(scenario, efficiencies), results)
            cluster = scenario.cluster
            return _over_paces(one, cluster, cluster.chips, efficiencies, partial(_seconds, scenario))
    with fields_named(lambda name: f"{entry.name}: {option_of(name)}"):
        if laying.moves:
            laid = estimate_laid_out(_traced(entry, 1, chip), laying, chip, efficiencies)
            return _prediction(entry.name, laid, results)
        traced = _traced(entry, ranks, chip)
        cluster = cluster_for(traced, chip)
        one = _prediction(entry.name, estimate_op_list(traced, cluster, efficiencies), results)
        own = max(traced.world_size, 1)  # of a node's chips
        return _over_paces(one, cluster, own, efficiencies, partial(_list_seconds, traced, cluster))


def _over_paces(
    one: Prediction, cluster: Cluster, ranks: int, calibrated: Calibrated | None,
    step_s: Callable[[Efficiencies], float],
) -> Prediction:  # fmt: skip
    e = efficiencies_for(cluster.chip, calibrated)
    if not e.host_pace_s:
        return one
    shared = shared_host(e, min(ranks, cluster.chips_per_node))
    return replace(
        one,
        host_pace_s=shared.host_pace_s,
        host_backward_pace_s=shared.host_backward_pace_s,
        over_paces_s=over_paces(step_s, e),
    )


def _seconds(scenario: Scenario, e: Efficiencies) -> float:
    return estimate(scenario, e, interval=False, explained=False).step_time_s


def _list_seconds(found: OpList, cluster: Cluster, e: Efficiencies) -> float:
    return estimate_op_list(found, cluster, e, interval=False).step_time_s


def _traced(entry: Entry, ranks: int, chip: str) -> OpList:
    """Trace a model in a process of its own, as it takes torch's devices over for good."""
    with tempfile.TemporaryDirectory() as folder:
        config, ops = Path(folder) / "config.json", Path(folder) / "ops.json"
        config.write_text(json.dumps(entry.config), encoding="utf-8")
        what = [entry.module] if entry.module else ["--hf", str(config)]
        flags = [*what, "--chip", chip, *flags_of(entry.program)]
        flags += ["--world-size", str(ranks)] if ranks > 1 else []
        kernel = entry.options.get("optimizer_kernel")
        flags += ["--optimizer-kernel", str(kernel)] if kernel else []
        done = subprocess.run(trace_command(flags, ops), capture_output=True, text=True, check=False)
        if done.returncode:
            raise failure(done.stderr, done.returncode, config.name)
        return op_list_from_json(read_document(ops))


def _prediction(name: str, one: Estimate, results: Path | None) -> Prediction:
    return Prediction(
        name=name,
        efficiencies=one.efficiencies,
        step_time_s=one.step_time_s,
        interval_s=one.interval_s,
        phases_s=one.phases_s,
        peak_bytes=one.memory.peak_bytes,
        measured_before=results is not None and (results / f"{name}.json").exists(),
    )


def _measured(results: Path | None) -> tuple[list[Entry], list[str]]:
    """Steps that were measured with a scenario, in a folder in which no prediction stands, and files that are none."""
    if results is None or not results.is_dir() or (results / PREDICTIONS_FILE).exists():
        return [], []
    found, unread = list[Entry](), list[str]()
    for path in sorted(results.glob("*.json")):
        try:
            one = read_measurement(path)
        except (InputProblems, ValueError):
            unread.append(path.name)
            continue
        if one.scenario and one.steps_s:
            found.append(Entry(name=path.stem, scenario=one.scenario, options=one.samples.get("options") or {}))
        else:
            unread.append(path.name)
    return found, unread


def _what_lies_there(results: Path, measured: int, unread: Sequence[str], ranks: int) -> list[str]:
    """Say what of a folder is no measured step, and where nothing is, of what the predictions are then."""
    said = list[str]()
    if unread:
        names = [*unread[:NAMED], *([f"{len(unread) - NAMED} more"] if len(unread) > NAMED else [])]
        said.append(f"{counted(len(unread), 'file')} of {results} left out, as no measured step: {', '.join(names)}.")
    if not measured and not (results / PREDICTIONS_FILE).exists():
        why = "holds no measured step" if results.is_dir() else "does not exist yet"
        said.append(f"{results} {why}: what follows is of the reference series for --ranks {ranks}.")
        if below := [one for one in sorted((*results.glob("*/"), *results.glob("*/*/"))) if _measured(one)[0]]:
            said.append(f"Measured steps lie in {', '.join(map(str, below[:NAMED]))}.")
    return [line for one in said for line in wrapped(f"headroom: {one}", hanging=2)] + ([""] if said else [])


def _known(results: Path | None) -> dict[str, Prediction]:
    """Predictions that stand in a folder already."""
    path = results / PREDICTIONS_FILE if results is not None else None
    if path is None or not path.exists():
        return {}
    try:
        found = [
            Prediction(
                **{
                    **one,
                    "interval_s": tuple(one["interval_s"]),
                    "over_paces_s": tuple((float(factor), float(s)) for factor, s in one.get("over_paces_s", ())),
                }
            )
            for one in read_document(path)
        ]
    except (TypeError, KeyError, ValueError):
        remedy = "Name another folder with --results, or move this file away."
        raise InputProblems([Problem(field=str(path), message="holds no predictions", remedy=remedy)]) from None
    return {one.name: one for one in found}


def _compared(prediction: Prediction, results: Path | None) -> Compared:
    path = results / f"{prediction.name}.json" if results is not None else None
    if path is None or not path.exists():
        return Compared(prediction=prediction)
    measured = read_measurement(path)
    factor = pace_factor(measured.samples, prediction.host_pace_s, prediction.host_backward_pace_s)
    return Compared(
        prediction=prediction,
        host_factor=factor if prediction.over_paces_s else None,
        step_time_s=step_time_s(measured.steps_s),
        peak_bytes=fullest_peak_bytes(measured),
        status=measured.status,
    )


def _flat(one: Compared) -> dict[str, Any]:
    measured = {"step_time_s": one.step_time_s, "peak_bytes": one.peak_bytes, "status": one.status}
    errors = {
        "time_error_frac": one.time_error_frac,
        "memory_error_frac": one.memory_error_frac,
        "host_factor": one.host_factor,
        "at_pace_error_frac": one.at_pace_error_frac,
    }
    return {**asdict(one.prediction), "measured": measured if one.status else None, **errors}


def _lines(found: list[Compared]) -> list[str]:
    rows = [
        (
            one.prediction.name,
            seconds(one.prediction.step_time_s),
            seconds(one.step_time_s) if one.step_time_s else one.status,
            _percent(one.time_error_frac),
            f"×{one.host_factor:.2f}" if one.host_factor else "",
            _percent(one.at_pace_error_frac),
            bytes_text(one.prediction.peak_bytes),
            bytes_text(one.peak_bytes) if one.peak_bytes else "",
            _percent(one.memory_error_frac),
        )
        for one in found
    ]
    header = (
        "step", "time", "measured", "time error", "host", "at its pace", "peak", "measured peak", "peak error",
    )  # fmt: skip
    lines = [table(header, rows)]
    if any(one.host_factor for one in found):
        lines += wrapped(
            "host: how many times as long as while it was calibrated the host took for the same work beside the step; "
            "at its pace: the time error of what is predicted at that.",
            hanging=2,
        )
    for name, errors in (
        ("time", [one.time_error_frac for one in found]),
        ("time at the pace of the host beside each step", [one.at_pace_error_frac for one in found]),
        ("memory", [one.memory_error_frac for one in found]),
    ):
        known = sorted(abs(error) for error in errors if error is not None)
        if known:
            half, most = statistics.median(known), known[min(len(known) - 1, int(0.9 * len(known)))]
            lines.append(
                f"{name}: {counted(len(known), 'step')}, median error {half:.1%}, nine of ten within {most:.1%},"
                f" largest {known[-1]:.1%}"
            )
    late = sum(one.prediction.measured_before for one in found)
    if late:
        lines.append(
            f"{counted(late, 'step')} had been measured before {'it was' if late == 1 else 'they were'} predicted"
        )
    return lines


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.1%}"
