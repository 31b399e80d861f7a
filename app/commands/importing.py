"""``headroom import``: files into measurements, with warnings; every file that cannot be read is named."""

from __future__ import annotations

import sys
from pathlib import Path

from app.commands.files import print_json
from app.importers.imported import Imported, ImportRefused
from app.importers.sandbox import import_sandboxed
from estimator.scenario.measurement import Measurement, step_time_s
from estimator.scenario.units import bytes_text, counted, seconds


def import_files(paths: list[Path], as_json: bool) -> int:
    """Import each file; those that are refused are named on stderr, and the exit status is then 2."""
    found: list[tuple[Path, Imported]] = []
    status = 0
    for path in paths:
        try:
            found.append((path, _import(path)))
        except ImportRefused as error:
            print(f"headroom: {path}: {error}", file=sys.stderr)
            status = 2
    if as_json and (found or status == 0):
        print_json(
            {
                "measurements": [measurement for _, imported in found for measurement in imported.measurements],
                "warnings": [warning for _, imported in found for warning in imported.warnings],
                "skipped": sum(imported.skipped for _, imported in found),
            }
        )
    elif found and not as_json:
        print("\n\n".join(text(path, imported) for path, imported in found))
    return status


def text(path: Path, imported: Imported) -> str:
    """Write what one file gave for a terminal."""
    lines = [f"{path}: {counted(len(imported.measurements), 'measurement')}, {imported.skipped} pieces left out"]
    lines += [f"  {_line(measurement)}" for measurement in imported.measurements]
    for warning in imported.warnings:
        lines.append(f"  warning: {warning.message}{f' ({warning.where})' if warning.where else ''}")
    return "\n".join(lines)


def _import(path: Path) -> Imported:
    if not path.is_file():
        message = "is a folder" if path.is_dir() else "cannot be read: there is no such file"
        raise ImportRefused("file", "", message, "Give the path of a file that exists.")
    return import_sandboxed(path, path.name)


def _line(measurement: Measurement) -> str:
    parts = [measurement.label or measurement.origin.format, f"[{measurement.origin.format}]"]
    step_s = step_time_s(measurement.steps_s)
    if step_s is not None:
        parts.append(f"step {seconds(step_s)}")
    if measurement.memory.peak_bytes:
        parts.append(f"peak {bytes_text(measurement.memory.peak_bytes)}")
    for count, word in ((len(measurement.rows), "row"), (len(measurement.kernels), "kernel")):
        if count:
            parts.append(counted(count, word))
    if measurement.status != "ok":
        parts.append(measurement.status)
    return "  ".join(parts)
