"""Fit: constants of the cost model to points, few at a time, robustly.

Each constant is searched alone, on a logarithmic grid that is refined, and the constants of a group in turns,
until no turn helps: the mean of |log(predicted / measured)|, each at most ``OUTLIER``, which few wild points cannot
move far. Every fourth point is held back, and says what was gained.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from estimator.calibration.points import Point
from estimator.cost.efficiency import Efficiencies, Range, Tiles, tiles
from estimator.cost.price import price
from estimator.scenario.hardware import Chip

HELD_BACK = 4
"""Of so many points one is held back."""
OUTLIER = math.log(2.0)
FEWEST = 4
"""Points that must depend on a constant for it to be determined."""
SENSITIVE = 0.2
"""A point depends on a constant where a hundredth more of it moves its time by at least so many hundredths."""
TURNS = 3
STEPS = 9
REFINED = 4
SPAN = 3.0
"""A constant is sought from so many times less to so many times more than what it starts from."""
LEAST = {"gemm_overlap_power": 1.0}
"""Constants that have a least value: by less than 1 a product would take longer than all that it does in turns."""
WORTH = 0.02
"""A constant moves only where the objective falls by this share: what the points hardly tell stays as it was."""

Constants = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A constant as the points give it: its range, the points that it rests on, and their spread around the model."""

    range: Range
    points: int
    residual_frac: float


@dataclass(frozen=True, kw_only=True)
class GroupErrors:
    """Median error of the held-back points of a group under the old and the new constants, as shares."""

    group: str
    points: int
    held_back: int
    before_frac: float
    after_frac: float


def with_constants(e: Efficiencies, changed: Mapping[str, float]) -> Efficiencies:
    """The efficiencies with other values; their ranges as they were."""
    return replace(e, **changed)  # type: ignore[arg-type]


def predicted_s(point: Point, chip: Chip, e: Efficiencies) -> float:
    """Seconds that the point's kernels should take, and the gaps after them where the point has these."""
    gap = e.kernel_gap_s if point.gaps else 0.0
    return sum((float(price(op, chip, e).seconds) + gap * float(op.launches)) * float(op.count) for op in point.ops)


def ratio_logs(points: Sequence[Point], chip: Chip, e: Efficiencies) -> list[float]:
    """log(predicted / measured) of each point."""
    return [math.log(max(predicted_s(point, chip, e), 1e-12) / point.seconds) for point in points]


def split(points: Sequence[Point]) -> tuple[list[Point], list[Point]]:
    """Points to fit to, and every fourth of them, by size, held back."""
    ordered = sorted(points, key=lambda point: (point.seconds, point.what))
    held = ordered[HELD_BACK - 2 :: HELD_BACK]
    return [point for point in ordered if not any(point is one for one in held)], held


def fit(
    names: Sequence[str], points: Sequence[Point], chip: Chip, e: Efficiencies
) -> tuple[Efficiencies, dict[str, int]]:
    """The efficiencies with the named constants fitted, and how many points each of them rests on.

    A constant that fewer than ``FEWEST`` points depend on stays as it is, with its count.
    """
    rests = {name: _dependent(name, points, chip, e) for name in names}
    free = [name for name in names if rests[name] >= FEWEST]
    for _ in range(TURNS):
        before = e
        for name in free:
            found = searched(_error_of(name, points, chip, e), getattr(e, name), LEAST.get(name, 0.0))
            e = with_constants(e, {name: found})
        if e == before:
            break
    return e, rests


def _error_of(name: str, points: Sequence[Point], chip: Chip, e: Efficiencies) -> Callable[[float], float]:
    return lambda value: _objective(points, chip, with_constants(e, {name: value}))


def searched(objective: Callable[[float], float], start: float, lowest: float = 0.0) -> float:
    """The value on a logarithmic grid around ``start``, refined, where the objective is least, from ``lowest`` on."""
    best, least = start, objective(start)
    worth = least * (1.0 - WORTH)
    centre, width = start, math.log(SPAN)
    found = start
    for _ in range(REFINED):
        for index in range(-STEPS // 2, STEPS // 2 + 1):
            value = max(centre * math.exp(width * 2 * index / STEPS), lowest)
            error = objective(value)
            if error < least:
                best, least = value, error
        centre, width = best, width * 2 / STEPS
    if least < worth:
        found = best
    return found


def spread_frac(logs: Sequence[float]) -> float:
    """About 80 % of the points lie within this share around the model."""
    sizes = sorted(abs(one) for one in logs)
    return math.expm1(sizes[min(len(sizes) - 1, int(0.8 * len(sizes)))]) if sizes else 0.0


def median_frac(logs: Sequence[float]) -> float:
    """Median error, as a share."""
    return statistics.median(abs(math.expm1(one)) for one in logs) if logs else 0.0


def _objective(points: Sequence[Point], chip: Chip, e: Efficiencies) -> float:
    logs = ratio_logs(points, chip, e)
    return math.fsum(min(abs(one), OUTLIER) for one in logs) / max(len(logs), 1)


def _dependent(name: str, points: Sequence[Point], chip: Chip, e: Efficiencies) -> int:
    more = with_constants(e, {name: getattr(e, name) * 1.01})
    return sum(
        abs(math.log(predicted_s(point, chip, more) / predicted_s(point, chip, e))) >= SENSITIVE * math.log(1.01)
        for point in points
    )


TILE_RATES = (0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
"""Rates that a tile may have; at a tenth it is as good as not there."""


def fit_tiles(table: str, points: Sequence[Point], held: Sequence[Point], chip: Chip, e: Efficiencies) -> Tiles | None:
    """The table with rates that fit the points better; None where the points held back are not met better by it."""
    start: Tiles = getattr(e, table)
    current, least = start, _objective(points, chip, e)
    for index in range(len(start.tiles)):
        for rate in TILE_RATES:
            changed = _with_rate(current, index, rate)
            error = _objective(points, chip, replace(e, **{table: changed}))  # type: ignore[arg-type]
            if error < least * (1.0 - WORTH):
                current, least = changed, error
    if current is start or not held:
        return None
    after = _objective(held, chip, replace(e, **{table: current}))  # type: ignore[arg-type]
    return current if after < _objective(held, chip, e) else None


def _with_rate(table: Tiles, index: int, rate: float) -> Tiles:
    rows = list(table.tiles)
    rows[index] = (rows[index][0], rows[index][1], rate)
    return tiles(tuple(rows), "rates fitted to products that ran alone, of the base's tiles")
