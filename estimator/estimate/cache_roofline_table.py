"""Cache-level roofline of a scenario: every matrix product of one rank's step, tile by tile and level by level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.cost.cache_roofline import MODES, Cost, Level, product
from estimator.cost.cache_roofline import levels as levels_of
from estimator.operations.op import Op
from estimator.operations.rank_sizes import rank_sizes
from estimator.operations.transformer import network
from estimator.scenario.hardware import peak_flops_per_s
from estimator.scenario.precision import byte_widths
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import Scenario

Array = NDArray[np.float64]
Shape = tuple[float, float, float, float]
"""Products in the batch, m, n, k."""


@dataclass(frozen=True, kw_only=True)
class AtLevel:
    """A product at one level: the tile that the next nearer level holds, reloads of A, B and C, bytes, seconds."""

    name: str
    tile: float
    reloads: tuple[float, float, float]
    bytes: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class CacheRow:
    """One product: ``count`` times a step on one rank; ``binds`` names what takes longest, ``compute`` or a level."""

    name: str
    layer: str
    phase: str
    count: float
    batch: float
    m: float
    n: float
    k: float
    precision: str
    flops: float
    compute_s: float
    levels: tuple[AtLevel, ...]
    transposed: bool
    binds: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Roof:
    """One level as the figure draws it: its bandwidth is the slope, its source says where that comes from."""

    name: str
    bytes_per_s: float
    capacity_bytes: float
    tile: float
    source: str


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """Roofs of the chip, farthest level first, and all products of the step."""

    chip: str
    mode: str
    precision: str
    flops_per_s: float
    roofs: tuple[Roof, ...]
    rows: tuple[CacheRow, ...]


@dataclass(frozen=True)
class CachePriced:
    """Arrays over products: the better loop order, its traffic per level, and all times."""

    transposed: NDArray[np.bool_]
    reloads: Array
    bytes: Array
    level_s: Array
    compute_s: Array
    seconds: Array


def hierarchy(scenario: Scenario, mode: str = "bound") -> Hierarchy:
    """Price every product of ``scenario`` on its chip's levels; raises InputProblems for modes and chips not known."""
    if mode not in MODES:
        raise InputProblems(
            [Problem(field="mode", message=f"{mode!r} is not known", remedy=f"One of: {', '.join(MODES)}.")]
        )
    chip = scenario.cluster.chip
    operand_bytes = byte_widths(scenario.training, scenario.plan).operand_bytes
    rows: list[CacheRow] = []
    found = products(scenario)
    for precision in dict.fromkeys(op.precision for op, _ in found):
        own = [(op, count) for op, count in found if op.precision == precision]
        levels = levels_of(chip, operand_bytes[precision]).levels
        peak = peak_flops_per_s(chip, precision)
        shapes = tuple((float(op.batch), float(op.m), float(op.n), float(op.k)) for op, _ in own)
        rows += _rows(own, price(shapes, levels, peak, operand_bytes[precision], mode), levels)
    precision = scenario.training.precision
    sourced = levels_of(chip, operand_bytes[precision])
    roofs = tuple(
        Roof(name=level.name, bytes_per_s=_plain(level.bytes_per_s), capacity_bytes=capacity, tile=_plain(level.tile),
             source=sourced.sources.get(level.name, "the chip's own entry in the catalogue"))
        for level, capacity in zip(sourced.levels, sourced.capacities_bytes, strict=True)
    )  # fmt: skip
    return Hierarchy(
        chip=chip.label or chip.name, mode=mode, precision=precision,
        flops_per_s=peak_flops_per_s(chip, precision), roofs=roofs, rows=tuple(rows),
    )  # fmt: skip


def products(scenario: Scenario) -> list[tuple[Op, float]]:
    """Every product of one rank's step with how often it runs: equal layers together, times micro-batches."""
    found = network(rank_sizes(scenario))
    plan = scenario.plan
    found_ops: list[tuple[Op, float]] = []
    for block in found.blocks:
        found_ops += [(op, block.layers / plan.pp) for op in _gemms(block.ops)]
    found_ops += [(op, 1.0) for op in _gemms((*found.embedding, *found.head))]
    return [(op, float(op.count) * layers * scenario.micro_batches) for op, layers in found_ops]


@lru_cache(maxsize=256)
def price(
    shapes: tuple[Shape, ...], levels: tuple[Level, ...], flops_per_s: float, element_bytes: float, mode: str
) -> CachePriced:
    """Price many products at once, each in both loop orders; the faster counts, the first where they tie.

    A product's three dimensions are a = m, b = k, c = n; a batch runs one after the other.
    """
    batch, m, n, k = (np.array(column, dtype=float) for column in zip(*shapes, strict=True)) if shapes else _EMPTY
    kept: dict[str, Any] = {
        "levels": levels, "flops_per_s": flops_per_s, "element_bytes": element_bytes, "mode": mode,
    }  # fmt: skip
    first, second = product(m, k, n, **kept), product(n, k, m, **kept)
    turned = np.asarray(second.seconds < first.seconds)
    return CachePriced(
        transposed=turned,
        reloads=np.where(turned[:, None, None], _reloads(second, turned.shape), _reloads(first, turned.shape)),
        bytes=batch[:, None] * np.where(turned[:, None], _bytes(second), _bytes(first)),
        level_s=batch[:, None] * np.where(turned[:, None], _level_s(second), _level_s(first)),
        compute_s=batch * np.asarray(first.compute_s),
        seconds=batch * np.where(turned, second.seconds, first.seconds),
    )


def _gemms(ops: Iterable[Op]) -> list[Op]:
    return [op for op in ops if op.kind == "gemm" and op.m * op.n * op.k * op.batch > 0]


def _rows(ops: Sequence[tuple[Op, float]], priced: CachePriced, levels: tuple[Level, ...]) -> list[CacheRow]:
    longest = np.argmax(np.concatenate([priced.compute_s[:, None], priced.level_s], axis=1), axis=1)
    words = ("compute", *(level.name for level in levels))
    tiles = [_plain(level.tile) for level in levels]
    reloads, moved, seconds = priced.reloads.tolist(), priced.bytes.tolist(), priced.level_s.tolist()
    return [
        CacheRow(
            name=op.name, layer=op.layer, phase=op.phase, count=count,
            batch=float(op.batch), m=float(op.m), n=float(op.n), k=float(op.k), precision=op.precision,
            flops=float(op.flops), compute_s=float(priced.compute_s[i]),
            levels=tuple(
                AtLevel(name=level.name, tile=tiles[j], reloads=tuple(reloads[i][j]), bytes=moved[i][j],
                        seconds=seconds[i][j])
                for j, level in enumerate(levels)
            ),
            transposed=bool(priced.transposed[i]), binds=words[longest[i]], seconds=float(priced.seconds[i]),
        )
        for i, (op, count) in enumerate(ops)
    ]  # fmt: skip


def _reloads(cost: Cost, shape: tuple[int, ...]) -> Array:
    """Reloads of A, B, C: product, level, matrix."""
    each = [
        [np.broadcast_to(value, shape) for value in (level.reload_ab, level.reload_bc, level.reload_ac)]
        for level in cost.traffic
    ]
    return np.moveaxis(np.array(each, dtype=float), 2, 0)


def _bytes(cost: Cost) -> Array:
    return np.stack([np.asarray(level.bytes) for level in cost.traffic], axis=1)


def _level_s(cost: Cost) -> Array:
    return np.stack([np.asarray(seconds) for seconds in cost.level_s], axis=1)


def _plain(value: Any) -> float:
    return float(value)


_EMPTY = (np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))
