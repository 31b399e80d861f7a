"""Models: the names that people give them in tables, matched with the catalogue by parameter count."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from app.importers.text.values.sizes import NAMES
from estimator.scenario import catalog
from estimator.scenario.parameters import parameters
from estimator.scenario.problems import InputProblems

_ABBREVIATIONS = {"sm": "small", "md": "medium", "med": "medium", "lg": "large"}
_LONGEST_NAME = 80
COURSE = "cs336-"
"""How the catalogue's keys of the course's models begin."""
_COURSE_BATCH = 4
"""Stanford CS336, assignment 2 (systems), section 1.1: all of its benchmarks use batch size 4."""


def common_name(name: str) -> str:
    """Write out the usual abbreviations (sm, md, lg)."""
    return _ABBREVIATIONS.get(name.lower(), name)


_ROUNDED = 0.1
"""By how much a printed count may be off: 350M of gpt2-medium's 355, 7B of 6.7."""


@lru_cache(maxsize=64)
def _by_parameters(seq_len: int) -> dict[int, tuple[str, ...]]:
    found: dict[int, tuple[str, ...]] = {}
    for entry in catalog.entries("models"):
        for count in (
            {parameters(entry.value), parameters(entry.value, seq_len)} if seq_len else {parameters(entry.value)}
        ):
            found[count] = (*found.get(count, ()), entry.key)
    return found


def catalogue_key(count: int, name: str, seq_len: int = 0) -> str:
    """Return the catalogue's model with exactly this many parameters, if there is one; the name settles a tie.

    ``seq_len`` counts where positions are learned.
    """
    keys = _by_parameters(seq_len).get(count, ())
    named = [key for key in keys if name.lower() in key]
    return named[0] if named else (keys[0] if len(keys) == 1 else "")


def model_of(row: Mapping[str, Any]) -> str:
    """Return the key of the catalogue's model that a row is of: by its count of parameters, else by its very name,
    else by part of a name (``xl``) with a count that only one of those so named comes near.

    A name of which the count says that it is another model is none.
    """
    name, count, seq_len = str(row.get("model", "")), row.get("parameters"), row.get("seq_len")
    if not 0 < len(name) <= _LONGEST_NAME:
        return ""
    if count and (exact := catalogue_key(count, name, seq_len if isinstance(seq_len, int) and seq_len > 0 else 0)):
        return exact
    try:
        named = catalog.model(name)
    except InputProblems:
        return _near(count, name) if count else ""
    return named.name if not count or abs(count / parameters(named) - 1) <= _ROUNDED else ""


def model_of_count(count: float, seq_len: object = 0) -> str:
    """Return the key of the one model whose parameters round to a printed count (124.4M); "" where none or several do,
    or where so few digits are printed (1.3B) that a model which the catalogue lacks may have as many.
    """
    length = seq_len if isinstance(seq_len, int) and seq_len > 0 else 0
    whole = int(count)
    zeros = len(str(whole)) - len(str(whole).rstrip("0"))
    if whole != count or whole < 1 or len(str(whole)) - zeros < _DIGITS:
        return ""
    near = {key for real, keys in _by_parameters(length).items() if abs(real - whole) <= 10**zeros / 2 for key in keys}
    return near.pop() if len(near) == 1 else ""


@lru_cache(maxsize=4096)  # a table of runs says the same few models in all of its rows
def _near(count: float, part: str) -> str:
    near = [
        entry.key
        for entry in catalog.entries("models")
        if part.lower() in re.split(r"[-/_]", entry.key) and abs(count / parameters(entry.value) - 1) <= _PRINTED
    ]
    return near[0] if len(near) == 1 else ""


_DIGITS = 4
"""From as many printed digits on a count tells a model without a name: 124.4M, and no 1.3B, which many have."""
_PRINTED = 0.01
"""By how much a count of two or three digits may be off: 128M of 128.6, 2.0B of 1.998."""


def settle_course(rows: Sequence[dict[str, Any]], lines: Sequence[str]) -> bool:
    """Give rows whose bare names, as ``small`` and ``2.7B``, are those of the course its models; whether any was.

    The text says that it is of the course, or the rows' own dimensions are its table of sizes to the digit and nothing
    speaks of GPT-2, whose dimensions those are as well. Counts of parameters and dimensions must not contradict.
    """
    told = any(_OF_COURSE.search(line) for line in lines)
    other = not told and any(_GPT_2.search(line) for line in lines)
    changed = False
    for row in rows:
        key = COURSE + str(row.get("model", "")).lower()[:_LONGEST_NAME]
        if "catalogue_model" in row or other or catalog.known("models", key) is None:
            continue
        model = catalog.model(key)
        said = [(getattr(model, name), row[own]) for name, names in _DIMENSIONS.items() for own in names if own in row]
        as_printed = all(mine == given for mine, given in said)
        whole = as_printed and len(said) == len(_DIMENSIONS)
        if as_printed and (told or whole) and model_of({**row, "model": key}):
            row["catalogue_model"] = key
            changed = True
    return changed


_OF_COURSE = re.compile(r"\bcs\s?-?336\b|^\W{0,8}assignment 2\W{1,4}systems\b", re.IGNORECASE)
_GPT_2 = re.compile(r"\bgpt-?2\b", re.IGNORECASE)
_DIMENSIONS = {field: NAMES[field] for field in ("hidden", "ffn", "layers", "heads")}
"""Fields that tell the course's models, by the columns that state them."""


def assigned_batch(keys: Sequence[str]) -> int | None:
    """Return the batch size of the course's benchmarks where every row is one of its models, else None."""
    return _COURSE_BATCH if keys and all(key.startswith(COURSE) for key in keys) else None
