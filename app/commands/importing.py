"""``headroom import``: files into measurements, with warnings; every file that cannot be read is named."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from app.commands.cpu import with_kept_cpu
from app.commands.estimate import write_text
from app.commands.files import print_json, table
from app.encoding import encode_json
from app.importers.imported import Imported, ImportRefused
from app.importers.kineto.notices import NO_DEVICE_EVENTS
from app.importers.sandbox import import_sandboxed
from app.importers.together import files_in, is_trace, pack
from estimator.estimate.expected import Expected, Pair, own_prediction
from estimator.scenario import catalog
from estimator.scenario.breakdown import SHOWN_CATEGORIES
from estimator.scenario.codec import encode
from estimator.scenario.measurement import Measurement, disturbance, fullest_peak_bytes, step_time_s
from estimator.scenario.op_list import OpList, from_json
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.proposal.proposal import Proposal, proposal
from estimator.scenario.units import bytes_text, counted, seconds
from estimator.validation.predicted_rows.said_scenario import said_scenario


def import_files(paths: list[Path], as_json: bool, ops_to: Path | None = None) -> int:
    """Import each file; those that are refused are named on stderr, and the exit status is then 2.

    A folder, and several traces, are imported together: ranks of one job become one measurement.

    ``ops_to``: a file that the op list of the one profile among them is written to.
    """
    doubt = with_kept_cpu()
    found: list[tuple[Path, Imported]] = []
    status = 0
    traces = [path for path in paths if len(paths) > 1 and path.is_file() and is_trace(path)]
    for path in paths:
        try:
            if path not in traces or len(traces) == 1:
                found.append((path, _import(path)))
            elif path == traces[0]:
                found.append((Path(f"{len(traces)} traces"), _together(traces, path.parent.name or path.name)))
        except ImportRefused as error:
            print(f"headroom: {path}: {error}", file=sys.stderr)
            status = 2
    if ops_to and found:
        _write_ops(ops_to, [ops for _, imported in found for ops in imported.op_lists if ops is not None])
    if as_json and (found or status == 0):
        print_json(
            {
                "measurements": [
                    encode(measurement) | _own(measurement, ops, doubt)
                    for _, imported in found
                    for measurement, ops in _each(imported)
                ],
                "warnings": [warning for _, imported in found for warning in imported.warnings],
                "skipped": sum(imported.skipped for _, imported in found),
            }
        )
    elif found and not as_json:
        print("\n\n".join(text(path, imported, doubt) for path, imported in found))
    return status


def text(path: Path, imported: Imported, doubt: str = "") -> str:
    """Write what one file gave for a terminal; ``doubt``: why a prediction for this CPU says nothing."""
    lines = [f"{path}: {counted(len(imported.measurements), 'measurement')}, {imported.skipped} pieces left out"]
    for measurement, ops in _each(imported):
        lines.append(f"  {_line(measurement)}")
        if ops is None and (said := said_scenario(measurement)):
            lines += [f"  {line}" for line in proposed_lines(said)]
        if ops is not None:
            lines += [f"  {line}" for line in (*_expected(measurement, ops, doubt), *proposed_lines(proposal(ops)))]
    for warning in imported.warnings:
        lines.append(f"  warning: {warning.message}{f' ({warning.where})' if warning.where else ''}")
    return "\n".join(lines)


def _predicted(ops: OpList, doubt: str) -> Expected | None:
    """A profile's own prediction, with the doubt of this CPU first among its notes where it is for that."""
    found = own_prediction(ops)
    if found is None or not doubt or found.chip != catalog.THIS_CPU:
        return found
    return replace(found, notes=(doubt, *found.notes))


def _expected(measurement: Measurement, ops: OpList, doubt: str) -> list[str]:
    """Write a profile's own prediction, or why there is none."""
    if found := _predicted(ops, doubt):
        return expected_lines(found)
    if any(one.code == NO_DEVICE_EVENTS for one in measurement.warnings):
        return ["own prediction: none, as no kernels of its device were recorded"]
    if ops.chip == catalog.THIS_CPU:
        said = "own prediction: none yet, as it ran on a CPU, which an import does not measure."
        return [f"{said} headroom estimate OPS.json does, with what --ops OPS.json writes"]
    name = str(measurement.device.get("name") or "")
    if not name:
        said = "own prediction: none, as it does not say its GPU."
        return [f"{said} headroom estimate OPS.json --chip KEY does, with what --ops OPS.json writes"]
    return [f"own prediction: none, as the catalogue has no chip called {name[:80]}"]


def expected_lines(found: Expected) -> list[str]:
    """Write a profile's own prediction beside what was measured."""
    low_s, high_s = found.estimate.interval_s
    said = f"own prediction on {found.chip}: step {seconds(found.estimate.step_time_s)}"
    lines = [f"{said} ({seconds(low_s)} to {seconds(high_s)})"]
    rows = [
        [SHOWN_CATEGORIES[name].label, seconds(pair.measured_s), seconds(pair.predicted_s), _ratio(pair)]
        for name, pair in found.categories.items()
    ]
    lines += table(["ops, with all that they run", "measured", "predicted", ""], rows, indent="  ").splitlines()
    return [*lines, *(f"  {note}" for note in found.notes)]


def proposed_lines(found: Proposal) -> list[str]:
    """Write the scenario that a profile is most likely of, what is guessed marked."""
    if not found.fields:
        return [f"scenario: none proposed. {found.reason}"]
    lines = ["proposed scenario:" if found.scenario else f"no scenario proposed. {found.reason}"]
    for path, one in found.fields.items():
        lines.append(f"  {path:24} {one.value!s:12} {'' if one.sure else 'guessed: '}{one.evidence}")
    return [*lines, *(f"  {note}" for note in found.notes)]


def _ratio(pair: Pair) -> str:
    return f"{pair.predicted_s / pair.measured_s - 1:+.0%}" if pair.measured_s else ""


def measurements_of(path: Path) -> list[tuple[Measurement, OpList | None]]:
    """Read one file into measurements, each with its op list where it has one; raise ImportRefused."""
    return _each(_import(path))


def _each(imported: Imported) -> list[tuple[Measurement, OpList | None]]:
    lists = [None if ops is None else from_json(ops) for ops in imported.op_lists]
    return list(zip_longest(imported.measurements, lists[: len(imported.measurements)]))


def _own(measurement: Measurement, ops: OpList | None, doubt: str) -> dict[str, Any]:
    if ops is None:
        said = said_scenario(measurement)
        return {"proposed": encode(said)} if said else {}
    return {"expected": encode(_predicted(ops, doubt)), "proposed": encode(proposal(ops))}


def _write_ops(path: Path, found: list[dict[str, Any]]) -> None:
    if len(found) != 1:
        message = f"is for one op list, and the files give {len(found)}"
        remedy = "Name one profile that was recorded with record_shapes=True."
        raise InputProblems([Problem(field="--ops", message=message, remedy=remedy)])
    write_text(path, encode_json(found[0]).decode())


def _import(path: Path) -> Imported:
    if path.is_dir():
        inside = files_in(path)
        if not inside:
            raise ImportRefused("folder", "", "there is no file in it", "Give the folder that holds the results.")
        return _together(inside, path.resolve().name)
    if not path.is_file():
        message, remedy = "cannot be read: there is no such file", "Give the path of a file that exists."
        raise ImportRefused("file", "", message, remedy)
    return import_sandboxed(path, path.name)


def _together(paths: list[Path], name: str) -> Imported:
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "together.tar"
        pack(paths, archive)
        return import_sandboxed(archive, name)


def _line(measurement: Measurement) -> str:
    parts = [measurement.label or measurement.origin.format, f"[{measurement.origin.format}]"]
    step_s = step_time_s(measurement.steps_s)
    if step_s is not None:
        parts.append(f"step {seconds(step_s)}")
    if ratio := disturbance(measurement.steps_s):
        parts.append(f"disturbed: steps differ by {ratio:.1f}×; the fastest is shown")
    if peak_bytes := fullest_peak_bytes(measurement):
        parts.append(f"peak {bytes_text(peak_bytes)}")
    for count, word in ((len(measurement.rows), "row"), (len(measurement.kernels), "kernel")):
        if count:
            parts.append(counted(count, word))
    if measurement.status != "ok":
        parts.append(measurement.status)
    return "  ".join(parts)
