"""Study: the nouns of a reference study, and the way from overridden inputs to its result."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, TypeVar

from estimator.scenario.catalog import ROOT
from estimator.scenario.codec import decode, types_of

T = TypeVar("T")

Value = float | int | str

_TRUTH = {"true": True, "false": False}
_WORDS = {int: "integer", float: "number", bool: "boolean", str: "text"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One number (or word) of a study, in the unit that its reference prints.

    ``printed`` is what the reference shows with ``decimals`` digits after the point; None where it shows nothing, or
    where the inputs are not the reference's.
    """

    group: str
    name: str
    value: Value
    unit: str = ""
    printed: Value | None = None
    decimals: int | None = None

    @property
    def agrees(self) -> bool | None:
        """Whether the value, rounded as printed, is the printed one; None where nothing is printed."""
        if self.printed is None:
            return None
        if isinstance(self.printed, str) or isinstance(self.value, str):
            return self.value == self.printed
        # Half a unit of the last printed digit, and what binary floats need: the references round decimal halves.
        return abs(self.value - self.printed) <= 0.5 * 10.0 ** -(self.decimals or 0) * (1 + 1e-6)


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One curve or set of bars: ``x`` against ``y``, drawn together with the others of the same ``group``.

    ``kind``: line | step | bar; ``x`` are numbers, or words for bars and steps; None in ``y`` is a gap. Bars of one
    group stand on one another where ``stacked``.
    """

    group: str
    name: str
    x_label: str
    y_label: str
    x: tuple[Value, ...]
    y: tuple[float | None, ...]
    kind: str = "line"
    x_log: bool = False
    y_log: bool = False
    stacked: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a study gives: its inputs as used, figures in the order of the reference, curves, and notes for readers."""

    study: str
    inputs: Any
    figures: tuple[Figure, ...]
    series: tuple[Series, ...] = ()
    notes: tuple[str, ...] = ()


@cache
def printed_figures(study: str) -> dict[tuple[str, str], str]:
    """Return what a study's reference prints, by group and name; texts, because their digits count."""
    data = tomllib.loads((ROOT / "printed" / f"{study}.toml").read_text(encoding="utf-8"))
    return {(group, name): text for group, names in data.items() for name, text in names.items()}


def printed(text: str) -> tuple[Value, int | None]:
    """Read a figure as its reference prints it: the number and its digits after the point, or the word itself."""
    try:
        value = float(text)
    except ValueError:
        return text, None
    if "." in text:
        mantissa, _, exponent = text.lower().partition("e")
        return value, len(mantissa.partition(".")[2]) - int(exponent or 0)
    return (int(text), 0) if text.lstrip("+-").isdecimal() else (value, -int(text.lower().partition("e")[2] or 0))


def read_inputs(cls: type[T], overrides: Mapping[str, object]) -> T:
    """Build a study's inputs from overrides, text included; raise InputProblems naming each bad input."""
    hints = types_of(cls)
    return decode(cls, {name: _typed(hints.get(name), value) for name, value in overrides.items()})


def describe(name: str, module: ModuleType) -> dict[str, Any]:
    """Describe a study for people and pages: title, summary, and each input with its bounds, help and default."""
    hints = types_of(module.Inputs)
    return {
        "name": name,
        "title": module.TITLE,
        "summary": module.SUMMARY,
        "inputs": [
            {
                "name": field.name,
                "type": _WORDS[hints[field.name]],
                "choices": field.metadata.get("choices"),
                "minimum": field.metadata.get("minimum"),
                "maximum": field.metadata.get("maximum"),
                "help": field.metadata.get("help", ""),
                "default": field.default,
            }
            for field in dataclasses.fields(module.Inputs)
        ],
    }


def document(result: Result) -> dict[str, Any]:
    """Turn a result into the JSON document that the command and the page share."""
    return {
        "study": result.study,
        "inputs": dataclasses.asdict(result.inputs),
        "figures": [dataclasses.asdict(figure) | {"agrees": figure.agrees} for figure in result.figures],
        "series": [dataclasses.asdict(series) for series in result.series],
        "notes": list(result.notes),
    }


def _typed(kind: Any, value: object) -> object:
    """Read text by the type of its field; what cannot be read stays text, and decoding names the problem."""
    if not isinstance(value, str) or kind is str:
        return value
    text = value.strip()
    if kind is bool:
        return _TRUTH.get(text.lower(), value)
    try:
        number = float(text)
    except ValueError:
        return value
    if kind is int:
        try:
            return int(text)
        except ValueError:
            return int(number) if number.is_integer() else number
    return number
