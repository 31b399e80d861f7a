"""Calibrations in files: what ``--calibration FILE`` names."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from app.commands.files import read_document, read_text
from estimator.cost.calibration import calibration_from_json
from estimator.cost.efficiency import Efficiencies
from estimator.scenario.problems import InputProblems, Problem, fields_named, refusal


def read_calibrations(paths: Sequence[Path] | None) -> tuple[Efficiencies, ...] | None:
    """Read all of them, each for its device; None for none. Raises InputProblems where two are of one device."""
    if not paths:
        return None
    found = tuple(map(read_calibration, paths))
    of_device: dict[str, Path] = {}
    for path, one in zip(paths, found, strict=True):
        if one.device in of_device:
            message = f"{of_device[one.device]} and {path} are both of {one.device or 'any device'}"
            raise refusal("--calibration", message, "Give one for each device.")
        of_device[one.device] = path
    return found


def read_calibration(path: Path) -> Efficiencies:
    """Read a calibration, TOML or JSON by its suffix; raise InputProblems that name what is wrong."""
    document = _document(path)
    # a file that is no calibration is named as it was given, beside the option that it was given to
    with fields_named(lambda field: f"--calibration {path}" if field == path.stem else field):
        return calibration_from_json(document, path.stem)


def _document(path: Path) -> object:
    if path.suffix != ".toml":
        return read_document(path)
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        remedy = "Correct it, or give a JSON file."
        raise InputProblems([Problem(field=str(path), message=f"is not TOML: {error}", remedy=remedy)]) from None
