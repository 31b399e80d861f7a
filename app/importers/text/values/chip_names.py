"""Chip names: which chips a line of prose, a heading or a log's first lines say that something ran on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from estimator.scenario import catalog

_FORM = r"sxm\d?|pcie|nvl|oam|hbm\d?e?|\d{2,3}\s?gi?b?"
_PART = re.compile(rf"(?:{_FORM})", re.IGNORECASE)
_SHORT = 3
"""Letters of a family's name that is no other word only in capitals, as T4."""
_ON = re.compile(r"\b(?:on|using|with|single|one)\s(?:\w{1,10}\s){0,2}$|\bgpus?\s?[:=(]?\s?$", re.IGNORECASE)
"""Before a name, where something ran on it."""
_OTHER = re.compile(
    r"\b(?:than|vs|versus|compared?|unlike|instead|whereas|would|not|theoretical|peak(?! memory)|faster|slower"
    r"|expect\w*|worth|equivalent|how many|number of)\b|[?≈]|=\s?[\d.,]",
    re.IGNORECASE,
)
"""On a line that holds a chip beside others, asks or reckons with it, or speaks of what it could do."""
_LONGEST_LINE, _MOST_LINES = 240, 2000
_OF_MANY = re.compile(r"(?<![\w.-])(\d{1,6})\s(?:gpus|ranks|devices)\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """A chip as a line names it, how many of them (0 where it does not say), and where the name begins."""

    name: str
    count: int
    start: int
    vendor: bool


def spoken(line: str) -> Iterator[Spoken]:
    """Find the chips that a line names: ``4x H100 80GB``, ``NVIDIA A100-SXM4-40GB``, ``RTX 4090 x2``."""
    for hit in _names(catalog.revision()).finditer(line[:_LONGEST_LINE]):
        family = hit["family"]
        if len(family) > _SHORT or family.isupper():
            yield Spoken(
                name=line[hit.start("family") : hit.end("name")].strip(),
                count=int(hit["before"] or hit["behind"] or 0),
                start=hit.start(),
                vendor=bool(hit["vendor"]),
            )


def gpus_said(line: str) -> list[int]:
    """How many GPUs a line says there were, as often as it does: ``on 8 GPUs``, ``8x H100``."""
    return [*(int(hit[1]) for hit in _OF_MANY.finditer(line)), *(one.count for one in spoken(line) if one.count)]


def said_to_run_on(lines: Sequence[str], headings: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Names of chips that ``headings``, else lines of prose, say that something ran on, each with its line.

    A heading says so by naming one; a line by its words before the name, by how many, or by the maker's name.
    """
    found: dict[str, str] = {}
    for line in headings:
        for one in spoken(line) if not _OTHER.search(line) else ():
            found.setdefault(one.name, line.strip())
    if found:
        return list(found.items())
    for line in lines[:_MOST_LINES]:
        plain = line.strip()
        if not 0 < len(plain) <= _LONGEST_LINE or plain.startswith("|") or _OTHER.search(plain):
            continue
        is_heading = plain.startswith("#")
        for one in spoken(plain):
            if is_heading or one.vendor or one.count or _ON.search(plain[: one.start]):
                found.setdefault(one.name, plain)
    return list(found.items())


@lru_cache(maxsize=2)
def _names(revision: int) -> re.Pattern[str]:
    """Every family of the catalogue, of this ``revision``, with what may stand around it."""
    families = set()
    for entry in catalog.entries("chips"):
        if entry.value.kind != "cpu":
            parts = [part for part in re.split(r"[-\s]", entry.key) if not _PART.fullmatch(part)]
            name = "-".join(parts)
            if re.search(r"[a-z]", name) and re.search(r"\d", name):
                families.add(r"[\s-]?".join(map(re.escape, parts)))
    any_family = "|".join(sorted(families, key=lambda one: (-len(one), one)))
    return re.compile(
        r"(?<![\w.-])(?:(?P<before>\d{1,5})\s?[x×*]?\s?)?(?P<vendor>(?:NVIDIA|AMD|Tesla|GeForce|Instinct|Google)\s)?"
        r"(?:(?:Tesla|GeForce|Instinct|Cloud)\s)?"
        rf"(?P<name>(?P<family>{any_family})(?:[\s-]\(?(?:{_FORM})\)?(?![\w]))*)s?(?:\s?[x×]\s?(?P<behind>\d{{1,5}}))?"
        r"(?![\w'’])",
        re.IGNORECASE,
    )
