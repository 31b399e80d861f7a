"""Host pace: what a step takes where its host is faster or slower than while it was calibrated.

A shared host runs the same work up to 1.8 times as long from one second to the next, so that a step bound by it is told
together with the pace at which it ran: an op on a host tensor, timed in the probes and beside each measured step.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from estimator.cost.efficiency import OF_HOST, Efficiencies, at_rates, efficiencies
from estimator.cost.host import slowest_of

FACTORS = (0.4, 0.55, 0.7, 0.85, 1.0, 1.2, 1.5, 1.9, 2.4)
"""Paces over the calibrated one at which a step is predicted; between them it is read off straight lines."""

MOST_SLOWER = 2.0
"""Seconds over the calibrated ones that a pace counts at most: a thread that takes longer was interrupted in the two
milliseconds in which its pace was read."""

Curve = tuple[tuple[float, float], ...]


def at_pace(e: Efficiencies, factor: float) -> Efficiencies:
    """The efficiencies of a host that takes ``factor`` times as long."""
    return replace(at_rates(e, factor, names=OF_HOST), name=f"{e.name}, host {factor:g}", host_paced=True)


def pace_factor(samples: Mapping[str, Any], own_s: float, backward_s: float = 0.0) -> float | None:
    """How many times as long as while it was calibrated a host took beside a step, over its ranks and both threads.

    ``samples``: of a result, seconds before each timed step, by rank, of the first alone in older ones; ``own_s``,
    ``backward_s``: of the program's thread and autograd's, calibrated, 0 where not noted. None where neither is known
    on both sides. The mean over steps, as they pass through the speeds of their host, and of the threads, either of
    which tells of them; of several ranks the one that is slowest at each moment, for which the others wait, over what
    that one usually takes longer (``slowest_of``): a core beside a busy neighbour is no slower for a second one.
    """
    by_thread = []
    for thread, calibrated_s in (("host", own_s), ("host_backward", backward_s)):
        by_rank = samples.get(f"{thread}_paces_by_rank_s") or [samples.get(f"{thread}_paces_s") or []]
        if calibrated_s and all(by_rank):
            by_thread.append([[min(pace_s / calibrated_s, MOST_SLOWER) for pace_s in paces] for paces in by_rank])
    if not by_thread:
        return None
    moments = [
        max(statistics.fmean(threads) for threads in zip(*ranks, strict=True))
        for ranks in zip(*(zip(*ranks, strict=False) for ranks in by_thread), strict=False)
    ]
    return statistics.fmean(moments) / float(slowest_of(len(by_thread[0]), efficiencies("default")))


def over_paces(step_s: Callable[[Efficiencies], float], e: Efficiencies) -> Curve:
    """Seconds of a step where its host is at each of FACTORS."""
    return tuple((factor, step_s(at_pace(e, factor))) for factor in FACTORS)


def read_off(curve: Sequence[Sequence[float]], factor: float) -> float:
    """Seconds of a step at a pace ``factor`` times the calibrated one; at the ends as at the last of the curve."""
    return float(np.interp(factor, [one[0] for one in curve], [one[1] for one in curve]))
