"""Share lists: ``14.0%  kernel_name`` or ``kernel_name 241 times 43%``, one kernel a line, as a table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.importers.text.layout.document import Table
from app.importers.text.layout.lines import is_rule

_SHARE_FIRST = re.compile(r"\s*(\d{1,3}(?:\.\d{1,6})?)\s?%\s+(\S.{0,2000})$")
_NAME_FIRST = re.compile(r"\s*(\S{1,500})\s+(\d{1,12})\s+(?:times|calls|x)\s+(\d{1,3}(?:\.\d{1,6})?)\s?%\s*$")
_BETWEEN = ("and", "")
COLUMNS = ("kernel", "calls", "time (%)")


def read(lines: Sequence[str], start: int) -> tuple[Table, int] | None:
    """Read the run of such lines that begins at ``lines[start]``, two or more of them; else None."""
    rows, numbers = [], []
    index, end = start, start
    while index < len(lines):
        row = _row(lines[index])
        if row is not None:
            rows.append(row)
            numbers.append(index + 1)
            end = index + 1
        elif lines[index].strip() not in _BETWEEN or not rows or is_rule(lines[index]):
            break
        index += 1
    if len(rows) < 2:
        return None
    return Table(form="shares", columns=COLUMNS, rows=tuple(rows), line=start + 1, lines=tuple(numbers)), end


def _row(line: str) -> tuple[str, str, str] | None:
    if found := _SHARE_FIRST.match(line):
        return found[2].strip(), "", found[1]
    if found := _NAME_FIRST.match(line):
        return found[1], found[2], found[3]
    return None
