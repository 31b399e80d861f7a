"""Grid tables: cells between bars under rules of dashes and plus signs, or lines of boxes.

As tabulate, prettytable, rich and the clients of databases print them: with rules around the table, between its rows or
under its header alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.importers.text.layout.document import Table
from app.importers.text.layout.lines import is_rule

_BARS = re.compile(r"[│┃║]")
_JOINTS = re.compile(r"[+\u2500-\u257f]")
_MOST_CELLS, _MOST_HEADERS = 200, 3


def read(lines: Sequence[str], start: int) -> tuple[Table, int] | None:
    """Read the table whose header begins at ``lines[start]``; return it and the index after it, or None.

    Lines of a cell that was wrapped are put together: of a header all, of rows that rules part those without a name.
    """
    header = _cells(lines[start])
    index = start + 1
    for _ in range(_MOST_HEADERS - 1):
        more = _cells(lines[index]) if header and index < len(lines) and not _is_joint(lines[index]) else None
        if header is None or more is None or len(more) != len(header):
            break
        header = _together(header, more)
        index += 1
    if header is None or index >= len(lines) or not _is_joint(lines[index]):
        return None
    index += 1
    rows: list[tuple[str, ...]] = []
    numbers: list[int] = []
    parted = False
    while index < len(lines):
        line = lines[index]
        cells = _cells(line)
        if is_rule(line) and _JOINTS.search(line):
            parted = True
        elif cells is None or len(cells) != len(header):
            break
        elif parted or not rows or cells[0]:
            rows.append(cells)
            numbers.append(index + 1)
            parted = False
        else:
            rows[-1] = _together(rows[-1], cells)
        index += 1
    if not rows:
        return None
    return Table(form="grid", columns=header, rows=tuple(rows), line=start + 1, lines=tuple(numbers)), index


def _is_joint(line: str) -> bool:
    """Whether a line is a rule that crosses bars."""
    return is_rule(line) and _JOINTS.search(line) is not None


def _together(above: tuple[str, ...], below: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(" ".join(filter(None, pair)) for pair in zip(above, below, strict=True))


def _cells(line: str) -> tuple[str, ...] | None:
    text = _BARS.sub("|", line.strip())
    if "|" not in text or is_rule(line):
        return None
    cells = text.removeprefix("|").removesuffix("|").split("|")
    return tuple(cell.strip() for cell in cells) if 2 <= len(cells) <= _MOST_CELLS else None
