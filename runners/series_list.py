"""Series lists: steps to be measured one after another, by name; without torch, for predicting them.

An entry is a scenario; or a model of transformers, what stands in its config.json, or a module that a factory
makes, and how it is trained.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from estimator.scenario.codec import decode, spec
from estimator.scenario.problems import InputProblems, Problem
from runners.job import read_json
from runners.options import ProgramOptions


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One step of a series, by name."""

    name: str
    scenario: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    module: str = ""
    program: ProgramOptions = field(default_factory=ProgramOptions)
    options: dict[str, Any] = field(default_factory=dict)
    warmup: int = spec(3, minimum=0, maximum=1000)
    steps: int = spec(10, minimum=1, maximum=1000)


def read_series(path: Path) -> list[Entry]:
    """Read a list of steps; raise InputProblems."""
    return entries_of(read_json(path, "series"))


def entries_of(document: object) -> list[Entry]:
    """Read the steps of a series; raise InputProblems."""
    if not isinstance(document, list):
        raise InputProblems([Problem(field="series", message="is not a list", remedy="Give a list of objects.")])
    found = [decode(Entry, one, f"[{index}]") for index, one in enumerate(document)]
    for index, entry in enumerate(found):
        given = [name for name in ("scenario", "config", "module") if getattr(entry, name)]
        if len(given) != 1:
            remedy = (
                "Give one of them: a scenario, what stands in a model's config.json, or a module's FILE.py:FACTORY."
            )
            message = f"stands beside {given[1]}" if given else "is missing, as are config and module"
            raise InputProblems(
                [Problem(field=f"[{index}].{given[0] if given else 'scenario'}", message=message, remedy=remedy)]
            )
    names = [entry.name for entry in found]
    twice = sorted({name for name in names if names.count(name) > 1 or not name or "/" in name})
    if twice:
        message = f"{twice[0]!r} names two steps, none, or a folder"
        raise InputProblems([Problem(field="series.name", message=message, remedy="Give each step its own name.")])
    return found
