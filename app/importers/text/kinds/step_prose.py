"""Step prose: what the sentences between a heading and a table of times say of all its rows, where no column does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.importers.text.layout.document import Block, place
from app.importers.text.values.chip_names import gpus_said
from app.importers.text.values.layouts import degrees_said, sharding_said
from app.importers.text.values.models import COURSE, model_of
from app.importers.text.values.precision import precision_said
from app.importers.text.values.units import Unit, unit
from estimator.scenario import catalog
from estimator.scenario.measurement import Warning

_TIMES_IN = re.compile(
    r"\btimes?\s+(?:(?:are|is|were|all|given|reported|shown|measured)\s+)*in\s+"
    r"(ms|msecs?|milliseconds?|s|secs?|seconds?|us|µs|microseconds?)\b",
    re.IGNORECASE,
)
_IS = r"\s*(?:=|:|\bof\b|\bis\b|\bwas\b)?\s*(\d{1,7})\b(?!\s*(?:tokens?|k|m)\b|[.,×x*]\d)"
_BATCH = re.compile(r"(?<![\w-])((?:per[- ]gpu|global|micro)[- ]?)?batch(?:[ _-]?size)?" + _IS, re.IGNORECASE)
_LENGTH = re.compile(
    r"\b(?:(?:context|sequence|seq|ctx)[ _-]?(?:length|len)|context window|seqlen)" + _IS, re.IGNORECASE
)
_BATCHES = {"": "batch", "per": "batch_per_gpu", "glo": "global_batch", "mic": "micro_batch"}
"""By how what stands before the word begins."""
_MODEL = re.compile(
    r"\b([\w./-]{1,60})(?=[ -](?:sized? )?model\b)|\bmodel(?: size)?(?: is| was)?[ :=]{1,3}([\w./-]{1,60})"
    r"|\b(?:train(?:ed|ing)?|benchmark(?:ed|ing)?|ran|running)\s([\w./-]{2,60})",
    re.IGNORECASE,
)
_WORLD = re.compile(r"\bworld size\s?(?:=|:|of)?\s?(\d{1,5})\b", re.IGNORECASE)
_LONGEST = 1000
"""Letters of a line that is looked at."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """What the text before a table names alone: its unit of time, and columns of all its rows with their values."""

    unit: Unit | None = None
    values: dict[str, Any]

    @property
    def precision(self) -> str:
        """The precision; "" where none or several are named."""
        return str(self.values.get("precision", ""))


def said_before(block: Block) -> Said:
    """Read what stands before a table."""
    lines = [line for line in block.around.before if len(line) <= _LONGEST]
    batches = {
        (_BATCHES[(found[1] or "")[:3].lower()], int(found[2])) for line in lines for found in _BATCH.finditer(line)
    }
    lengths = {int(found[1]) for line in lines for found in _LENGTH.finditer(line)}
    gpus = {count for line in lines for count in [*gpus_said(line), *(int(hit[1]) for hit in _WORLD.finditer(line))]}
    values: dict[str, Any] = dict(batches) if len(batches) == 1 else {}
    values |= {name: one.pop() for name, one in (("seq_len", lengths), ("gpus", gpus)) if len(one) == 1}
    values |= {"precision": precision_said(lines), "sharding": sharding_said(lines), **degrees_said(lines)}
    return Said(unit=_unit(lines), values={name: value for name, value in values.items() if value})


def _unit(lines: Sequence[str]) -> Unit | None:
    """The unit of time for bare figures, where one alone is named."""
    names = {_unit_of(found[1].lower()) for line in lines for found in _TIMES_IN.finditer(line)}
    return unit(names.pop()) if len(names) == 1 else None


def _unit_of(word: str) -> str:
    if word[0] in "uµ" or word.startswith("mic"):
        return "us"
    return "ms" if word.startswith("m") else "s"


def fill_in(rows: Sequence[dict[str, Any]], said: Said, where: str, only: Sequence[str] = ()) -> list[Warning]:
    """Give rows what the text before their table names and no column says; return what was given.

    ``only``: which of these.
    """
    stated = {key for row in rows for key in row}
    given = {
        key: value
        for key, value in said.values.items()
        if not stated.intersection(_SAME.get(key, (key,))) and (not only or key in only)
    }
    for row in rows:
        row.update(given)
    if not given or not rows:
        return []
    words = " and ".join(f"{key} {value}" for key, value in given.items())
    message = f"No column says it; the text before the table does, and all rows have it: {words}"
    return [Warning(code="said-in-text", message=message, where=where)]


def model_said(rows: Sequence[dict[str, Any]], block: Block) -> list[Warning]:
    """Give rows, none of which names a model, that of the text before them; say it."""
    name = "" if any("model" in row for row in rows) else model_before(block)
    if not name or not rows:
        return []
    for row in rows:
        row["model"] = name
        row |= {"catalogue_model": key} if (key := model_of(row)) else {}
    message = f"No column says it; the text before the table does, and all rows have it: model {name}"
    return [Warning(code="said-in-text", message=message, where=place(block))]


def model_before(block: Block) -> str:
    """The model that the text before a table names, by the catalogue's name or the course's; "" where none."""
    for line in reversed((*block.around.heading, *block.around.before)):
        for hit in _MODEL.finditer(line[:400]):
            name = str(next(filter(None, hit.groups()))).rstrip(".")
            if model_of({"model": name}) or catalog.known("models", f"{COURSE}{name.lower()}"):
                return name
    return ""


_SAME = {
    **dict.fromkeys(_BATCHES.values(), tuple(_BATCHES.values())),
    "gpus": ("gpus", "world_size", "nodes", "dp", "tp", "pp", "cp"),
    "dp": ("dp", "gpus", "nodes"),
    "sharding": ("sharding", "strategy"),
}
"""Columns beside which the text's own value is not taken: they say the same, or by other numbers."""
