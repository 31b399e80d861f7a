"""Step prose: what the sentences between a heading and a table of times say of all its rows, where no column does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from app.importers.text.layout.document import Table, place
from app.importers.text.values.chip_names import spoken
from app.importers.text.values.precision import from_text
from app.importers.text.values.units import Unit, unit
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
SAID = "said-in-text"
"""Code of the warning that names what the text before a table says of its rows."""
_FORMAT = r"(bf16|bfloat16|fp16|float16|fp32|float32|tf32|fp8|fp4)"
_MIXED = r"(?:autocast|amp|mixed)"
_PRECISION = re.compile(
    rf"\b{_FORMAT}\b(?!\s*(?:is|was)?\s*(?:off|disabled|not))(?:[\s-]?({_MIXED})\b)?"
    rf"|\b({_MIXED})(?:[\s-]precision)?\W{{0,3}}(?:(?:with|in|to|of)\W{{1,2}})?{_FORMAT}\b",
    re.IGNORECASE,
)
_GPUS = re.compile(
    r"(?<![\w.-])(\d{1,5}) (?:gpus|ranks|devices)\b|\bworld size\s?(?:=|:|of)?\s?(\d{1,5})\b", re.IGNORECASE
)
_COUNTED = ("gpus", "nodes", "dp", "tp", "pp", "cp")
_LONGEST = 1000
"""Letters of a line that is looked at."""


def said_unit(table: Table) -> Unit | None:
    """The unit of time that the text before a table gives for its bare figures, where it names one alone."""
    words = {found[1].lower() for line in _sentences(table) for found in _TIMES_IN.finditer(line)}
    names = {_unit_of(word) for word in words}
    return unit(names.pop()) if len(names) == 1 else None


def said_precision(table: Table) -> str:
    """The precision that the text before a table gives, where it names one alone; "" where none or several."""
    found = set()
    for line in _sentences(table):
        for hit in _PRECISION.finditer(line):
            name = from_text(hit[1] or hit[4])
            found.add(f"{name}-amp" if (hit[2] or hit[3]) and name in ("bf16", "fp16") else name)
    return found.pop() if len(found) == 1 else ""


def _unit_of(word: str) -> str:
    if word[0] in "uµ" or word.startswith("mic"):
        return "us"
    return "ms" if word.startswith("m") else "s"


def fill_in(rows: Sequence[dict[str, Any]], table: Table, only: Sequence[str] = ()) -> list[Warning]:
    """Give rows that have none the batch, length, precision and GPUs that the text before their table names alone.

    ``only``: which of these.
    """
    batches = {
        (_BATCHES[(found[1] or "")[:3].lower()], int(found[2]))
        for line in _sentences(table)
        for found in _BATCH.finditer(line)
    }
    lengths = {int(found[1]) for line in _sentences(table) for found in _LENGTH.finditer(line)}
    said: list[tuple[str, Any]] = []
    if len(batches) == 1 and not any(key in row for row in rows for key in _BATCHES.values()):
        said += batches
    if len(lengths) == 1 and not any("seq_len" in row for row in rows):
        said.append(("seq_len", lengths.pop()))
    gpus = {count for line in _sentences(table) for count in _gpus(line)}
    if len(gpus) == 1 and not any(key in row for row in rows for key in _COUNTED):
        said.append(("gpus", gpus.pop()))
    if (precision := said_precision(table)) and not any("precision" in row for row in rows):
        said.append(("precision", precision))
    said = [(key, value) for key, value in said if value and (not only or key in only)]
    for row in rows:
        row.update(said)
    if not said or not rows:
        return []
    words = " and ".join(f"{key} {value}" for key, value in said)
    message = f"No column says it; the text before the table does, and all rows have it: {words}"
    return [Warning(code=SAID, message=message, where=place(table))]


def _gpus(line: str) -> list[int]:
    """How many GPUs a line says there were: "on 8 GPUs", "8x H100"."""
    counted = [int(hit[1] or hit[2]) for hit in _GPUS.finditer(line)]
    return [*counted, *(one.count for one in spoken(line) if one.count)]


def _sentences(table: Table) -> list[str]:
    return [line for line in table.around.before if len(line) <= _LONGEST]
