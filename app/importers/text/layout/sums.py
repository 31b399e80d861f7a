"""Sums: last rows of a table that are only the mean or the sum of the others."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from app.importers.text.layout.document import Table

_SUM = re.compile(
    r"(arithmetic )?(mean|avg\.?|average|median|totals?|sum|std\.?( ?dev\.?)?|min|max|mittelwert|durchschnitt|summe"
    r"|gesamt|moyenne|somme|media|promedio|suma)"
    r"( \(.*\))?:?",
    re.IGNORECASE,
)
"""What such a row begins with."""
_NOTHING = ("", "-", "–", "—")


def without_sums(table: Table) -> Table:
    """The table without the rows at its end that sum up the others, whose lines it keeps as ``sums``."""
    end = len(table.rows)
    while end > 1 and _sums_up(table.rows[end - 1], table.rows[0]):
        end -= 1
    if end == len(table.rows):
        return table
    return dataclasses.replace(
        table, rows=table.rows[:end], lines=table.lines[:end], sums=(*table.lines[end:], *table.sums)
    )


def _sums_up(row: Sequence[str], first: Sequence[str]) -> bool:
    """Whether a row says that it is the mean or the sum of others, and leaves empty what tells each of them apart."""
    said, told = _filled(row), _filled(first)
    return bool(said) and _SUM.fullmatch(said[0]) is not None and len(said) < len(told)


def _filled(row: Sequence[str]) -> list[str]:
    cells = [cell.strip("*_`~ ") for cell in row]
    return [cell for cell in cells if cell not in _NOTHING]
