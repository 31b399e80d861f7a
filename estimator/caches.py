"""Cache levels of catalogue chips: registers, shared memory, caches, device memory, with a source for each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache

from estimator.catalog import ROOT
from estimator.codec import decode, spec
from estimator.cost.hierarchy import Level, tile_edge
from estimator.hardware import Chip
from estimator.problems import InputProblems, Problem


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


@cache
def caches(chip: str) -> tuple[Caches, dict[str, str]] | None:
    """Read the levels of a catalogue chip and their sources; None where the catalogue has none."""
    path = ROOT / "caches" / f"{chip}.toml"
    if chip not in names():
        return None
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    sources = document.pop("sources")
    return decode(Caches, document, path.name), sources


@cache
def names() -> tuple[str, ...]:
    """Catalogue chips whose levels are known."""
    return tuple(sorted(path.stem for path in (ROOT / "caches").glob("*.toml")))


@cache
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
