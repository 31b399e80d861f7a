"""``headroom study``: list the reference studies, or reproduce one, for people or as JSON."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from app.commands.files import print_json, table
from estimator.problems import InputProblems, Problem
from estimator.studies import STUDIES, describe_study, document
from estimator.studies import study as reproduce
from estimator.studies.study import Figure, Result, Value


def study(name: str | None, settings: Sequence[str], as_json: bool) -> int:
    """Reproduce a study with some inputs changed and print it; without a name list those there are."""
    if name is None:
        if settings:
            raise InputProblems([_problem("--set", "needs the name of a study", f"One of: {', '.join(STUDIES)}.")])
        known = [describe_study(one) for one in STUDIES]
        if as_json:
            print_json(known)
        else:
            print("\n".join(_listed(known)))
        return 0
    result = reproduce(name, overrides(settings))
    if as_json:
        print_json(document(result))
    else:
        print(text(result))
    return 0


def overrides(settings: Sequence[str]) -> dict[str, object]:
    """Read ``key=value`` texts; raise InputProblems for one that is none, or that names an input twice."""
    found: dict[str, object] = {}
    problems = []
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            problems.append(_problem("--set", f"{setting!r} is not key=value", "Write, for example, --set N=30000."))
        elif key in found:
            problems.append(_problem(key, "is set twice", "Give each input once."))
        found[key] = value
    if problems:
        raise InputProblems(problems)
    return found


def text(result: Result) -> str:
    """Write a study for a terminal: its inputs, the figures by group beside what is printed, and the notes."""
    described = describe_study(result.study)
    inputs = ", ".join(f"{one['name']}={getattr(result.inputs, one['name'])}" for one in described["inputs"])
    rows: list[tuple[str, ...]] = []
    for group, figures in itertools.groupby(result.figures, key=lambda figure: figure.group):
        rows += [("",) * 5, (group, "", "", "", ""), *(_row(figure) for figure in figures)]
    lines = [described["title"], inputs, "", table(("", "value", "unit", "printed", ""), rows)]
    compared = [figure.agrees for figure in result.figures if figure.agrees is not None]
    if compared:
        lines += ["", f"{sum(compared)} of {len(compared)} printed figures agree to the digits printed"]
    if result.notes:
        lines += ["", "notes:", *(f"  {note}" for note in result.notes)]
    return "\n".join(lines)


def _row(figure: Figure) -> tuple[str, str, str, str, str]:
    mark = {True: "ok", False: "DIFFERS", None: ""}[figure.agrees]
    shown = "" if figure.printed is None else _shown(figure.printed, figure.decimals)
    return f"  {figure.name}", _shown(figure.value, figure.decimals), figure.unit, shown, mark


def _shown(value: Value, decimals: int | None) -> str:
    if isinstance(value, str):
        return value
    if decimals is not None and decimals >= 0:
        return f"{value:.{decimals}f}"
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _listed(known: Sequence[dict[str, object]]) -> list[str]:
    width = max(len(str(one["name"])) for one in known)
    return [f"{str(one['name']).ljust(width)}  {one['summary']}" for one in known]


def _problem(field: str, message: str, remedy: str) -> Problem:
    return Problem(field=field, message=message, remedy=remedy)
