"""Cells: what people write in a table's cell: a number with its spread and unit, or nothing, with a reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from estimator.validation.spellings import is_out_of_memory

MICRO = {"µ": "u", "μ": "u"}
"""Both the micro sign and the Greek letter, by the plain letter."""

_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,30}(?:[.,]\d{1,30})?|\.\d{1,30})(?:[eE][-+]?\d{1,3})?"
_UNIT = r"[A-Za-zµμ%][A-Za-zµμ/0-9^%]{0,15}"
_CELL = re.compile(
    rf"(?P<value>{_NUMBER})\s*(?P<unit>{_UNIT})?\s*"
    rf"(?:(?:±|\+/-|\+-)\s*(?P<spread>{_NUMBER})\s*(?P<unit2>{_UNIT})?"
    rf"|\(\s*(?:±|std:?|σ:?)?\s*(?P<spread2>{_NUMBER})\s*(?P<unit3>{_UNIT})?\s*\))?"
    rf"\s*(?P<note>\([^()]{{1,60}}\))?"
)
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:[ \u00a0\u2009\u202f'’_]\d{3}){1,9}(?!\d)")
"""Thousands parted by a space, an apostrophe or an underscore."""
_HOURS = re.compile(
    r"(?:(?P<h>\d{1,5})\s?(?:h|hrs?|hours?))?\s?(?:(?P<m>\d{1,5})\s?(?:m|mins?|minutes?))?"
    r"\s?(?:(?P<s>\d{1,5}(?:\.\d{1,9})?)\s?(?:s|secs?|seconds?))?",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"(?P<h>\d{1,4}):(?P<m>[0-5]\d):(?P<s>[0-5]\d(?:\.\d{1,9})?)")
_LONG = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s?(mins?|minutes?|h|hrs?|hours?)", re.IGNORECASE)
_EMPHASIS = re.compile(r"\*\*|__|`")
_ABOUT = re.compile(r"[~≈]")
_MISSING = {"", "-", "--", "—", "–", "n/a", "na", "nan", "none", "null", "?", "inf", "-inf"}
_LONGEST = 200
_LARGEST = 1e100
"""What is larger measures nothing, and would overflow in other units."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One cell: ``value`` and ``spread`` as printed, ``unit`` as printed, ``missing`` oom or absent, else the text."""

    text: str
    value: float | None = None
    spread: float | None = None
    unit: str = ""
    spread_unit: str = ""
    missing: str = ""


def cell(text: str) -> Cell:
    """Read one cell; what is no number and not missing stays text."""
    words = _EMPHASIS.sub("", text.strip()).strip()
    plain = _ABOUT.sub("", words).strip()
    if len(plain) > _LONGEST:
        return Cell(text=words[:_LONGEST])
    word = plain.lower()
    if word in _MISSING:
        return Cell(text=plain, missing="absent")
    if is_out_of_memory(word):
        return Cell(text=plain, missing="oom")
    if (seconds := _duration(plain)) is not None:
        return Cell(text=plain, value=seconds, unit="s")
    found = _CELL.fullmatch(_GROUPED.sub(lambda digits: re.sub(r"\D", "", digits[0]), plain))
    if found is None:
        return Cell(text=words)
    value = number(found["value"])
    if abs(value) > _LARGEST:
        return Cell(text=plain)
    unit = found["unit"] or ""
    spread, spread_unit = found["spread"] or found["spread2"], found["unit2"] or found["unit3"] or ""
    if spread_unit == "%" and unit != "%":  # 5 ms ± 3 % spreads by 0.15 ms; in 5 ms (28 %) it is a share of something
        spread, spread_unit = (repr(abs(value) * number(spread) / 100), "") if found["spread"] else (None, "")
    if spread_unit in ("x", "X"):  # 1355 (1.64x) is so many times as fast as another
        spread, spread_unit = None, ""
    return Cell(
        text=plain,
        value=value,
        spread=number(spread) if spread and number(spread) <= _LARGEST else None,
        unit=_plain_micro(unit or spread_unit),
        spread_unit=_plain_micro(spread_unit),
    )


def _duration(text: str) -> float | None:
    """Seconds of ``1m10s``, ``2h 14m``, ``7:02:11`` or ``44 min``; None for anything else."""
    found = _CLOCK.fullmatch(text) or _HOURS.fullmatch(text)
    if found is not None and sum(part is not None for part in found.groups()) > 1:
        return 3600.0 * int(found["h"] or 0) + 60.0 * int(found["m"] or 0) + float(found["s"] or 0)
    single = _LONG.fullmatch(text)
    return float(single[1]) * (3600.0 if single[2].lower().startswith("h") else 60.0) if single else None


def _plain_micro(text: str) -> str:
    return "".join(MICRO.get(letter, letter) for letter in text)


def number(text: str) -> float:
    """Read digits with thousands commas (1,234,567), or a decimal comma (0,13)."""
    if "," in text and "." not in text and not re.fullmatch(r"[-+]?\d{1,3}(?:,\d{3})+(?:[eE].*)?", text):
        return float(text.replace(",", "."))
    return float(text.replace(",", ""))


@lru_cache(maxsize=4096)
def is_data(text: str) -> bool:
    """Whether a cell holds what a table's body holds: a number, or a word for a missing one."""
    read = cell(text)
    return read.value is not None or (bool(read.missing) and read.text != "")
