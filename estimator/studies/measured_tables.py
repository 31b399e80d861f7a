"""Measured tables: the tables of a published report, each predicted on the machine that it was measured on."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from estimator.scenario.catalog import ROOT
from estimator.scenario.measurement import Measurement, Origin
from estimator.studies.study import Figure, Series
from estimator.validation.predicted_rows import predicted_table

CHIPS = ("a100-80gb-sxm", "a100-40gb-sxm", "h100-sxm", "h200-sxm", "b200", "rtx-4090", "rtx-a6000", "v100-32gb")
"""What a study's tables may be predicted on."""

Row = Mapping[str, Any]
Pair = tuple[Row, Row]
"""A row as measured, and what is predicted of it."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table: title, format, and its rows beside their predictions."""

    title: str
    format: str
    chip: str
    pairs: tuple[Pair, ...]


@cache
def _measured(study: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "measured" / f"{study}.json").read_text(encoding="utf-8"))[
        "tables"
    ]
    return found


def tables(study: str, chip_of: Callable[[str], str]) -> list[Table]:
    """Predict every table of a report; ``chip_of``: by a table's format."""
    found = []
    for one in _measured(study):
        form, rows = one["format"], tuple(one["rows"])
        measurement = Measurement(
            label=one["title"], origin=Origin(kind="upload", format=form), world_size=one["world_size"], rows=rows
        )
        chip = chip_of(form)
        predicted = predicted_table(measurement, chip).rows
        pairs = tuple(zip(rows, predicted, strict=True))
        found.append(Table(title=one["title"], format=form, chip=chip, pairs=pairs))
    return found


def of(found: Iterable[Table], form: str, title: str = "") -> list[Pair]:
    """All rows of a format, of one title where given."""
    return [pair for table in found if table.format == form and title in table.title for pair in table.pairs]


def errors(found: Sequence[Table]) -> Iterator[Figure]:
    """How far each column of each table is off: count of rows, median size of the error, mean error, in percent."""
    seen: dict[tuple[str, str], int] = {}
    for table in found:
        times = seen[table.title, table.format] = seen.get((table.title, table.format), 0) + 1
        group = f"{table.title}, {table.format.removeprefix('text/')}" + (f" ({times})" if times > 1 else "")
        yield Figure(group=group, name="rows", value=len(table.pairs))
        for column in dict.fromkeys(name for _, should in table.pairs for name in should):
            ratios = [100 * (should[column] / row[column] - 1) for row, should in table.pairs if column in should]
            name = column.removesuffix("_s").removesuffix("_bytes").replace("_", " ")
            kind = "bytes" if column.endswith("_bytes") else ""
            words = f"{name} {kind}".strip()
            yield Figure(group=group, name=f"{words}, predicted", value=len(ratios), unit="rows")
            yield Figure(
                group=group, name=f"{words}, half off by less than", value=_round(statistics.median(map(abs, ratios))),
                unit="%",
            )  # fmt: skip
            yield Figure(group=group, name=f"{words}, mean error", value=_round(statistics.fmean(ratios)), unit="%")


def both(name: str, measured: float | None, predicted: float | None, unit: str = "×") -> list[Figure]:
    """One conclusion, from what was measured and from what is predicted; nothing where either is missing."""
    if measured is None or predicted is None:
        return []
    return [
        Figure(group="conclusions", name=f"{name}, measured", value=_round(measured), unit=unit),
        Figure(group="conclusions", name=f"{name}, predicted", value=_round(predicted), unit=unit),
    ]


def ratio(
    pairs: Sequence[Pair], column: str, slow: Callable[[Row], bool], fast: Callable[[Row], bool], same: Sequence[str]
) -> tuple[float | None, float | None]:
    """Median of how many times slower one kind of row is than another with the same values, measured and predicted."""
    found: tuple[list[float], list[float]] = ([], [])
    for row, should in pairs:
        if not slow(row):
            continue
        for other, other_should in pairs:
            if fast(other) and all(row.get(name) == other.get(name) for name in same):
                for values, (one, two) in zip(found, ((row, other), (should, other_should)), strict=True):
                    if one.get(column) and two.get(column):
                        values.append(one[column] / two[column])
                break
    measured, predicted = (statistics.median(values) if values else None for values in found)
    return measured, predicted


def lines(
    group: str, pairs: Sequence[Pair], x: str, y: str, name: Callable[[Row], str], *, x_label: str, y_label: str,
    scale: float = 1e3,
) -> Iterator[Series]:  # fmt: skip
    """Measured and predicted curves of each kind of row, both axes logarithmic."""
    for one in dict.fromkeys(name(row) for row, _ in pairs):
        own = sorted(
            (pair for pair in pairs if name(pair[0]) == one and pair[0].get(y)), key=lambda pair: float(pair[0][x])
        )
        for words, at in (("measured", 0), ("predicted", 1)):
            ys = tuple(_scaled(pair[at].get(y), scale) for pair in own)
            if any(value is not None for value in ys):
                yield Series(
                    group=group, name=f"{one} {words}".strip(), x_label=x_label, y_label=y_label,
                    x=tuple(pair[0][x] for pair in own), y=ys, x_log=True, y_log=True,
                )  # fmt: skip


def stacks(group: str, pairs: Sequence[Pair], columns: Sequence[str], name: Callable[[int, Row], str]) -> list[Series]:
    """Parts of steps on one another, measured and predicted in turn, in milliseconds."""
    places = [f"{name(at, row)}, {words}" for at, (row, _) in enumerate(pairs) for words in ("measured", "predicted")]
    return [
        Series(
            group=group, name=column.removesuffix("_s").replace("_", " "), x_label="run", y_label="ms", kind="bar",
            stacked=True, x=tuple(places),
            y=tuple(_scaled(one.get(column), 1e3) for pair in pairs for one in pair),
        )
        for column in columns
    ]  # fmt: skip


def bars(group: str, named: Sequence[tuple[str, float | None, float | None]], y_label: str) -> list[Series]:
    """Measured and predicted bars beside one another."""
    places = tuple(place for place, _, _ in named)
    sides = {"measured": [one for _, one, _ in named], "predicted": [one for _, _, one in named]}
    return [
        Series(group=group, name=words, x_label="", y_label=y_label, kind="bar", x=places, y=tuple(side))
        for words, side in sides.items()
    ]


def _scaled(value: Any, scale: float) -> float | None:
    return None if value is None else float(value) * scale


def _round(value: float) -> float:
    return value if value == int(value) else float(f"{value:.4g}")
