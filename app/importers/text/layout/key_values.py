"""Key-value lines: ``Overall average time: 0.047 ms``, several to a block, blocks parted by rules and headings."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from app.importers.text.layout.document import Fields, KeyValue
from app.importers.text.layout.lines import heading, is_fence, is_noise, is_rule
from app.importers.text.values.cells import cell

_PAIR = re.compile(r"\s*(?:[-*•]\s+|\d{1,3}\.\s+)?(?P<key>[^\s:|][^:|]{0,80}?)\s*:\s+(?P<value>\S.{0,400})$")
_GROUP = re.compile(r"\s*(?:[-*•]\s+|\d{1,3}\.\s+)?(?P<key>[^\s:|][^:|]{0,200}?)\s*:\s*$")
_SEVERAL = re.compile(r",\s+(?=[A-Za-z_][\w ]{0,40}:\s)")
_FEWEST = 2
_LOOKED_AT = 60


def read(lines: Sequence[str], start: int) -> tuple[Fields, int] | None:
    """Read the run of key-value lines that begins at ``lines[start]``; return it and the index after it, or None."""
    if not _pairs(lines[start]):
        return None
    entries: list[KeyValue] = []
    group = _group_above(lines, start)
    index, end = start, start
    while index < len(lines):
        line = lines[index]
        if is_rule(line) or is_fence(line) or heading(line) or is_noise(line):
            break
        pairs = _pairs(line)
        if pairs:
            entries += [KeyValue(key=key, value=value, line=index + 1, group=group) for key, value in pairs]
            end = index + 1
        elif found := _GROUP.match(line):
            group = found["key"].strip("* ")
        elif line.strip():
            break
        if len(entries) >= _LOOKED_AT and not _has_figures(entries[:_LOOKED_AT]):
            return None
        index += 1
    if not _has_figures(entries):
        return None
    return Fields(title="", entries=tuple(entries), line=start + 1), end


def _group_above(lines: Sequence[str], start: int) -> str:
    index = start - 1
    while index >= 0 and not lines[index].strip():
        index -= 1
    found = _GROUP.match(lines[index]) if index >= 0 else None
    return found["key"].strip("* ") if found else ""


def _pairs(line: str) -> list[tuple[str, str]]:
    if is_noise(line):
        return []
    pairs = []
    for part in _SEVERAL.split(line):
        found = _PAIR.match(part)
        if found is None:
            return []
        pairs.append((found["key"].strip("*` "), found["value"].strip()))
    return pairs


def _has_figures(entries: Sequence[KeyValue]) -> bool:
    figures = (entry for entry in entries if cell(entry.value).value is not None or entry.value[:1].isdigit())
    return sum(1 for _ in itertools.islice(figures, _FEWEST)) == _FEWEST
