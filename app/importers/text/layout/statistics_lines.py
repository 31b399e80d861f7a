"""Statistics lines: ``NAME | 2 proc | 10 MB -> min 1.3 mean 1.4 max 1.5 ms``, one result a line, as a table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.importers.text.layout.document import Table
from app.importers.text.layout.lines import is_noise

_STATISTIC = re.compile(
    r"\b(min|mean|avg|average|max|median|std|p50|p90|p95|p99)\b\s{0,5}[:=]?\s{0,20}"
    r"([-+]?\d{1,20}(?:\.\d{1,20})?(?:e[-+]?\d{1,3})?)",
    re.IGNORECASE,
)
_LAST_UNIT = re.compile(r"\s{0,5}([A-Za-zµμ/]{1,8})\s*$")
_UNIT_IN_LABEL = re.compile(r"\(([A-Za-zµμ/]{1,8})\)\s*$")
_CUTS = re.compile(r"\s*(?:\||->|→|=>|;)\s*")


def read(lines: Sequence[str], start: int) -> tuple[Table, int] | None:
    """Read the run of such lines that begins at ``lines[start]``; tools' notices between them are passed over."""
    first = _line(lines[start])
    if first is None:
        return None
    columns, row = first
    rows, numbers = [row], [start + 1]
    index = start + 1
    while index < len(lines):
        found = _line(lines[index])
        if found is not None and found[0] == columns:
            rows.append(found[1])
            numbers.append(index + 1)
        elif not is_noise(lines[index]):
            break
        index += 1
    table = Table(form="statistics", columns=columns, rows=tuple(rows), line=start + 1, lines=tuple(numbers))
    return table, index


def _line(line: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    found = list(_STATISTIC.finditer(line))
    if len({match[1].lower() for match in found}) < 2:
        return None
    labels = [label for label in _CUTS.split(line[: found[0].start()].strip()) if label]
    if not labels:
        return None
    unit = _LAST_UNIT.fullmatch(line[found[-1].end() :]) or _UNIT_IN_LABEL.search(labels[-1])
    suffix = f" ({unit[1]})" if unit else ""
    columns = tuple(f"label {i + 1}" for i in range(len(labels))) + tuple(m[1].lower() + suffix for m in found)
    return columns, (*labels, *(m[2] for m in found))
