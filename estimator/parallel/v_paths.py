"""Paths through the order of zero-bubble V: how often each of its longest passes through every kind of work.

``B0 2p-1`` is 2p − 1 passes of B on the first rank: F, B and W of one chunk are counted on the first rank (0), on those
between, which are alike, and on the last (L); S counts messages. While the pipeline is full a path stays on one rank
and takes all its 2m passes of each kind. How it comes to that rank and how it goes on from there adds to them, and
takes away what the rank does meanwhile. These are critical paths that the event simulation (``estimator.timeline``)
took for random seconds, 2 to 12 stages; tests/properties/test_zero_bubble_v.py shows that none is longer than a step.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

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
