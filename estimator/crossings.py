"""Crossings: from where on one way of splitting a block is better than another, by formula and by search."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.parallel.crossover import Layout, crossover_rows
from estimator.parallel.grid_shape import grid_of
from estimator.scenario import Scenario
from estimator.ways import Way

Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """Where ``then`` becomes better than ``before`` in a metric for good; ``at`` None: nowhere. ``closed``: by formula.

    ``first``: where they change places for the first time, below ``at`` where they take turns (products fill a chip in
    waves). ``leads``: no other way is better at ``at``.
    """

    metric: str
    before: str
    then: str
    first: float | None
    at: float | None
    closed: bool
    leads: bool


def of_linears(scenario: Scenario, ways: tuple[Way, ...]) -> list[Crossover]:
    """Tokens from which a grid's linears move less than 1D's, in closed form (``crossover_rows``)."""
    model, usual = scenario.model, ways[0]
    linears = [] if model.network == "ffn" else [
        (model.hidden, model.query_width + 2 * model.kv_width), (model.query_width, model.hidden)
    ]  # fmt: skip
    if model.network != "attention":
        linears += [(model.hidden, (2 if model.gated_ffn else 1) * model.ffn), (model.ffn, model.hidden)]
    found = []
    for way in ways[1:]:
        if way.problems or usual.problems:
            continue
        side = int(grid_of(way.name, way.plan.tp, way.plan.tp_depth))
        layout = Layout(kind=way.name, side=side, depth=way.plan.tp_depth)
        at = crossover_rows(Layout(kind="1d", side=way.plan.tp), layout, linears, keep=False)
        never = not np.isfinite(at)
        found.append(
            Crossover(metric="linears", before=usual.name, then=way.name, first=None if never else at,
                      at=None if never else at, closed=True, leads=False)
        )  # fmt: skip
    return found


def searched(x: Values, metrics: Mapping[str, Mapping[str, Values]]) -> list[Crossover]:
    """Where two curves of a metric change places, between neighbouring points on a logarithmic axis."""
    found = []
    for metric, values in metrics.items():
        least = np.min(np.stack(list(values.values())), axis=0) if values else np.zeros(0)
        for first, second in itertools.combinations(values, 2):
            gap = values[first] - values[second]
            apart = np.flatnonzero(np.abs(gap) > 1e-9 * np.maximum(values[first], values[second])).tolist()
            turns = [(here, there) for here, there in itertools.pairwise(apart) if gap[here] * gap[there] < 0]
            if not turns:
                continue
            points = [_between(x, gap, here, there) for here, there in turns]
            last = turns[-1][1]
            before, then = (first, second) if gap[last] > 0 else (second, first)
            found.append(
                Crossover(metric=metric, before=before, then=then, first=points[0], at=points[-1], closed=False,
                          leads=bool(values[then][last] <= least[last] * (1 + 1e-9)))
            )  # fmt: skip
    return found


def _between(x: Values, gap: Values, here: int, there: int) -> float:
    """Zero of a difference that is linear in log x between two points."""
    part = gap[here] / (gap[here] - gap[there])
    return float(np.exp(np.log(x[here]) + part * np.log(x[there] / x[here])))
