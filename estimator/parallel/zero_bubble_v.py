"""Zero-bubble V: the longest path through its fixed order, for stages of any length."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from estimator.parallel.stages import Stages
from estimator.parallel.v_paths import MORE, ROUND, TWO, WORK, counts
from estimator.units import Number

STAYS = {"first": 0, "second": 3, "last but one": 3, "last": 6}
"""First column in WORK of a rank on which a path may stay."""
MESSAGE = WORK.index("S")
STAGES = len(WORK)
AT_ONCE = 1024
"""Rows at once: products of this size stay in a core's cache, and on one core."""


def zero_bubble_v(stages: Stages, m: Number, v: Number, send_s: Number) -> tuple[Number, Number]:
    """Longest of the paths in ``v_paths`` less m · slowest stage, without and with messages, which run beside the work.

    From 2p − 1 micro-batches on, T = max over ranks of 2m(F + B + W) + longest way there + longest way on. Below, T is
    linear in m between one micro-batch, p and 2p − 1. F = B = W and m ≥ 2p − 1 leave (p − 1)F/2 of a rank's forward:
    the stagger of the ranks' starts, which only an optimizer without a global gradient norm can hide (Qi 2023,
    arXiv 2401.10241, section 4; Qi 2024, arXiv 2405.15362). Against the event simulation of the same order, messages no
    longer than a chunk's shortest pass and passes within a factor of 4: never above and at most 10 % below from 2p − 1
    micro-batches on (mean 0.1 %), exact where stages are equal and messages free; with fewer 15 % below to 20 % above
    (mean 1 to 2 %). Longer messages leave a bound from below.
    """
    import numpy as np

    times = (stages.first, stages.middle, stages.last)
    # A rank's chunk takes half of its seconds.
    passes = [seconds / 2 for t in times for seconds in (t.forward_s, t.input_s, t.weight_s)]
    columns = np.broadcast_arrays(*passes, send_s, stages.count, m, stages.pace_s)
    rows = np.array([column.ravel() for column in columns], dtype=float)
    idle = np.empty((2, rows.shape[1]))
    for p in np.unique(rows[STAGES]):
        here = np.flatnonzero(rows[STAGES] == p)
        for start in range(0, len(here), AT_ONCE):
            some = here[start : start + AT_ONCE]
            idle[:, some] = _idle_s(rows[:, some], float(p))
    quiet, loud = idle.reshape(2, *columns[0].shape)
    return (quiet, loud) if quiet.ndim else (float(quiet), float(loud))


def _idle_s(rows: Any, p: float) -> Any:
    """Seconds beyond m · slowest, without and with messages, of rows with the same number of stages."""
    import numpy as np

    passes, send_s, m, pace_s = rows[:MESSAGE], rows[MESSAGE], rows[-2], rows[-1]
    longest: tuple[dict[tuple[str, str], Any], ...] = ({}, {})
    filling = bool((m < 2 * p - 1).any())
    for name, times in counted(p).items():
        if name[0] == "whole" and not filling:
            continue
        seconds = times[:, :MESSAGE] @ passes
        longest[0][name] = seconds.max(axis=0)
        longest[1][name] = np.add(seconds, times[:, MESSAGE:] * send_s, out=seconds).max(axis=0)
    return np.maximum([_step_s(one, passes, p, m) for one in longest] - m * pace_s, 0.0)


def _step_s(longest: dict[tuple[str, str], Any], passes: Any, p: float, m: Any) -> Any:
    import numpy as np

    full = np.maximum(m, 2 * p - 1)
    filled = full / p * longest["round", ""] + longest["begin", "round"] + longest["end", "round"]
    for rank, column in STAYS.items():
        if ("begin", rank) in longest:
            stays = 2 * full * passes[column : column + 3].sum(axis=0)
            filled = np.maximum(filled, stays + longest["begin", rank] + longest["end", rank])
    if ("whole", "one") not in longest:
        return filled
    one, many = longest["whole", "one"], longest["whole", "as many"]
    hops = max(p - 1, 1.0)
    filling = np.where(m <= p, one + (many - one) * (m - 1) / hops, many + (filled - many) * (m - p) / hops)
    return np.where(m < full, filling, filled)


@lru_cache(maxsize=1024)
def counted(p: float) -> dict[tuple[str, str], Any]:
    """Return how often each path, or part of a path, passes through each kind of WORK with p stages."""
    paths = TWO if p <= 2 else MORE
    parts = {("begin", rank): ways for rank, ways in paths.begin.items()}
    parts |= {("end", rank): ways for rank, ways in paths.end.items()}
    parts |= {("round", ""): (ROUND,), ("whole", "one"): paths.one, ("whole", "as many"): paths.as_many}
    return {name: counts(ways) @ [1.0, p] for name, ways in parts.items()}
