"""Residuals: how wide intervals must be to hold four of five measured steps of sources that they were not fitted to.

One law for all kinds of step (estimator/estimate/residual.py), so that what one source has few rows of leans on all
others. It is judged by leaving out one source after another, all of its rows and whatever only they would tell.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.measured_sets import Scored, source_of
from estimator.estimate.residual import (
    ALIKE,
    MEMORY_WORDS,
    STRUCTURE,
    UNMET,
    WORDS,
    MemoryResidual,
    Residuals,
    TimeResidual,
    peak_width,
    residuals,
    width,
)

HELD = 0.8
"""Share of measured values that an interval is to hold."""
MOST_ROWS = 10
"""Rows that one source counts as, at most: hosts and code bases differ more than rows of one do, and a few sources of
hundreds of rows would else set the widths of all others."""
POWERS = (0.25, 0.5, 0.75, 1.0)
"""Powers of what efficiencies admit that are tried; 1 would be an interval as wide as they say."""
POWERS_OF_SIZE = (0.25,)
"""Large peaks are known better: what no list has is a few buffers. With 0 intervals of sources left out are half as
wide again in the mean and hold no more."""
LEAST = 1e-4
"""Logarithm below which an error counts as this."""
FACTORS, SKEWS = np.linspace(-2, 2, 161), np.linspace(-0.8, 0.8, 65)
"""Logarithms that are tried of a word's factor, and of how much farther upper ends are."""
ROUNDS, SWEEPS = 6, 4
"""How often the skew takes its turn, and in each of these spread and factors theirs."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def written(by_set: Mapping[str, Sequence[Scored]]) -> str:
    """Write what catalog/residuals.toml holds of these sets."""
    sources = by_source(by_set)
    found = fitted(sources)
    lines = [
        "# How far predictions were off: estimate/residual.py says what the numbers are.",
        "# Written by make accuracy ARGS=--residuals from the sources named, none weighing more than 10 rows.",
        "",
        "[time]",
        f"spread = {found.time.spread:.3f}",
        f"power = {found.time.power:.2f}",
        f"skew = {found.time.skew:.2f}",
        f'source = "{found.time.source}"',
        "",
        "[time.words]",
        *(f'"{word}" = {factor:.2f}' for word, factor in found.time.words.items()),
        "",
        "[memory]",
        f"spread = {found.memory.spread:.4f}",
        f"power = {found.memory.power:.2f}",
        f'source = "{found.memory.source}"',
        "",
        "[memory.words]",
        *(f'"{word}" = {factor:.2f}' for word, factor in found.memory.words.items()),
        "",
        "[met]",
        f"chips = {json.dumps(sorted(found.met))}",
        *(f'"{word}" = {json.dumps(sorted(chips))}' for word, chips in found.alike.items()),
    ]
    return "\n".join(lines) + "\n"


def by_source(by_set: Mapping[str, Sequence[Scored]]) -> dict[str, list[Scored]]:
    """Steps by where they are from: the project that published a row, the name of a set of our own up to a comma.

    A project's rows in two tables are of one source.
    """
    found: dict[str, list[Scored]] = {}
    for name, scored in by_set.items():
        for one in scored:
            found.setdefault(one.source or source_of(name), []).append(one)
    return found


def fitted(sources: Mapping[str, Sequence[Scored]]) -> Residuals:
    """Fit the laws of times and of peaks to these sources."""
    times = {name: ones for name, scored in sources.items() if (ones := [one for one in scored if timed(one)])}
    peaks = {name: ones for name, scored in sources.items() if (ones := [one for one in scored if held(one)])}
    # A chip that one source alone has is not met, so that a step has the width that it was judged by.
    known = {
        word: frozenset(chip for chip, names in met(times, word).items() if len(names) > 1) for word in ("", *ALIKE)
    }
    return Residuals(time=_of_times(times), memory=_of_peaks(peaks), met=known.pop(""), alike=known)


def timed(one: Scored) -> bool:
    """Whether a step's time has an interval."""
    return one.covered is not None


def held(one: Scored) -> bool:
    """Whether a step's peak has an interval."""
    return one.memory_covered is not None


def met(times: Mapping[str, Sequence[Scored]], word: str = "") -> dict[str, set[str]]:
    """The sources that have a step of each chip, or one of which a word of ``ALIKE`` may be true."""
    found: dict[str, set[str]] = {}
    for name, scored in times.items():
        for one in scored:
            if not word or ALIKE[word](one.kind.split(", ")):
                found.setdefault(one.hardware, set()).add(name)
    return found


def words_of(one: Scored, *, unmet: bool, alike: Collection[str]) -> str:
    """The kind of a step, its chip being met or not, and steps like it by these words of ``ALIKE``."""
    kept = [word for word in one.kind.split(", ") if word not in (UNMET, *ALIKE)]
    return ", ".join(kept + [word for word in alike if ALIKE[word](kept)] + [UNMET] * unmet)


@dataclass(frozen=True, kw_only=True)
class _Law:
    """Logarithms: of the width where 1 is admitted, of each word's factor, of the skew; ``cost``: how badly it fits."""

    spread: float
    power: float
    factors: Floats
    skew: float
    cost: float


def _of_times(times: Mapping[str, Sequence[Scored]]) -> TimeResidual:
    found = [(name, one) for name, scored in times.items() for one in scored]
    known, like = met(times), {word: met(times, word) for word in ALIKE}
    if not found:
        return TimeResidual(spread=1.0, power=1.0, skew=1.0, words={}, source="")
    # A chip that a source alone has counts as one that was not met: of other sources' steps nothing is known of it.
    kinds = [
        words_of(
            one,
            unmet=known[one.hardware] == {name},
            alike=[word for word, names in like.items() if names.get(one.hardware, set()) - {name}],
        ).split(", ")
        for name, one in found
    ]
    ends = [(admitted(one), off(one)) for _, one in found]
    up = np.array([above > 0 for _, (_, above) in ends])
    law = _best(
        errors=np.array([max(below, above) for _, (below, above) in ends]),
        up=up,
        base=np.array([high if rises else low for ((low, high), _), rises in zip(ends, up, strict=True)]),
        words=np.array([[word in kind for word in WORDS] for kind in kinds]),
        weights=_weights(times),
        powers=POWERS,
        skews=SKEWS,
    )
    return TimeResidual(
        spread=math.exp(law.spread),
        power=law.power,
        skew=math.exp(law.skew),
        # Of a chip that nobody met nothing is known better than of one that somebody did.
        words={
            word: max(math.exp(one), 1.0 if word == UNMET else 0.0)
            for word, one in zip(WORDS, law.factors, strict=True)
        },
        source=f"{len(found)} times of {', '.join(sorted(times))}",
    )


def _of_peaks(peaks: Mapping[str, Sequence[Scored]]) -> MemoryResidual:
    found = [one for scored in peaks.values() for one in scored]
    if not found:
        return MemoryResidual(spread=0.1, power=0.0, words={}, source="")
    law = _best(
        errors=np.array([max(off_memory(one)) for one in found]),
        up=np.zeros(len(found), dtype=bool),
        base=np.array([1e9 / one.memory_bytes for one in found]),
        words=np.array([[one.memory_kind == word for word in MEMORY_WORDS] for one in found]),
        weights=_weights(peaks),
        powers=POWERS_OF_SIZE,
        skews=np.zeros(1),
    )
    return MemoryResidual(
        spread=math.exp(law.spread),
        power=law.power,
        words={word: math.exp(one) for word, one in zip(MEMORY_WORDS, law.factors, strict=True)},
        source=f"{len(found)} peaks of {', '.join(sorted(peaks))}",
    )


def _weights(sources: Mapping[str, Sequence[Scored]]) -> Floats:
    return np.concatenate([np.full(len(ones), weight(ones)) for ones in sources.values()])


def weight(found: Sequence[Scored]) -> float:
    """Weight of a row of a source."""
    return min(1.0, MOST_ROWS / len(found))


def _best(
    *, errors: Floats, up: Flags, base: Floats, words: Flags, weights: Floats, powers: Sequence[float], skews: Floats
) -> _Law:
    """The law of the power that fits best: log width = spread + power · log base + words ± skew.

    Quantile regression of the errors' logarithms (Koenker and Bassett, 1978), in turns over its terms. The logarithm of
    a word's factor, b, costs b² / 2 rows, so that a word of few rows stays near 1.
    """
    logs = np.log(np.maximum(errors, LEAST))
    laws = [_law(logs - power * np.log(base), up, words.astype(float), weights, power, skews) for power in powers]
    return min(laws, key=lambda law: law.cost)


def _law(logs: Floats, up: Flags, words: Floats, weights: Floats, power: float, skews: Floats) -> _Law:
    factors, skew, spread = np.zeros(words.shape[1]), 0.0, 0.0
    sign = np.where(up, 1.0, -1.0)
    for _ in range(ROUNDS):
        left = logs - sign * skew
        for _ in range(SWEEPS):
            spread = quantile(left - words @ factors, weights, HELD)
            for index in range(len(factors)):
                of = words[:, index] > 0
                if of.any():
                    rest = (left - spread - words @ factors)[of] + factors[index]
                    costs = _missed(rest - FACTORS[:, None], weights[of]) + FACTORS**2 / 2
                    factors[index] = FACTORS[np.argmin(costs)]
        # As much of the weight is left out above as below.
        over = (logs - spread - words @ factors) - sign * skews[:, None] > 0
        skew = float(skews[np.argmin(np.abs((over * weights * sign).sum(axis=1)))])
    rest = logs - sign * skew - spread - words @ factors
    cost = float(_missed(rest[None, :], weights)[0]) + float((factors**2).sum()) / 2
    return _Law(spread=spread, power=power, factors=factors, skew=skew, cost=cost)


def _missed(rest: Floats, weights: Floats) -> Floats:
    """What each row of logarithms costs: HELD of one that is left above 0, the rest of 1 of one below."""
    cost: Floats = (weights * np.where(rest > 0, HELD * rest, (HELD - 1) * rest)).sum(axis=1)
    return cost


def admitted(one: Scored) -> tuple[float, float]:
    """What efficiencies and STRUCTURE admit to either side, as logarithms, without what the row leaves open."""
    known, (shortest, longest) = residuals().time, one.open_frac
    low, high = abs(math.log(one.low or 1.0)), abs(math.log(one.high or 1.0))
    ends = less(low, math.log(shortest)), less(high, math.log(longest))
    plain = (width(1.0, one.kind, known, up=up) for up in (False, True))
    below, above = (max((end / unit) ** (1 / known.power), STRUCTURE) for end, unit in zip(ends, plain, strict=True))
    return below, above


def off(one: Scored) -> tuple[float, float]:
    """How far measured is below and above predicted, as logarithms, beyond what the row leaves open."""
    ratio, (shortest, longest) = math.log(one.ratio or 1.0), one.open_frac
    return less(max(-ratio, 0.0), math.log(shortest)), less(max(ratio, 0.0), math.log(longest))


def off_memory(one: Scored) -> tuple[float, float]:
    """How far a measured peak is below and above the predicted one, as logarithms.

    Beyond what the row leaves open, and without what an allocator's share adds to the ends.
    """
    ratio, own = -math.log(1 + (one.memory or 0.0) / 100), peak_width(one.memory_bytes, one.memory_kind)
    smallest, largest = (abs(math.log(frac)) for frac in one.open_memory_frac)
    low, high = abs(math.log(one.memory_low or 1.0)) - smallest, abs(math.log(one.memory_high or 1.0)) - largest
    return less(max(-ratio - smallest, 0.0), less(low, own)), less(max(ratio - largest, 0.0), less(high, own))


def less(whole: float, part: float) -> float:
    """What is left of a sum in quadrature without one of its parts; 0 where the part alone is more."""
    return math.sqrt(max(whole**2 - part**2, 0.0))


@dataclass(frozen=True, kw_only=True)
class Held:
    """Whether intervals fitted without a step's source hold its time and its peak; None where not measured."""

    time: bool | None
    memory: bool | None


def held_out(by_set: Mapping[str, Sequence[Scored]]) -> dict[str, list[Held]]:
    """Judge each step by intervals that all other sources gave, in the order of each set."""
    sources = by_source(by_set)
    known = {name: fitted({other: ones for other, ones in sources.items() if other != name}) for name in sources}
    chips = fitted(sources)
    return {
        name: [_held(one, known[one.source or source_of(name)], chips) for one in scored]
        for name, scored in by_set.items()
    }


def _held(one: Scored, known: Residuals, chips: Residuals) -> Held:
    time = memory = None
    if timed(one):
        alike = [word for word, of in chips.alike.items() if one.hardware in of]
        kind = words_of(one, unmet=one.hardware not in chips.met, alike=alike)
        (low, high), (below, above) = admitted(one), off(one)
        time = below <= width(low, kind, known.time, up=False) and above <= width(high, kind, known.time, up=True)
    if held(one):
        memory = max(off_memory(one)) <= peak_width(one.memory_bytes, one.memory_kind, known.memory)
    return Held(time=time, memory=memory)


LIKELY = 0.05
"""Probability below which a count is no chance."""


def by_chance(inside: int, of: int, between: tuple[float, float] = (0.7, 0.9)) -> bool:
    """Whether as many of so many may be chance where an interval holds a share ``between``, rows being independent."""
    low, high = between
    return (
        sum(_binomial(of, high, range(inside, of + 1))) >= LIKELY
        and sum(_binomial(of, low, range(inside + 1))) >= LIKELY
    )


def _binomial(of: int, share: float, counts: range) -> Iterator[float]:
    return (math.comb(of, count) * share**count * (1 - share) ** (of - count) for count in counts)


def quantile(values: Floats, weights: Floats, share: float) -> float:
    """Return the value that ``share`` of the weight lies at or below."""
    return float(np.quantile(values, share, weights=weights, method="inverted_cdf"))
