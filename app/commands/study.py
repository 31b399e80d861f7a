"""``headroom study``: list the reference studies, or reproduce one, for people or as JSON."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from app.commands.files import print_json, table, wrapped
from estimator.scenario.problems import InputProblems, Problem
from estimator.studies import STUDIES, describe_study, document
from estimator.studies import study as reproduce
from estimator.studies.study import Figure, Result, Value

LONGEST_CELL = 30


def study(name: str | None, settings: Sequence[str], as_json: bool, every: bool = False) -> int:
    """Reproduce a study with some inputs changed and print it; without a name list those there are.

    ``every``: print every figure for people, instead of one line for each group of them.
    """
    if name is None:
        if settings:
            raise InputProblems([_problem("--set", "needs the name of a study", f"One of: {', '.join(STUDIES)}.")])
        known = [describe_study(one) for one in STUDIES]
        if as_json:
            print_json(known)
        else:
            print("\n".join(_listed(known)))
        return 0
    result = reproduce(name, overrides(settings, _example(name)))
    if as_json:
        print_json(document(result))
    elif every:
        print(text(result, _figures(result)))
    else:
        print(text(result, _groups(result)))
    return 0


def _example(name: str) -> str:
    """A setting that the study takes; raises InputProblems for a study that is not known."""
    first = describe_study(name)["inputs"][0]
    return f"{first['name']}={first['default']}"


def overrides(settings: Sequence[str], example: str) -> dict[str, object]:
    """Read ``key=value`` texts; raise InputProblems for one that is none, or that names an input twice."""
    found: dict[str, object] = {}
    problems = []
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            problems.append(_problem("--set", f"{setting!r} is not key=value", f"Write, for example, --set {example}."))
        elif key in found:
            problems.append(_problem(key, "is set twice", "Give each input once."))
        found[key] = value
    if problems:
        raise InputProblems(problems)
    return found


def text(result: Result, body: Sequence[str]) -> str:
    """Write a study for a terminal: its inputs and the verdict, then its figures in some form, and the notes."""
    described = describe_study(result.study)
    values = {one["name"]: getattr(result.inputs, one["name"]) for one in described["inputs"]}
    inputs = ", ".join(f"{name}={_shown(value, None)}" for name, value in values.items())
    lines = [described["title"], *wrapped(inputs), "", *verdict(result), "", *body]
    if result.notes:
        lines += ["", "notes:", *(line for note in result.notes for line in wrapped(note, "  "))]
    return "\n".join(lines)


def verdict(result: Result) -> list[str]:
    """Say how many of the figures that the reference prints agree, and which do not."""
    compared = [figure for figure in result.figures if figure.agrees is not None]
    if not compared:
        return ["Nothing to agree with: the reference prints its figures for its own inputs."]
    differ = [figure for figure in compared if not figure.agrees]
    lines = [f"{len(compared) - len(differ)} of {len(compared)} printed figures agree to the digits printed"]
    for one in differ:
        value, shown, _ = _row(one)
        lines += wrapped(f"DIFFERS: {one.group}, {one.name}: {value} {one.unit}, printed {shown}", "  ")
    return lines


def _figures(result: Result) -> list[str]:
    """Every figure in its group; a value that is a sentence has lines of its own, so that it widens no column."""
    rows: list[tuple[str, ...]] = []
    sentences: dict[int, list[str]] = {}
    before = _before(result)
    for group, figures in itertools.groupby(result.figures, key=lambda figure: figure.group):
        rows += [("",) * 5, (group, "", "", "", "")]
        for one in figures:
            value, shown, mark = _row(one)
            if before:
                was = before.get((one.group, one.name))
                shown = "" if was is None else _shown(was, one.decimals)
            if len(value) > LONGEST_CELL:
                sentences[len(rows)] = wrapped(f"{one.name}: {value}", "  ")
                value, shown = "", ""
            rows.append((f"  {one.name}", value, one.unit, shown, mark))
    beside = "reference's inputs" if before else "printed"
    head, *lines = table(("", "value", "unit", beside, ""), rows).splitlines()
    return [head, *(line for at, own in enumerate(lines) for line in sentences.get(at, [own]))]


def _groups(result: Result) -> list[str]:
    """One line for each group: how many figures agree, or how far other inputs moved them from the reference's."""
    groups: dict[str, list[Figure]] = {}
    for figure in result.figures:
        groups.setdefault(figure.group, []).append(figure)
    before = _before(result)
    hint = ["", f"--all prints each of the {len(result.figures)} figures."]
    if not before:
        rows = [(group, str(len(figures)), *_agreeing(figures)) for group, figures in groups.items()]
        return [*table(("", "figures", "printed", "agree"), rows).splitlines(), *hint]
    moved = [_moved(figures, before) for figures in groups.values()]
    counts = [(group, str(len(groups[group])), count) for group, (count, _) in zip(groups, moved, strict=True)]
    head, *lines = table(("", "figures", "changed"), counts).splitlines()
    most = (most for _, most in moved)
    return [f"{head}  most", *(f"{line}  {text}".rstrip() for line, text in zip(lines, most, strict=True)), *hint]


def _before(result: Result) -> dict[tuple[str, str], Value]:
    """What the reference's inputs give, where others were given and so nothing printed stands beside the figures."""
    if any(figure.agrees is not None for figure in result.figures):
        return {}
    return {(one.group, one.name): one.value for one in reproduce(result.study).figures}


def _agreeing(figures: Sequence[Figure]) -> tuple[str, str]:
    compared = [figure.agrees for figure in figures if figure.agrees is not None]
    return (str(len(compared)), str(sum(compared))) if compared else ("", "")


def _moved(figures: Sequence[Figure], before: Mapping[tuple[str, str], Value]) -> tuple[str, str]:
    """Count the figures that the reference's inputs give otherwise or not at all, and show the one that moved most."""
    changed = [one for one in figures if before.get((one.group, one.name)) != one.value]
    changes = []
    for one in changed:
        was = before.get((one.group, one.name))
        if isinstance(was, (int, float)) and isinstance(one.value, (int, float)) and was:
            frac = one.value / was - 1
            now = _shown(one.value, one.decimals)
            changes.append((frac, f"{one.name}: {_shown(was, one.decimals)} → {now} {one.unit}".rstrip()))
    if not changes:
        return str(len(changed) or ""), ""
    frac, text = max(changes, key=lambda change: round(abs(change[0]), 9))
    return str(len(changed)), f"{100 * frac:+.3g} %  {text}"


def _row(figure: Figure) -> tuple[str, str, str]:
    """Value, printed value and mark of a figure."""
    mark = {True: "ok", False: "DIFFERS", None: ""}[figure.agrees]
    shown = "" if figure.printed is None else _shown(figure.printed, figure.decimals)
    return _shown(figure.value, figure.decimals), shown, mark


def _shown(value: Value, decimals: int | None) -> str:
    if isinstance(value, str):
        return value
    if decimals is not None and decimals >= 0:
        return f"{value:.{decimals}f}"
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _listed(known: Sequence[dict[str, object]]) -> list[str]:
    width = max(len(str(one["name"])) for one in known)
    rows = (f"{str(one['name']).ljust(width)}  {one['summary']}" for one in known)
    return [line for row in rows for line in wrapped(row, hanging=width + 2)]


def _problem(field: str, message: str, remedy: str) -> Problem:
    return Problem(field=field, message=message, remedy=remedy)
