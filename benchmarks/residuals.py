"""Residuals: how far an interval's ends must move, by kind of step, to leave a tenth of measured times outside each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.measured_sets import Scored, source_of
from estimator.estimate.residual import WORDS, Residual, known

TENTH = 0.9
"""Share of measured times that either end of an interval is to leave on its inner side."""
FEWEST = 10
"""Steps that a kind needs for factors of its own."""


def residuals(by_set: dict[str, list[Scored]]) -> str:
    """Write what catalog/residuals.toml holds of these sets."""
    groups = grouped_sets(by_set)
    lines = [
        "# How far predictions were off by kind of plan: estimate/residual.py says what the numbers are.",
        "# Written by make accuracy ARGS=--residuals from the sets in each source, none weighing more than 10 rows.",
    ]
    for kind, one in fitted(groups).items():
        lines += ["", f'["{kind}"]', f"low = {one.low:.2f}", f"high = {one.high:.2f}",
                  f"memory_low = {one.memory_low:.3f}", f"memory_high = {one.memory_high:.3f}",
                  f'source = "{one.source}"']  # fmt: skip
    return "\n".join(lines) + "\n"


def grouped_sets(by_set: dict[str, list[Scored]]) -> dict[str, list[Scored]]:
    """Put sets of one origin together: those whose names begin alike, up to a comma."""
    groups: dict[str, list[Scored]] = {}
    for name, scored in by_set.items():
        groups.setdefault(source_of(name), []).extend(scored)
    return groups


def fitted(groups: dict[str, list[Scored]]) -> dict[str, Residual]:
    """Fit factors of the intervals' ends, and tenths of the memory's errors, by kind.

    No group weighs more than ``MOST_ROWS`` rows. Where a kind has too few steps, those with more words stand for it. A
    kind of fewer than ``FEWEST`` steps even so has none of its own; one of few is drawn towards what would
    be known of it without them.
    """
    found: dict[str, Residual] = {}
    kinds = {one.kind for scored in groups.values() for one in scored if one.kind}
    shorter = {", ".join(kind.split(", ")[:count]) for kind in kinds for count in range(1, 5)}
    for kind in ("any", *WORDS, *sorted(shorter, key=lambda kind: (kind.count(","), kind))):
        exact = sum(one.kind == kind and one.covered is not None for scored in groups.values() for one in scored)
        some = {
            name: [one for one in scored if one.kind == kind or (exact < FEWEST and is_of(one, kind))]
            for name, scored in groups.items()
        }
        timed = {
            name: ones for name, scored in some.items() if (ones := [one for one in scored if one.covered is not None])
        }
        held = {
            name: ones for name, scored in some.items() if (ones := [one for one in scored if one.memory is not None])
        }
        count = sum(map(len, timed.values()))
        if count < FEWEST:
            continue
        above = known(kind, {"any": PLAIN} | found)
        low, high = factors(timed)
        peaks = [(1 / (1 + one.memory / 100), weight(ones)) for ones in held.values() for one in ones]
        weights = sum(weight(ones) * len(ones) for ones in timed.values())
        share, memory_share = weights / (weights + FEWEST), len(peaks) / (len(peaks) + FEWEST)

        def drawn(own: float, other: float, own_share: float) -> float:
            return own**own_share * other ** (1 - own_share)

        # Ends of times are 0 where none of a kind errs to that side, and are drawn by their mean, not by their ratio.
        found[kind] = Residual(
            low=share * low + (1 - share) * above.low,
            high=share * high + (1 - share) * above.high,
            memory_low=drawn(quantile(peaks, 1 - TENTH), above.memory_low, memory_share) if peaks else above.memory_low,
            memory_high=drawn(quantile(peaks, TENTH), above.memory_high, memory_share) if peaks else above.memory_high,
            source=f"{count} times of {', '.join(sorted(timed))}",
        )
    return found


PLAIN = Residual(low=1.0, high=1.0, memory_low=0.95, memory_high=1.1, source="")


def is_of(one: Scored, kind: str) -> bool:
    """Whether a step is of a kind, or of one with more words."""
    return bool(one.kind) and (kind in ("any", *one.kind.split(", ")) or one.kind.startswith(f"{kind}, "))


MOST_ROWS = 10
"""Rows that one source counts as, at most: hosts and code bases differ more than rows of one do, and a few sources of
hundreds of rows would else set the widths of all others."""


def weight(found: Sequence[Scored]) -> float:
    """Weight of a row of a group."""
    return min(1.0, MOST_ROWS / len(found))


def factors(timed: dict[str, list[Scored]]) -> tuple[float, float]:
    """By what the logarithms of the ends are to be multiplied so that each leaves a tenth outside."""
    lows, highs = [], []
    for found in timed.values():
        for one in found:
            (low, high), (below, above) = plain_ends(one), off(one)
            lows.append((below / low, weight(found)))
            highs.append((above / high, weight(found)))
    return quantile(lows, TENTH), quantile(highs, TENTH)


def plain_ends(one: Scored) -> tuple[float, float]:
    """Sizes of the ends' logarithms before what is known of the kind and what the row leaves open, never 0."""
    own, (shortest, longest) = known(one.kind), one.open_frac
    low, high = abs(math.log(one.low or 1.0)), abs(math.log(one.high or 1.0))
    return less(low, math.log(shortest)) / own.low, less(high, math.log(longest)) / own.high


def off(one: Scored) -> tuple[float, float]:
    """How far measured is below and above predicted, as logarithms, beyond what the row leaves open."""
    ratio, (shortest, longest) = math.log(one.ratio or 1.0), one.open_frac
    return less(max(-ratio, 0.0), math.log(shortest)), less(max(ratio, 0.0), math.log(longest))


def less(whole: float, part: float) -> float:
    """What is left of a sum in quadrature without one of its parts; 0 where the part alone is more."""
    return math.sqrt(max(whole**2 - part**2, 0.0))


def held_out(by_set: dict[str, list[Scored]]) -> dict[str, list[bool | None]]:
    """Whether intervals whose factors are of all other groups hold each step's time, in the order of each set."""
    groups, found = grouped_sets(by_set), {}
    for name, scored in by_set.items():
        own = source_of(name)
        others = {"any": PLAIN, **fitted({group: ones for group, ones in groups.items() if group != own})}
        found[name] = [None if one.covered is None else _inside(one, known(one.kind, others)) for one in scored]
    return found


def _inside(one: Scored, residual: Residual) -> bool:
    (low, high), (below, above) = plain_ends(one), off(one)
    return below <= low * residual.low and above <= high * residual.high


def quantile(weighted: Sequence[tuple[float, float]], share: float) -> float:
    """Return the value that ``share`` of the weight lies at or below."""
    ordered = sorted(weighted)
    whole, so_far = sum(weight for _, weight in ordered), 0.0
    for value, weight in ordered:
        so_far += weight
        if so_far >= share * whole:
            return value
    return ordered[-1][0]
