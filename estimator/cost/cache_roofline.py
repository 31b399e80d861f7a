"""Cache-level roofline of matrix products: tiles per level, how often operands are reloaded, which level binds.

A product C[a, c] = A[a, b] · B[b, c] runs over square tiles. What leaves a level is set by the tile that the next
nearer level holds: A once for every tile column of C, B once for every tile row (Ardalani 2022, arXiv 2211.03309,
section 4). All functions take plain numbers and NumPy arrays alike.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache

from estimator.scenario.arrays import ceil_div, maximum, where
from estimator.scenario.catalog import ROOT
from estimator.scenario.codec import decode, spec
from estimator.scenario.hardware import Chip
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.units import Number

MODES = ("compatible", "bound")
"""``compatible``: the reference's branch: a product below the ridge pays memory, latency and the next level, added;
one above it pays compute alone. ``bound``: the longest of compute and every level."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """One level of memory: what it can deliver in all, and the tile that the next nearer level keeps of it.

    ``tile`` is the edge of the square tiles held on the side of the compute units; ``latency_s`` is of one access.
    """

    name: str
    bytes_per_s: Number
    tile: Number
    latency_s: Number = 0.0


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Reloads of the three matrices at one level, and the bytes that they make."""

    level: str
    reload_ab: Number
    reload_ac: Number
    reload_bc: Number
    bytes: Number


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a product costs: FLOPs, traffic per level (farthest first), seconds of each, and of all."""

    flops: Number
    traffic: tuple[Traffic, ...]
    compute_s: Number
    level_s: tuple[Number, ...]
    seconds: Number


def tile_edge(capacity_bytes: Number, element_bytes: Number) -> Number:
    """Largest power of two x of which three square tiles fit: 3·x²·p ≤ capacity; below 1 where not one element fits."""
    edge = (capacity_bytes / element_bytes / 3) ** 0.5
    if isinstance(edge, (int, float)):
        # frexp reads the exponent that a logarithm only approximates.
        return math.ldexp(1.0, math.frexp(edge)[1] - 1) if edge > 0 else 0.0
    import numpy as np

    return np.where(edge > 0, np.ldexp(1.0, np.frexp(edge)[1] - 1), 0.0)


def chosen_tile(tile: int, capacity_bytes: float, element_bytes: float, field: str) -> Number:
    """Edge that the user asks for, or with 0 the largest that fits; raises InputProblems where three do not fit."""
    most = int(math.sqrt(capacity_bytes / element_bytes / 3))
    if tile > most:
        fits = f"Use at most {most}" if most else "Enlarge the level"
        message = f"three tiles of {tile} × {tile} do not fit {capacity_bytes:g} bytes"
        raise InputProblems([Problem(field=field, message=message, remedy=f"{fits}, or 0 for the largest that fits.")])
    return float(tile) if tile else tile_edge(capacity_bytes, element_bytes)


def traffic(level: str, a: Number, b: Number, c: Number, tile: Number, element_bytes: Number) -> Traffic:
    """Reloads and bytes of (a × b)·(b × c): AB once where b fits a tile, else ⌈c/x⌉ times; BC ⌈a/x⌉; AC once.

    bytes = p·(ab·AB + bc·BC + ac·AC). A tile below 1 holds nothing, and every operand is read once, as in the
    reference where a level is absent.
    """
    present = tile >= 1
    edge = maximum(tile, 1.0)
    ab = where(present, where(b <= edge, 1.0, ceil_div(c, edge)), 1.0)
    bc = where(present, ceil_div(a, edge), 1.0)
    moved = (a * b * ab + b * c * bc + a * c * 1.0) * element_bytes
    return Traffic(level=level, reload_ab=ab, reload_ac=1.0, reload_bc=bc, bytes=moved)


def loop_flops(a: Number, b: Number, c: Number, tile: Number) -> Number:
    """FLOPs that the reference charges for a product: 2abc + ac·(15 + 5·⌈b/x⌉), the last for indices and loops."""
    return 2.0 * a * b * c + a * c * (15 + 5 * ceil_div(b, maximum(tile, 1.0)))


def roofline_s(
    flops: Number, moved_bytes: tuple[Number, ...], levels: tuple[Level, ...], flops_per_s: Number, mode: str
) -> Number:
    """Seconds of work whose bytes are given per level, farthest level first; see MODES for the two modes."""
    times = tuple(
        _level_s(moved, level.bytes_per_s) for moved, level in zip(moved_bytes, levels[: len(moved_bytes)], strict=True)
    )
    return combined_s(flops, moved_bytes[0], times, levels[0], flops_per_s, mode)


def combined_s(
    flops: Number, memory_bytes: Number, level_s: tuple[Number, ...], memory: Level, flops_per_s: Number, mode: str
) -> Number:
    """Join compute and the times of the levels, farthest first, in one of MODES."""
    compute = flops / flops_per_s
    if mode == "bound":
        longest = compute
        for seconds in level_s:
            longest = maximum(longest, seconds)
        return longest
    below_ridge = flops / memory_bytes < flops_per_s / memory.bytes_per_s
    added = level_s[0] + memory.latency_s
    if len(level_s) > 1:
        added = added + level_s[1]
    return where(below_ridge, added, compute)


def product(
    a: Number,
    b: Number,
    c: Number,
    *,
    levels: tuple[Level, ...],
    flops_per_s: Number,
    element_bytes: Number,
    mode: str,
    flops: Number | None = None,
) -> Cost:
    """Cost of (a × b)·(b × c) in this loop order; ``levels`` from the farthest inwards, 2abc FLOPs unless given."""
    moved = tuple(traffic(level.name, a, b, c, level.tile, element_bytes) for level in levels)
    work = 2.0 * a * b * c if flops is None else flops
    times = tuple(_level_s(each.bytes, level.bytes_per_s) for each, level in zip(moved, levels, strict=True))
    return Cost(
        flops=work,
        traffic=moved,
        compute_s=work / flops_per_s,
        level_s=times,
        seconds=combined_s(work, moved[0].bytes, times, levels[0], flops_per_s, mode),
    )


def _level_s(moved_bytes: Number, bytes_per_s: Number) -> Number:
    # The reference leaves a level without bandwidth out; that is a level that is not there.
    absent = bytes_per_s == 0
    return where(absent, 0.0, moved_bytes / where(absent, 1.0, bytes_per_s))


@dataclass(frozen=True, kw_only=True)
class CacheLevel:
    """One level of ``units`` equal parts (0: one per SM or CU), which deliver together; a tile lives in one part."""

    name: str = spec(help="name of the level")
    capacity_bytes: float = spec(minimum=1, help="of one part")
    units: int = spec(0, minimum=0, help="parts; 0: one for each compute unit of the chip")
    shared_by: int = spec(1, minimum=1, help="parts that hold one tile together")
    bytes_per_clock: float = spec(0.0, minimum=0, help="of one part")
    bytes_per_s: float = spec(0.0, minimum=0, help="of all parts, where a rate per clock is not known")

    def rate(self, chip: Chip) -> float:
        """Bytes per second that all parts deliver at the chip's clock."""
        return self.bytes_per_s or self.bytes_per_clock * chip.clock_hz * (self.units or chip.compute_units)


@dataclass(frozen=True, kw_only=True)
class Caches:
    """Levels of one chip from the nearest outwards, without device memory; ``matrix_tile``: of one instruction."""

    chip: str = spec("", help="catalogue name of the chip")
    matrix_tile: int = spec(minimum=1, help="edge of the pieces that one matrix instruction reads")
    levels: tuple[CacheLevel, ...] = spec(())


@dataclass(frozen=True, kw_only=True)
class Sourced:
    """Levels as the roofline takes them, farthest first, and where their numbers come from."""

    levels: tuple[Level, ...]
    capacities_bytes: tuple[float, ...]
    sources: dict[str, str]


def caches(chip: str) -> tuple[Caches, dict[str, str]] | None:
    """Return the levels of a catalogue chip and their sources; None where the catalogue has none."""
    return _caches(chip) if chip in names() else None


@cache
def _caches(chip: str) -> tuple[Caches, dict[str, str]]:
    path = ROOT / "caches" / f"{chip}.toml"
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    sources = document.pop("sources")
    return decode(Caches, document, path.name), sources


@cache
def names() -> tuple[str, ...]:
    """Catalogue chips whose levels are known."""
    return tuple(sorted(path.stem for path in (ROOT / "caches").glob("*.toml")))


@lru_cache(maxsize=256)
def levels(chip: Chip, element_bytes: float) -> Sourced:
    """Levels of a chip, device memory first: each feeds the largest tiles that fit one part of a nearer level.

    Raises InputProblems for chips without published levels.
    """
    found = caches(chip.name)
    if found is None:
        message = f"no cache levels are known for {chip.name or 'an inline chip'}"
        raise InputProblems([Problem(field="cluster.chip", message=message, remedy=f"Known: {', '.join(names())}.")])
    own, sources = found
    tiles = [float(own.matrix_tile)]
    for level in own.levels:
        # A tile of results kept in a nearer, larger level saves the reloads of every level outside it.
        tiles.append(max(tiles[-1], float(tile_edge(level.capacity_bytes * level.shared_by, element_bytes))))
    rates = [*(level.rate(chip) for level in own.levels), chip.memory_bytes_per_s]
    words = [*(level.name for level in own.levels), "memory"]
    capacities = [*(level.capacity_bytes for level in own.levels), chip.memory_bytes]
    built = [
        Level(name=word, bytes_per_s=rate, tile=tile) for word, rate, tile in zip(words, rates, tiles, strict=True)
    ]
    return Sourced(levels=tuple(reversed(built)), capacities_bytes=tuple(reversed(capacities)), sources=sources)
