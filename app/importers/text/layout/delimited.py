"""Delimited tables: runs of CSV or TSV lines, read by the csv module so that quoted commas stay inside."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from app.importers.text.layout.document import Table
from app.importers.text.values.cells import is_data
from estimator.validation.spellings import is_out_of_memory

_DELIMITERS = (",", "\t", ";")
_MOST_CELLS = 500
_LOOKED_AT = 60
_MOST_WORDS, _LONGEST_NAME = 5, 200
"""Of a column's name: prose has more words, while a name made of a run's settings is long."""


def read(lines: Sequence[str], start: int) -> tuple[Table, int] | None:
    """Read the run of delimited lines that begins at ``lines[start]``; return it and the index after it, or None."""
    for delimiter in _DELIMITERS:
        header = _cells(lines[start], delimiter)
        if header is None or not _is_header(header):
            continue
        rows: list[tuple[str, ...]] = []
        numbers: list[int] = []
        index = start + 1
        while index < len(lines) and lines[index].strip():
            cells = _cells(lines[index], delimiter)
            if cells is None or len(cells) != len(header) or (len(rows) == _LOOKED_AT and not _is_body(rows)):
                break
            if any(cells):  # a spreadsheet writes an empty row as delimiters alone
                rows.append(cells)
                numbers.append(index + 1)
            index += 1
        if rows and _is_body(rows[:_LOOKED_AT]):
            table = Table(
                form="delimited",
                columns=header,
                rows=tuple(rows),
                line=start + 1,
                lines=tuple(numbers),
                separator=delimiter,
            )
            return table, index
    return None


def _cells(line: str, delimiter: str) -> tuple[str, ...] | None:
    if delimiter not in line:
        return None
    try:
        cells = next(csv.reader([line], delimiter=delimiter, strict=True))
    except (csv.Error, StopIteration):
        return None
    return tuple(cell.strip() for cell in cells) if 2 <= len(cells) <= _MOST_CELLS else None


def _is_header(cells: tuple[str, ...]) -> bool:
    named = [cell for cell in cells if cell and not is_out_of_memory(cell)]  # which may head a column as well
    return len(named) >= 2 and all(
        len(cell.split()) <= _MOST_WORDS and len(cell) <= _LONGEST_NAME and not is_data(cell) for cell in named
    )


def _is_body(rows: Sequence[tuple[str, ...]]) -> bool:
    """A third of the rows hold a figure: prose with commas does not."""
    with_figures = sum(any(is_data(cell) for cell in row) for row in rows)
    return with_figures * 3 >= len(rows)
