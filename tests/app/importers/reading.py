"""What the importers' tests share: files to read, and short ways to read them."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from app.importers import import_file
from app.importers.imported import Imported, ImportRefused, Limits
from estimator.scenario.measurement import Measurement

REFERENCE = Path(__file__).parents[2] / "reference"


def write(folder: Path, content: bytes | str, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(folder: Path, content: bytes | str | dict | list, name: str = "file", **limits: Any) -> Imported:
    if isinstance(content, (dict, list)):
        content = json.dumps(content)
    return import_file(write(folder, content, "upload"), name, Limits(**limits))


def of_steps(line: str, *values: tuple[Any, ...]) -> str:
    """A line for each step, with its number and its values."""
    return "".join(line.format(at, *each) + "\n" for at, each in enumerate(values, 1))


def one(imported: Imported, kind: str = "") -> Measurement:
    (found,) = [m for m in imported.measurements if not kind or m.origin.format == f"text/{kind}"]
    return found


def step_rows(folder: Path, text: str) -> list[dict[str, Any]]:
    """Rows of the table of step times in a text."""
    return list(one(read(folder, text), "step-times").rows)


def refusal(folder: Path, content: bytes | str | dict | list, name: str = "file", **limits: Any) -> ImportRefused:
    with pytest.raises(ImportRefused) as refused:
        read(folder, content, name, **limits)
    error = refused.value
    assert error.message
    assert error.remedy
    assert "Traceback" not in str(error)
    return error


def codes(imported: Imported | Measurement) -> set[str]:
    return {warning.code for warning in imported.warnings}


def figures(*path: str) -> list[dict[str, str]]:
    with REFERENCE.joinpath(*path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def number(text: str, scale: float = 1.0) -> float | None:
    return float(text) * scale if text else None


def gz(content: bytes | str) -> bytes:
    return gzip.compress(content.encode() if isinstance(content, str) else content, mtime=0)
