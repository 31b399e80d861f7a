"""Scan: cut a text into its blocks, each read by the first table reader that knows its form."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import Any

from app.importers.text.layout import (
    aligned,
    delimited,
    grid,
    key_values,
    latex,
    markdown,
    share_lists,
    statistics_lines,
)
from app.importers.text.layout.document import Block, Document, Fields, Surroundings, Table
from app.importers.text.layout.lines import (
    LONGEST,
    heading,
    is_comment,
    is_fence,
    is_label,
    is_noise,
    is_program,
    is_rule,
)
from app.importers.text.layout.sums import without_sums
from app.importers.text.values.units import unit

READERS: tuple[Callable[[Sequence[str], int], tuple[Any, int] | None], ...] = (
    latex.read,
    markdown.read,
    grid.read,
    statistics_lines.read,
    share_lists.read,
    delimited.read,
    aligned.read,
    key_values.read,
)
_CONTEXT_LINES = 40
_MOST_BLOCKS = 5_000
_HEADER_LINES = 4
"""Of a table: its header, and rules around it."""

_AHEAD_LINES = 1_000


def scan(text: str, most_rows: int = sys.maxsize) -> Document:
    """Find every block of ``text``, with its headings, labels and the lines before and after it.

    A table that has more than ``most_rows`` ends there, and so does what is looked at.
    """
    lines = text.splitlines()
    long_lines = 0
    for i, line in enumerate(lines):
        if len(line) > LONGEST:
            lines[i] = ""
            long_lines += 1
    blocks: list[Block] = []
    path: list[tuple[int, str]] = []
    labels: list[str] = []
    before: list[str] = []
    fenced = program = False
    near: Sequence[str] = () if most_rows < len(lines) else lines
    index = 0
    while index < len(lines) and len(blocks) < _MOST_BLOCKS:
        line = lines[index]
        program = program or (not fenced and is_program(line))
        title = None if fenced else heading(line)
        if title is not None and program and is_comment(line, lines[index + 1] if index + 1 < len(lines) else ""):
            title = None
        if is_fence(line):
            fenced = not fenced
        elif title is not None:
            path = [(level, name) for level, name in path if level < title[0]] + [title]
            labels, before = [], []
        elif line.strip() and not is_rule(line):
            if len(near) < len(lines) and index + most_rows + _HEADER_LINES > len(near):
                near = lines[: index + most_rows + _HEADER_LINES + max(_AHEAD_LINES, most_rows // 8)]
            block, index = _block(near, lines, index)
            if block is not None:
                blocks.append(_placed(block, path, labels, before))
                if isinstance(block, Table) and len(block.rows) > most_rows:
                    break
                before = []
                continue
            before = [*before[-_CONTEXT_LINES:], line.rstrip()]
            if is_label(line) and not is_noise(line):
                labels = [*labels[-_CONTEXT_LINES:], line.strip(" *`")]
        index += 1
    return Document(blocks=_with_after(blocks, lines), lines=tuple(lines), long_lines=long_lines)


def _block(near: Sequence[str], lines: Sequence[str], index: int) -> tuple[Block | None, int]:
    """Read the block that begins at a line; what is no table may go on beyond the lines that are near."""
    for read in READERS:
        found = read(near, index)
        if found is not None and found[1] == len(near) < len(lines) and not isinstance(found[0], Table):
            found = read(lines, index)
        if found is not None:
            return found
    return None, index


def with_units(table: Table) -> Table:
    """The table with what stands under its header, where that is nothing but units: ``time`` over ``(ms)``."""
    first = table.rows[0] if len(table.rows) > 1 else ()
    printed = [cell.strip().strip("*`_ ").strip("()[] ") for cell in first]
    if not any(printed) or not all(not text or text in "-–—" or text in _NO_UNITS or unit(text) for text in printed):
        return table
    columns = tuple(
        f"{name} ({text})" if text and unit(text) else name for name, text in zip(table.columns, printed, strict=True)
    )
    return dataclasses.replace(table, columns=columns, rows=table.rows[1:], lines=table.lines[1:])


_NO_UNITS = ("#", "count", "name", "text", "n/a", "none", "tokens")


def _placed(block: Block, path: list[tuple[int, str]], labels: list[str], before: list[str]) -> Block:
    around = Surroundings(heading=tuple(name for _, name in path), labels=tuple(labels), before=tuple(before))
    if isinstance(block, Table) and block.form != "statistics":
        block = without_sums(with_units(block))
    if isinstance(block, Fields):
        return dataclasses.replace(block, around=around, title=before[-1].strip() if before else "")
    return dataclasses.replace(block, around=around)


def _with_after(blocks: list[Block], lines: Sequence[str]) -> tuple[Block, ...]:
    """Give each block the plain lines that follow it, up to the next heading or block."""
    starts = {block.line - 1 for block in blocks}
    placed = []
    for block in blocks:
        index = block.entries[-1].line if isinstance(block, Fields) else block.lines[-1]
        after: list[str] = []
        while index < len(lines) and len(after) < _CONTEXT_LINES:
            if index in starts or heading(lines[index]):
                break
            if lines[index].strip() and not is_rule(lines[index]):
                after.append(lines[index].strip())
            index += 1
        placed.append(dataclasses.replace(block, around=dataclasses.replace(block.around, after=tuple(after))))
    return tuple(placed)
