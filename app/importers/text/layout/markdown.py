"""Markdown pipe tables: a header, a rule of dashes, rows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.importers.text.layout.document import Table

_RULE_CELL = re.compile(r"\s*:?-{1,200}:?\s*$")
_MOST_CELLS = 200


def read(lines: Sequence[str], start: int) -> tuple[Table, int] | None:
    """Read the pipe table that begins at ``lines[start]``; return it and the index after it, or None."""
    header = _cells(lines[start])
    if header is None or start + 1 >= len(lines):
        return None
    rule = _cells(lines[start + 1])
    if rule is None or len(rule) != len(header) or not all(_RULE_CELL.match(mark) for mark in rule):
        return None
    rows, numbers = [], []
    index = start + 2
    while index < len(lines) and (cells := _cells(lines[index])) is not None:
        rows.append(tuple(cells[: len(header)]) + ("",) * (len(header) - len(cells)))
        numbers.append(index + 1)
        index += 1
    if not rows:
        return None
    table = Table(form="markdown", columns=header, rows=tuple(rows), line=start + 1, lines=tuple(numbers))
    return without_index(table), index


def without_index(table: Table) -> Table:
    """Drop the unnamed first column of row numbers that pandas prints."""
    if table.columns[0] or not all(row[0].strip().isdigit() for row in table.rows):
        return table
    rows = tuple(row[1:] for row in table.rows)
    return Table(form=table.form, columns=table.columns[1:], rows=rows, line=table.line, lines=table.lines)


def _cells(line: str) -> tuple[str, ...] | None:
    text = line.strip()
    if "|" not in text:
        return None
    cells = re.split(r"(?<!\\)\|", text.removeprefix("|").removesuffix("|"))
    if len(cells) < 2 and not text.startswith("|"):
        return None
    return tuple(cell.strip() for cell in cells[:_MOST_CELLS]) if len(cells) <= _MOST_CELLS else None
