"""Zero-bubble V: the longest path through its fixed order, for stages of any length."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from estimator.scenario.units import Number
from estimator.schedule.micro_batch import Stages

WORK = ("F0", "B0", "W0", "F", "B", "W", "FL", "BL", "WL", "S")

Side = dict[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Ways to the rank on which a path stays and ways on from it, and paths of one and of p micro-batches in whole.

    ``round`` stays on no rank: micro-batches follow one another over all ranks and back, p at a time.
    """

    begin: Side
    end: Side
    one: tuple[str, ...]
    as_many: tuple[str, ...]


ROUND = "F0 1  B0 2  W0 1  B 2p-4  FL 1  BL 2  WL 1  S 2p-2"

TWO = Paths(
    begin={
        "first": ("", "F0 -2  FL 2  S 2"),
        "last": ("F0 1  S 1", "F0 2  B0 1  FL -2  S 3", "F0 4  B0 1  FL -4  S 1"),
        "round": ("F0 1  FL 1  WL -1  S 2",),
    },
    end={
        "first": ("", "B0 -2  W0 -3  BL 2  WL 3  S 1", "B0 -1  W0 -2  BL 2  S 2"),
        "last": (
            "",
            "B0 1  W0 1  WL -3  S 1",
            "F0 1  B0 1  BL -2  WL -1  S 2",
            "F0 1  B0 3  W0 3  BL -4  WL -4  S 1",
            "F0 1  B0 3  W0 2  FL -1  BL -2  WL -5  S 3",
            "F0 1  B0 4  W0 4  FL -1  BL -4  WL -5  S 1",
        ),
        "round": ("",),
    },
    one=(
        "F0 2  B0 2  W0 1  FL 2  BL 2  WL 1  S 4",
        "F0 2  B0 2  W0 2  FL 2  S 2",
        "F0 2  B0 1  FL 2  BL 2  WL 2  S 3",
    ),
    as_many=(
        "F0 4  B0 4  W0 4",
        "F0 3  B0 4  W0 4  FL 2  S 2",
        "F0 2  B0 3  W0 3  FL 4  S 2",
        "F0 3  B0 3  W0 2  FL 2  BL 2  WL 1  S 4",
        "F0 2  B0 2  W0 1  FL 2  BL 4  WL 3  S 4",
        "F0 2  B0 2  W0 1  FL 4  BL 2  WL 1  S 4",
        "F0 1  B0 1  W0 1  FL 4  BL 4  WL 3  S 2",
        "F0 1  FL 4  BL 4  WL 4  S 1",
        "F0 3  B0 2  W0 1  BL 4  WL 3  S 2",
        "F0 2  B0 1  FL 2  BL 4  WL 4  S 3",
    ),
)
"""Of two stages."""

MORE = Paths(
    begin={
        "first": (
            "",
            "F0 -2p+2  F 2p-2  S 2p-4",
            "F0 -2p+2  F 2p-4  FL 2  S 2p-2",
        ),
        "second": (
            "F0 1  S 1",
            "F0 2  B0 1  F -4  FL 2  S 2p-1",
            "F0 2p  B0 1  F -2p  S 1",
        ),
        "last but one": (
            "F0 1  F p-3  S p-2",
            "F0 2p+1  B0 2  W0 1  F -2p-1  B p-4  W -1  S p-2",
            "F0 1  F -4  B p-3  FL 4  S 3p-6",
            "F0 1  F -p-1  FL 2p-2  S p",
            "F0 2  B0 1  F -2  B p-3  S 3p-6",
        ),
        "last": (
            "F0 1  F p-2  S p-1",
            "F0 2  B0 1  F 2p-4  B p-2  FL -2p+2  S 3p-3",
            "F0 2p  B0 1  B p-2  FL -2p  S p-1",
            "F0 1  F 3p-3  B 1  FL -2p  S p-1",
        ),
        "round": ("F0 1  F 2p-3  B 2p-6  W 1  FL 2  BL 2  S 4p-8",),
    },
    end={
        "first": (
            "",
            "B0 -p  W0 -p-1  B p-2  BL 2  WL 2p-1  S p-1",
            "B0 -p  W0 -p-1  B p-1  W 2p-3  BL 2  S p",
            "B0 -p+1  W0 -p  B 2p-4  BL 2  S 2p-2",
            "B0 -p  W0 -p-1  B p  W 2p-2  S p-2",
        ),
        "second": (
            "W p-3  S p-3",
            "B -2  W -p-1  BL 2  WL 2p-1  S p-2",
        ),
        "last but one": (
            "",
            "F p-3  B -p+1  W -2p+2  BL 2  WL 2p-1  S 2p-5",
            "F p-3  B -p+2  W -1  BL 2  S 2p-4",
            "B0 1  W0 1  B p-4  W -2p+2  BL 2  S 3p-6",
            "B -2p+5  W -1  BL 2p-4  S 2",
            "B -2  W -2p+2  BL 2  WL 2p-1  S 2p-5",
            "F0 2  B0 p+3  W0 p+3  F p-4  B -2p-1  W -2p-1  S p-2",
            "F p-3  B -p+3  S 2p-6",
            "B -1  W -1  BL 2  S 2p-4",
        ),
        "last": (
            "",
            "F p-2  B p  W 1  BL -2p+2  WL -1  S 2p-4",
            "B0 1  W0 1  F 1  B 3p-4  W 2  FL -1  BL -2p+2  WL -2p-1  S 3p-5",
            "B 1  W 2p-3  WL -2p+1  S 1",
            "F0 1  B0 1  F p-2  B p-2  BL -2p+2  WL -1  S 2p-2",
            "B0 1  W0 1  F p-2  B 2p-2  W 1  BL -2p+2  WL -2p  S 3p-5",
            "F0 1  B0 2  W0 1  F p-2  B 2p-4  BL -2p+2  WL -2p  S 3p-3",
            "F 1  B 2p-1  W 2p-1  BL -2p  WL -2p  S 2p-5",
            "F0 1  B0 p+1  W0 p+1  F p-2  BL -2p  WL -2p  S p-1",
            "B 2p-4  BL -2p+4  S 2p-4",
        ),
        "round": ("",),
    },
    one=(
        "F0 2  B0 2  W0 1  F 2p-4  B 2p-4  FL 2  BL 2  WL 1  S 4p-4",
        "F0 2  B0 2  W0 1  F 2p-4  B 2p-4  W 1  FL 2  S 4p-6",
        "F0 2  B0 1  F 2p-4  B 2p-4  W 1  FL 2  BL 2  WL 1  S 4p-5",
    ),
    as_many=(
        "F0 p+2  B0 4  W0 3  F p-2  B 4p-8  W 2p-3  S 3p-6",
        "F0 p+1  B0 2p  W0 2p  F 2p-4  FL 2  S 2p-2",
        "F0 1  B0 1  W0 1  F 2p-4  B 2p-4  FL 4  BL 2p  WL 2p-1  S 4p-6",
        "F0 1  B0 1  W0 1  F p  B 3p-3  W 2p-1  FL 2p-2  S 2p-2",
        "F0 1  B0 1  W0 1  F p-2  B p-2  FL 2p  BL 2p  WL 2p-1  S 2p-2",
        "F0 2p  B0 2p  W0 2p  F p-2  S p-2",
        "F0 2  B0 2  W0 1  F 2p-1  B 4p-6  W 2p-1  S 4p-8",
        "F0 2  B0 2  W0 1  F 2p-2  B 2p-4  BL 2p  WL 2p-1  S 4p-6",
        "F0 3  F 3p-4  B 3p-4  W 2p  S 2p-5",
        "F0 p+1  B0 2  W0 1  F p-2  B 2p-4  BL 2p  WL 2p-1  S 3p-4",
        "F0 2  B0 2  W0 1  F 2p-4  B 2p-4  FL 2  BL 2p  WL 2p-1  S 4p-4",
        "F0 p+3  B0 2p  W0 2p  F 2p-4  S 2p-4",
        "F0 p+1  B0 p+1  W0 p  F 2p-4  B 2p-4  FL 2  BL 2  WL 1  S 4p-4",
        "F0 3  B0 3  W0 3  F 3p-4  B 3p-6  W 2p-3  S 2p-4",
        "F0 4  B0 2  W0 1  F 2p-3  B 4p-6  W 2p-1  S 4p-8",
        "F0 2  B0 2  W0 1  F 2p-4  B 2p-4  FL 2p  BL 2  WL 1  S 4p-4",
    ),
)
"""Of three stages and more."""

_SIGNS = {None: 0, "": 1, "-": -1}


def counts(paths: tuple[str, ...]) -> Any:
    """Return path by path, kind of WORK by kind: how often, apart from stages and per stage."""
    import numpy as np

    found = np.zeros((len(paths), len(WORK), 2))
    for row, path in enumerate(paths):
        words = path.split()
        for name, count in zip(words[::2], words[1::2], strict=True):
            each, once = re.fullmatch(r"(?:([+-]?\d*)p)?([+-]?\d+)?", count).groups()  # type: ignore[union-attr]
            found[row, WORK.index(name)] = int(once or 0), _SIGNS[each] if each in _SIGNS else int(each)
    return found


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
    columns = np.broadcast_arrays(*passes, send_s, stages.count, m, stages.slowest_s)
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
