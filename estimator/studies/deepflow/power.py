"""The power split: time and memory over shares of the budget, and the search for the fastest split.

The reference searched it by gradient descent. Tiles are powers of two, so time has steps where no gradient leads; the
search here is differential evolution (Storn and Price 1997) on the vectorised formula, a generation at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estimator.cost.cache_roofline import tile_edge
from estimator.scenario.units import Number
from estimator.studies.deepflow.inputs import Inputs, model_of, plan_of, technology_of
from estimator.studies.deepflow.lstm_price import rates
from estimator.studies.deepflow.lstm_step import step
from estimator.studies.deepflow.technology import Technology, machine, ring_links

SPLIT = ("core_power_frac", "dram_power_frac", "l2_power_frac", "shared_power_frac")
LEAST_FRAC = 1e-3
"""Smallest share of what the four divide; without compute or memory no step ends."""
POINTS = 120
GENERATIONS = 60
POPULATION = 60
CROSSED_FRAC = 0.7
AGREEMENT = 1e-6
"""Spread of the population's times, to their mean, at which the search has ended."""

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PowerSweep:
    """Time along one line through the splits: memory's share of what compute and memory have together."""

    memory_frac: Array
    seconds: Array
    memory_bytes: Array
    best: int


@dataclass(frozen=True, kw_only=True)
class Search:
    """The best split of every generation, first the given one, and the time of each."""

    shares: tuple[tuple[float, ...], ...]
    seconds: tuple[float, ...]
    evaluations: int


def seconds_of(i: Inputs, shares: Array) -> Array:
    """Time of the step for each row of shares (compute, memory, L2, shared memory), in one vectorised evaluation."""
    plan = plan_of(i)
    built = machine(_with(technology_of(i), shares), ring_links(*plan.rings))
    tiles = (_tile(i.l2_tile, built.l2_bytes, i), _tile(i.shared_tile, built.shared_bytes, i))
    register_tile = i.register_tile if i.mode == "bound" else 0
    priced = rates(built, i.element_bytes, mode=i.mode, tiles=tiles, register_tile=register_tile)
    seconds = step(model_of(i), priced, plan).seconds
    return np.broadcast_to(np.asarray(seconds, dtype=float), shares.shape[:1]).copy()


def sweep(i: Inputs) -> PowerSweep:
    """Move power between compute and memory, everything else as given."""
    together = i.core_power_frac + i.dram_power_frac
    memory = np.linspace(0.01, 0.99, POINTS)
    shares = np.stack([
        (1 - memory) * together, memory * together,
        np.full(POINTS, i.l2_power_frac), np.full(POINTS, i.shared_power_frac),
    ], axis=1)  # fmt: skip
    seconds = seconds_of(i, shares)
    technology = _with(technology_of(i), shares)
    capacity = np.asarray(machine(technology).memory_bytes, dtype=float)
    return PowerSweep(memory_frac=memory, seconds=seconds, memory_bytes=capacity, best=int(np.argmin(seconds)))


def search(i: Inputs) -> Search:
    """Find the fastest split of the power that the four shares have together; the same answer every time.

    Differential evolution as best/1/bin: trial = best + F·(a − b) in some of the shares, F drawn anew each generation.
    """
    given = np.array([getattr(i, name) for name in SPLIT], dtype=float)
    together = float(given.sum())

    def shares(weights: Array) -> Array:
        divided: Array = weights / weights.sum(axis=1, keepdims=True) * together
        return divided

    random = np.random.default_rng(0)
    weights = random.uniform(LEAST_FRAC, 1.0, (POPULATION, len(SPLIT)))
    weights[0] = np.clip(given / together, LEAST_FRAC, 1.0)
    seconds = seconds_of(i, shares(weights))
    path = [(tuple(map(float, given)), float(seconds_of(i, given[None, :])[0]))]
    evaluations = 1 + POPULATION
    for _ in range(GENERATIONS):
        a, b = random.permuted(np.tile(np.arange(POPULATION), (POPULATION, 1)), axis=1)[:, :2].T
        moved = weights[np.argmin(seconds)] + random.uniform(0.5, 1.0) * (weights[a] - weights[b])
        outside = (moved < LEAST_FRAC) | (moved > 1.0)
        moved = np.where(outside, random.uniform(LEAST_FRAC, 1.0, moved.shape), moved)
        crossed = random.random(moved.shape) < CROSSED_FRAC
        crossed[np.arange(POPULATION), random.integers(len(SPLIT), size=POPULATION)] = True
        trial = np.where(crossed, moved, weights)
        trial_s = seconds_of(i, shares(trial))
        evaluations += POPULATION
        better = trial_s <= seconds
        weights[better], seconds[better] = trial[better], trial_s[better]
        best = int(np.argmin(seconds))
        path.append((tuple(map(float, shares(weights[best : best + 1])[0])), float(seconds[best])))
        if np.std(seconds) <= AGREEMENT * np.mean(seconds):
            break
    return Search(shares=tuple(each for each, _ in path), seconds=tuple(each for _, each in path),
                  evaluations=evaluations)  # fmt: skip


def _tile(tile: int, capacity_bytes: Number, i: Inputs) -> Number:
    """The edge that was asked for where it fits, elsewhere and with 0 the largest that does."""
    fits = (tile > 0) & (3 * tile * tile * i.element_bytes <= np.asarray(capacity_bytes))
    return np.where(fits, float(tile), tile_edge(capacity_bytes, i.element_bytes))


def _with(technology: Technology, shares: Array) -> Technology:
    return replace(technology, **{name: shares[:, column] for column, name in enumerate(SPLIT)})
