"""``headroom calibrate``: measurements of one device and host to its calibration, for people or as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from app.commands.estimate import write_text
from app.commands.files import print_json, table, wrapped
from app.commands.importing import measurements_of
from app.encoding import encode_json
from app.importers.imported import ImportRefused
from app.importers.kineto.notices import NO_DEVICE_EVENTS
from estimator.calibration.calibrate import (
    CONSTANTS,
    Calibration,
    Source,
    Undetermined,
    counted_by_points,
    to_document,
)
from estimator.calibration.calibrate import calibrate as fitted
from estimator.cost.efficiency import efficiencies
from estimator.scenario import catalog
from estimator.scenario.measurement import Measurement
from estimator.scenario.op_list import OpList
from estimator.scenario.problems import InputProblems, Problem, refusal
from estimator.scenario.units import counted, engineering, seconds

SCALED = "scaled"
"""What stands in place of the number of points where a constant was not measured, but moved along with what was."""


def calibrate(paths: list[Path], out: Path | None, name: str, as_json: bool) -> int:
    """Calibrate from files and write or print the result; raise InputProblems where they determine nothing."""
    if out is not None and out.suffix.lower() == ".toml":
        problem = Problem(
            field="--out", message=f"{out.name} would be TOML, a calibration is JSON", remedy="End it with .json."
        )
        raise InputProblems([problem])
    names = Counter(path.name for path in paths)
    sources: list[Source] = []
    for path in paths:
        try:
            found = measurements_of(path)
        except ImportRefused as error:
            problem = Problem(field=str(path), message=f"{error.format}: {error.message}", remedy=error.remedy)
            raise InputProblems([problem]) from None
        for measurement, ops in found:
            if ops is not None:
                _check_chip(path, measurement, ops)
            called = path.name if names[path.name] == 1 else str(path)
            sources.append(Source(name=called, measurement=measurement, ops=ops))
    made = fitted(sources, name)
    document = to_document(made)
    if out is not None:
        write_text(out, encode_json(document).decode())
    if as_json:
        print_json(document)
    else:
        print(text(made, out))
    return 0


def _check_chip(path: Path, measurement: Measurement, ops: OpList) -> None:
    """Raise InputProblems that name the file of a profile whose device is none of the catalogue."""
    without_kernels = any(one.code == NO_DEVICE_EVENTS for one in measurement.warnings)
    if catalog.known("chips", ops.chip) is not None or (ops.chip == catalog.THIS_CPU and not without_kernels):
        return  # that a CPU takes none is said by calibrating
    device = str(measurement.device.get("name") or "a device without a name")[:80]
    message = f"is a profile of {device}, which is no chip of the catalogue"
    remedy = "Name profiles of a GPU that it has, or add the chip (docs/adding_a_gpu.md)."
    if without_kernels:
        message = "is a profile without kernels, which says nothing of a device"
        remedy = "Record it with ProfilerActivity.CUDA."
    raise refusal(str(path), message, remedy)


def text(made: Calibration, out: Path | None = None) -> str:
    """Write a calibration for a terminal: constants, what was gained on points held back, and what stays inherited."""
    lines = wrapped(f"{made.name}, from {', '.join(dict.fromkeys(made.made_from))}", hanging=2)
    for left, why in made.left_out.items():
        lines += wrapped(f"nothing taken from {left}: {why}", hanging=2)
    lines += ["", _constants(made), *(f"{name}: rates fitted to products" for name in made.tables), ""]
    lines += [_counts(made), "", "what the constants are:", *_meanings(made), ""]
    lines += wrapped(
        f"inherited: the number of {made.base} in whose place the value stands, and how many times that it is; range: "
        "about 80 % of cases; residual: by how much its points are missed, the median.",
        hanging=2,
    )
    if any(not points for points in made.points.values()):
        lines += wrapped(
            f"{SCALED}: not measured, but moved along with what was: the number of {made.base}, as many times as long "
            "as what it follows on the host (its bare launch, or an op) was measured to be.",
            hanging=2,
        )
    if made.errors:
        lines += ["", "median error of points held back, before and after:"]
        errors = [
            [one.group, str(one.held_back), f"{one.before_frac:.1%}", f"{one.after_frac:.1%}"] for one in made.errors
        ]
        lines.append(table(["", "points", "before", "after"], errors, indent="  "))
    if made.undetermined:
        lines += ["", f"{counted(len(made.undetermined), 'constant')} stay as those of {made.base}:"]
        lines += _inherited(made.undetermined)
    if out is not None:
        lines += ["", f"written to {out}; to predict under it:"]
        lines.append(f"  headroom estimate SCENARIO.json --calibration {out}")
    return "\n".join(lines)


def _counts(made: Calibration) -> str:
    """How many of each there are, as an estimate under the calibration counts them."""
    own = counted_by_points(made.points, len(made.tables))
    tables = f" and {counted(own.tables, 'table')} of tiles" if own.tables else ""
    return f"{counted(own.measured, 'constant')}{tables} measured{f', {own.scaled} scaled' if own.scaled else ''}"


def _meanings(made: Calibration) -> list[str]:
    """Each constant in words: of which kernels, as the errors below name them, and what its value is of or per."""
    groups = {constant: group for group, constants in CONSTANTS.items() for constant in constants}
    width = max(map(len, made.ranges))
    lines = []
    for constant, one in made.ranges.items():
        words = one.unit.removeprefix("s ")  # the value above has it
        group = groups.get(constant, "")
        lines += wrapped(f"{constant:<{width}}  {f'{group}: ' if group else ''}{words}", "  ", hanging=width + 2)
    return lines


def _constants(made: Calibration) -> str:
    base = efficiencies(made.base).ranges
    rows = []
    for constant, one in made.ranges.items():
        own, points = base[constant].value, made.points[constant]
        rows.append(
            [
                constant,
                _quantity(constant, one.value),
                f"{_quantity(constant, one.low)} to {_quantity(constant, one.high)}",
                _quantity(constant, own) if own else "none",
                f"×{one.value / own:.2f}" if own else "",
                str(points) if points else SCALED,
                # a single point is met by what is taken from it
                f"{made.residuals_frac[constant]:.1%}" if points > 1 else "",
            ]
        )
    return table(["constant", "value", "range", "inherited", "", "points", "residual"], rows)


def _quantity(constant: str, value: float) -> str:
    """Write a number in the unit that its constant's name ends in."""
    if constant.endswith("bytes_per_s"):
        return engineering(value, "B/s")
    return seconds(value) if constant.endswith("_s") else f"{value:.3g}"


def _inherited(undetermined: Sequence[Undetermined]) -> list[str]:
    """Each reason once, with the constants that it holds for, and behind those of one note the note."""
    by_reason: dict[str, dict[str, list[str]]] = {}
    for one in undetermined:
        by_reason.setdefault(one.reason, {}).setdefault(one.note, []).append(one.constant)
    lines = []
    for reason, by_note in by_reason.items():
        names = [", ".join(names) + (f" ({note})" if note else "") for note, names in by_note.items()]
        lines += wrapped(f"{reason}: {'; '.join(names)}", "  ", hanging=2)
    return lines
