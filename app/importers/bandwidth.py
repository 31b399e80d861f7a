"""Bandwidth: what a collective's size and time say about it, and what a printed bandwidth must then be."""

from __future__ import annotations

import re

from estimator.cost.collectives import TRAFFIC
from estimator.scenario.units import GIB

_KINDS = (
    (r"all[\s_-]?reduce", "all-reduce"),
    (r"all[\s_-]?gather", "all-gather"),
    (r"reduce[\s_-]?scatter", "reduce-scatter"),
    (r"all[\s_-]?to[\s_-]?all", "all-to-all"),
    (r"broadcast", "broadcast"),
    (r"send|recv", "p2p"),
)


def collective_kind(text: str) -> str:
    """Name the collective that a title or a kernel's own word (``_allgather_base``) speaks of; empty for none."""
    return next((kind for pattern, kind in _KINDS if re.search(pattern, text, re.IGNORECASE)), "")


def bus_factor(kind: str, ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth: 2(n−1)/n for all-reduce, (n−1)/n for gather and scatter, else 1.

    Source: NVIDIA nccl-tests, doc/PERFORMANCE.md.
    """
    factor = 1.0 if kind in ("gather", "scatter") else TRAFFIC.get(kind, 0.0)
    return factor * (ranks - 1) / ranks if ranks > 1 and factor and kind != "p2p" else 1.0


READINGS: tuple[tuple[str, bool, float], ...] = (
    ("bandwidth-is-bus-gib", True, float(GIB)),
    ("bandwidth-is-bus-gb", True, 1e9),
    ("bandwidth-is-algorithm-gib", False, float(GIB)),
    ("bandwidth-is-algorithm-gb", False, 1e9),
)
"""What 'GB/s' may stand for: bus or algorithm bandwidth, in GiB or GB."""


def errors(kind: str, ranks: int, size_bytes: float, seconds: float, printed: float) -> dict[str, float]:
    """Return, for each reading of a printed 'GB/s', how far it is from size over time (relative)."""
    algorithm = size_bytes / seconds
    found = {}
    for code, bus, scale in READINGS:
        expected = algorithm * (bus_factor(kind, ranks) if bus else 1.0) / scale
        found[code] = abs(printed / expected - 1.0)
    return found
