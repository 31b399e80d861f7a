"""Aligned tables: columns by white space, as print() and pandas write them, with or without rules of dashes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from app.importers.text.layout.document import Table
from app.importers.text.layout.lines import heading, is_fence, is_noise, is_rule
from app.importers.text.values.cells import cell, is_data

_WIDE = re.compile(r"\s{2,}|\t")
_SPREAD = re.compile(r"\s*(±|\+/-|\+-)\s*")
_UNIT = re.compile(r"\s+(\([^()\s]{1,12}\)|\[[^\[\]\s]{1,12}\])")
_DASHES, _ONLY_DASHES = re.compile(r"-{2,}"), re.compile(r"\s*-{2,}(?:\s{1,4}-{2,})+\s*")
_MOST_CELLS, _LONGEST_NAME = 60, 60


def read(lines: Sequence[str], start: int) -> tuple[Table, int] | None:
    """Read the table whose header is ``lines[start]``; return it and the index after it, or None."""
    if start + 1 >= len(lines) or not _may_be_header(lines[start]):
        return None
    first = start + 1
    ruled = is_rule(lines[first])
    if ruled:
        if (found := _by_rule(lines, start)) is not None:
            return found
        first += 1
    for header in _headers(lines[start]):
        rows, numbers, index = _rows(lines, first, len(header))
        if not rows:
            continue
        if len(rows[0]) == len(header) + 1:  # pandas' to_string: the rows are numbered, the header is not
            rows = [row[1:] for row in rows]
        if ruled or len(rows) > 1 or len(header) > 2:
            table = Table(form="aligned", columns=header, rows=tuple(rows), line=start + 1, lines=tuple(numbers))
            return table, index
    return None


def _by_rule(lines: Sequence[str], start: int) -> tuple[Table, int] | None:
    """The table whose columns a rule of dashes marks, each as wide as its dashes and the last as long as it is.

    None where a line has letters between the columns, or where it is no table.
    """
    spans = [found.span() for found in _DASHES.finditer(lines[start + 1])]
    if not (2 <= len(spans) <= _MOST_CELLS and _ONLY_DASHES.fullmatch(lines[start + 1])):
        return None
    header = _cut(lines[start], spans)
    names = tuple(_UNIT.sub(r"\1", name) for name in header or ())
    if not names or any(len(name) > _LONGEST_NAME or not any(map(str.isalpha, name)) for name in names):
        return None
    rows: list[tuple[str, ...]] = []
    numbers: list[int] = []
    index = start + 2
    while index < len(lines) and lines[index].strip() and not (is_rule(lines[index]) or is_fence(lines[index])):
        row = _cut(lines[index], spans)
        if row is None or not _half_figures(row):
            return None
        rows.append(row)
        numbers.append(index + 1)
        index += 1
    if not rows:
        return None
    return Table(form="aligned", columns=names, rows=tuple(rows), line=start + 1, lines=tuple(numbers)), index


def _cut(line: str, spans: Sequence[tuple[int, int]]) -> tuple[str, ...] | None:
    """The cells of a line, None where letters stand where no column is."""
    gaps = [(0, spans[0][0]), *((end, begin) for (_, end), (begin, _) in pairwise(spans))]
    if "\t" in line or any(line[begin:end].strip() for begin, end in gaps):
        return None
    ends = [*(end for _, end in spans[:-1]), len(line)]
    return tuple(line[begin:end].strip() for (begin, _), end in zip(spans, ends, strict=True))


def _may_be_header(line: str) -> bool:
    text = line.strip()
    return bool(text) and "|" not in text and text[0] not in "-*•>#=`" and not (is_rule(text) or is_noise(text))


def _headers(line: str) -> list[tuple[str, ...]]:
    """List the ways to cut a header: at wide gaps, else at every gap."""
    text = _UNIT.sub(r"\1", line.strip())
    wide = tuple(_WIDE.split(text))
    cut = wide if len(wide) > 1 else tuple(text.split())
    names_only = 2 <= len(cut) <= _MOST_CELLS and all(len(name) <= 40 and not is_data(name) for name in cut)
    return [cut] if names_only and all(any(c.isalpha() for c in name) for name in cut) else []


def _rows(lines: Sequence[str], start: int, width: int) -> tuple[list[tuple[str, ...]], list[int], int]:
    rows: list[tuple[str, ...]] = []
    numbers: list[int] = []
    index = start
    while index < len(lines):
        line = lines[index]
        if not line.strip() or is_rule(line) or is_fence(line) or heading(line):
            break
        row = _row(line, width, len(rows))
        if row is None or (rows and len(row) != len(rows[0])):
            break
        rows.append(row)
        numbers.append(index + 1)
        index += 1
    return rows, numbers, index


def _row(line: str, width: int, position: int) -> tuple[str, ...] | None:
    text = _SPREAD.sub(r"\1", line.strip())
    if "|" in text:
        return None
    for cut in (tuple(_WIDE.split(text)), tuple(text.split())):
        if len(cut) == width and _is_body(cut):
            return cut
        if len(cut) == width + 1 and cut[0] == str(position) and _is_body(cut[1:]):
            return cut
    return None


def _half_figures(cut: tuple[str, ...]) -> bool:
    """At least half of the cells after the first hold figures."""
    return sum(is_data(text) for text in cut[1:]) * 2 >= len(cut) - 1


def _is_body(cut: tuple[str, ...]) -> bool:
    """At least half of the cells after the first hold figures, and no cell is a sentence."""
    return _half_figures(cut) and all(len(text) <= 80 or cell(text).value is not None for text in cut)
