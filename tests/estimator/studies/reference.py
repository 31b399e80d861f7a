"""The printed figures of the reference studies, as transcribed into tests/reference/studies."""

from __future__ import annotations

import csv
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "reference" / "studies"


def rows(name: str) -> list[dict[str, str]]:
    """All rows of one file."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rounded(value: float | int | str, text: str) -> str:
    """Write ``value`` with as many digits after the point as ``text`` has."""
    if isinstance(value, str):
        return value
    return f"{value:.{len(text.partition('.')[2])}f}"
