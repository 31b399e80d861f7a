"""Accuracy: the committed figures of how right predictions are, by set, from ``make accuracy ARGS=--write``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "catalog" / "accuracy.json"
ASKED_FRAC = 0.8
"""What an interval leaves out at either end, a tenth, is what estimator/estimate/residual.py fits."""


@dataclass(frozen=True, kw_only=True)
class ErrorFigures:
    """Errors of ``n`` predictions as they are committed: percent of the measurement; a negative bias is too short."""

    n: int
    mape: float
    median: float
    p90: float
    bias: float | None = None


@dataclass(frozen=True, kw_only=True)
class AccuracyGroup:
    """Of a set the steps of one chip, model or kind: errors of time and percent that intervals hold.

    ``held_out``: by intervals whose widths are of all other sources.
    """

    name: str
    time: ErrorFigures
    covered: float | None
    held_out: float | None


@dataclass(frozen=True, kw_only=True)
class AccuracyPoint:
    """One measured step beside its prediction and 80 % interval.

    ``held_out``: whether an interval that never met its set holds it; ``kind``: as widths of intervals are known by;
    ``largest``: the category that most of the predicted step is of.
    """

    measured_s: float
    predicted_s: float
    low_s: float
    high_s: float
    held_out: bool
    chip: str
    model: str
    kind: str
    largest: str


@dataclass(frozen=True, kw_only=True)
class AccuracySet:
    """One table of measured steps: its figures, its groups by ``chip``, ``model``, ``kind``, ``largest``, its points.

    ``peers``: predictions of the same times that were published beside them. Points are of sets that come with
    Headroom.
    """

    name: str
    rows: int
    left_out: int
    time: ErrorFigures | None
    memory: ErrorFigures | None
    naive: ErrorFigures | None
    covered: float | None
    held_out: float | None
    phases: dict[str, ErrorFigures]
    peers: dict[str, ErrorFigures]
    by: dict[str, tuple[AccuracyGroup, ...]]
    points: tuple[AccuracyPoint, ...]


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """All sets; ``asked_frac``: what share of measured times an interval is meant to hold."""

    asked_frac: float
    sets: tuple[AccuracySet, ...]


PEER = " (published)"


@cache
def accuracy() -> Accuracy:
    """Read the committed figures of all sets that were scored."""
    document = json.loads(FILE.read_text(encoding="utf-8"))
    sets = tuple(_set(name, one) for name, one in document.items() if one["n"])
    return Accuracy(asked_frac=ASKED_FRAC, sets=sets)


def _set(name: str, one: Mapping[str, Any]) -> AccuracySet:
    peers = [key.removesuffix("_median") for key in one if key.endswith(f"{PEER}_median")]
    return AccuracySet(
        name=name,
        rows=one["n"],
        left_out=one["skipped"],
        time=_errors(one, "time", one["n"]),
        memory=_errors(one, "memory", one["n"]),
        naive=_errors(one, "naive", one["n"]),
        covered=one.get("covered"),
        held_out=one.get("held_out"),
        phases={part: found for part in ("forward", "backward") if (found := _errors(one, part, one["n"]))},
        peers={peer.removesuffix(PEER): found for peer in peers if (found := _errors(one, peer, one["n"]))},
        by={
            what: tuple(
                AccuracyGroup(
                    name=group,
                    time=found,
                    covered=figures.get("covered"),
                    held_out=figures.get("held_out"),
                )
                for group, figures in named.items()
                if (found := _errors(figures, "time", figures["n"]))
            )
            for what, named in one["by"].items()
        },
        points=tuple(AccuracyPoint(**point) for point in one["points"]),
    )


def _errors(one: Mapping[str, Any], of: str, rows: int) -> ErrorFigures | None:
    if f"{of}_mape" not in one:
        return None
    return ErrorFigures(
        n=one.get(f"{of}_n", rows),
        mape=one[f"{of}_mape"],
        median=one[f"{of}_median"],
        p90=one[f"{of}_p90"],
        bias=one.get(f"{of}_bias"),
    )
