"""Work spans: the work of one step as arrays, and the seconds that they add up to by phase, category and name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.importers.kineto.intervals import Floats, Wholes, exclusive, exposed
from estimator.scenario.breakdown import CATEGORIES, PHASES, Category, Phase
from estimator.scenario.measurement import Kernel

CODE = {category: code for code, category in enumerate(CATEGORIES)}
PHASE = {phase: code for code, phase in enumerate(PHASES)}
MESSAGE, HOST = CODE[Category.COMMUNICATION], CODE[Category.HOST]


@dataclass(frozen=True, kw_only=True)
class WorkSpans:
    """Kernels, or stretches of ops' own time, in microseconds of the trace.

    ``name`` counts in the trace's names, ``category`` and ``phase`` in those of ``estimator.scenario.breakdown``;
    ``calls`` is 0 for a stretch that only goes on; ``flops`` and ``bytes`` are NaN where they are unknown.
    """

    name: Wholes
    category: Wholes
    phase: Wholes
    start: Floats
    end: Floats
    calls: Wholes
    flops: Floats
    bytes: Floats


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Seconds of one step by phase and by category; both add up to the step."""

    phases_s: dict[str, float]
    breakdown_s: dict[str, float]


def joined(parts: Sequence[WorkSpans]) -> WorkSpans:
    """Put spans of several threads together."""
    assert parts
    return WorkSpans(
        name=np.concatenate([part.name for part in parts]),
        category=np.concatenate([part.category for part in parts]),
        phase=np.concatenate([part.phase for part in parts]),
        start=np.concatenate([part.start for part in parts]),
        end=np.concatenate([part.end for part in parts]),
        calls=np.concatenate([part.calls for part in parts]),
        flops=np.concatenate([part.flops for part in parts]),
        bytes=np.concatenate([part.bytes for part in parts]),
    )


def sums(spans: WorkSpans, begin: float, end: float) -> Sums:
    """Add up a step: a second belongs to the work that began first, to communication only while no work runs, and to
    the host when nothing runs at all."""
    start, stop = np.clip(spans.start, begin, end), np.clip(spans.end, begin, end)
    work = (spans.category != MESSAGE) & (spans.category != HOST)
    message = spans.category == MESSAGE
    seconds = exclusive(spans.start[work], spans.end[work], begin, end) * 1e-6
    by_category = np.bincount(spans.category[work], weights=seconds, minlength=len(CATEGORIES))
    by_phase = np.bincount(spans.phase[work], weights=seconds, minlength=len(PHASES))
    alone = float(exposed(start[message], stop[message], start[work], stop[work]).sum()) * 1e-6
    idle = max(0.0, (end - begin) * 1e-6 - float(by_category.sum()) - alone)
    breakdown = dict(zip(CATEGORIES, by_category.tolist(), strict=True))
    breakdown |= {Category.COMMUNICATION: alone, Category.HOST: idle}
    phases = dict(zip(PHASES, by_phase.tolist(), strict=True))
    phases |= {Phase.EXPOSED_COMMUNICATION: alone, Phase.HOST_WAIT: idle}
    return Sums(phases_s=phases, breakdown_s=breakdown)


def kernels(spans: WorkSpans, names: Sequence[str], most: int) -> tuple[tuple[Kernel, ...], int]:
    """Sum spans by name and category, the longest first; beyond ``most`` they are summed by category alone.

    Returns the kernels and how many names were merged so.
    """
    key, group = np.unique(spans.name * len(CATEGORIES) + spans.category, return_inverse=True)
    total = np.bincount(group, weights=spans.end - spans.start, minlength=len(key))
    rank = np.empty(len(key), dtype=np.int64)
    order = np.argsort(-total, kind="stable")
    rank[order] = np.arange(len(key))
    category = key % len(CATEGORIES)
    # the rarest become one group for each category, behind the named ones
    slot = np.where(rank < most, rank, most + category)[group]
    count = np.bincount(slot, weights=spans.calls)
    seconds = np.bincount(slot, weights=spans.end - spans.start) * 1e-6
    flops, moved = _known(slot, spans.flops), _known(slot, spans.bytes)
    found = []
    for place in np.flatnonzero(np.bincount(slot)).tolist():
        named = place < most
        label = names[int(key[order[place]]) // len(CATEGORIES)] if named else "(others)"
        code = int(category[order[place]]) if named else place - most
        found.append(
            Kernel(
                name=label,
                category=CATEGORIES[code],
                count=int(count[place]),
                total_s=float(seconds[place]),
                flops=flops[place],
                bytes=moved[place],
            )
        )
    return tuple(found), max(0, len(key) - most)


def _known(slot: Wholes, values: Floats) -> list[float | None]:
    """Sums by slot, None where any part is unknown: half a sum would be a wrong one."""
    return [None if np.isnan(value) else value for value in np.bincount(slot, weights=values).tolist()]
