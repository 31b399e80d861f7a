"""Calibrations: those that a data folder keeps, by device and host, each a file that ``--calibration`` takes too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from app.disk import new_id, read_json, time_of_id, write_json
from estimator.cost.calibration import calibration_from_json, own_counts
from estimator.cost.efficiency import Calibrated, Efficiencies
from estimator.scenario.problems import InputProblems, Problem

_ID = re.compile(r"[0-9a-f-]{1,64}")


@dataclass(frozen=True, kw_only=True)
class StoredCalibration:
    """One calibration in a line; ``made_from``: which measurements.

    ``created_s``: when, 0 where its file is not named by that; ``constants``, ``tables``: how many of its own were
    measured, as estimates under it say; ``scaled``: moved along.
    """

    id: str
    name: str
    base: str
    device: str
    host: str
    constants: int
    scaled: int = 0
    tables: int = 0
    created_s: float = 0.0
    made_from: tuple[str, ...] = ()


class CalibrationFolder:
    """``calibrations/DEVICE/HOST/ID.json`` of a data folder; ``usual``: those that a request without one takes."""

    def __init__(self, root: Path, usual: tuple[Efficiencies, ...] = ()) -> None:
        self.root, self.usual = root, usual

    def put(self, document: Mapping[str, Any]) -> StoredCalibration:
        """Keep a calibration under a new id; raises OSError where the disk takes nothing."""
        found = new_id()
        folder = self.root / _word(str(document["device"])) / _word(str(document["host"]))
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_json(folder / f"{found}.json", dict(document))
        return _line(found, document)

    def all(self) -> list[StoredCalibration]:
        """Every calibration that can be read, newest first."""
        found = []
        for path in self.root.glob("*/*/*.json"):
            try:
                found.append(_line(path.stem, read_json(path)))
            except (OSError, msgspec.DecodeError, KeyError, TypeError, AttributeError):
                continue
        return sorted(found, key=lambda one: one.id, reverse=True)

    def document(self, calibration_id: str) -> dict[str, Any] | None:
        """The whole file of one, None where there is none."""
        path = self._path(calibration_id)
        if path is None:
            return None
        found = read_json(path)
        return found if isinstance(found, dict) else None

    def efficiencies(self, calibration_id: str) -> Calibrated | None:
        """The one that a request names, else the usual ones, if any; raises InputProblems where there is no such."""
        if not calibration_id:
            return self.usual or None
        path = self._path(calibration_id)
        if path is None:
            remedy = "Choose one that there is (GET /api/calibrations lists them), or leave it out."
            message = f"there is no calibration {calibration_id!r}"
            raise InputProblems([Problem(field="calibration", message=message, remedy=remedy)])
        return _read(path, path.stat().st_mtime_ns)

    def _path(self, calibration_id: str) -> Path | None:
        if not _ID.fullmatch(calibration_id):
            return None
        return next(self.root.glob(f"*/*/{calibration_id}.json"), None)


@lru_cache(maxsize=32)
def _read(path: Path, changed_ns: int) -> Efficiencies:
    # One object for one file: it is the key of every cache of prices.
    del changed_ns
    return calibration_from_json(read_json(path), path.stem)


def _line(calibration_id: str, document: Mapping[str, Any]) -> StoredCalibration:
    own = own_counts(document["ranges"], len(document.get("tables", {})))
    return StoredCalibration(
        id=calibration_id,
        name=str(document["name"]),
        base=str(document.get("base", "default")),
        device=str(document.get("device", "")),
        host=str(document.get("host", "")),
        constants=own.measured,
        scaled=own.scaled,
        tables=own.tables,
        created_s=time_of_id(calibration_id),
        made_from=tuple(map(str, document.get("made_from", ()))),
    )


def _word(name: str) -> str:
    """A name as a folder's."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80] or "unknown"
