"""Collectives: link, start and rank constants from payloads and seconds, inside one node."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from estimator.calibration.fit import FEWEST, Fitted, searched
from estimator.cost.collectives import TRAFFIC, Group, collective_s
from estimator.cost.efficiency import Efficiencies, Range
from estimator.scenario import catalog
from estimator.scenario.hardware import Cluster
from estimator.scenario.measurement import MeasuredCollective, Measurement
from estimator.scenario.units import counted

LARGE_BYTES = 64 * 2**20
SMALL_BYTES = 64 * 2**10
OF_COLLECTIVES = ("link_frac", "collective_start_s", "collective_rank_s")
"""What collectives determine."""


@dataclass(frozen=True, kw_only=True)
class Exchanges:
    """Collectives within a node of one device; ``small`` are those whose time a link's start makes.

    Of runs in Python, which ask for one after another, small ones take as long as their host.
    """

    cluster: Cluster
    measured: tuple[MeasuredCollective, ...]
    small: tuple[MeasuredCollective, ...]


def collective_points(measurements: Sequence[Measurement], chip: str) -> Exchanges:
    """What the measurements say of collectives of groups that fit into one node."""
    one = catalog.chip(chip)
    cluster = Cluster(
        chip=one, chips_per_node=one.chips_per_node, link=catalog.link(one.link), network=catalog.link(one.network)
    )
    found = [
        (measurement.origin.kind == "run", point)
        for measurement in measurements
        for point in measurement.collectives
        if point.kind in TRAFFIC and 1 < point.ranks <= one.chips_per_node and point.seconds > 0
    ]
    small = (
        point for by_python, point in found if not by_python and point.bytes <= SMALL_BYTES and point.kind != "p2p"
    )
    return Exchanges(cluster=cluster, measured=tuple(point for _, point in found), small=tuple(small))


def fit_collectives(given: Exchanges, e: Efficiencies) -> tuple[dict[str, Fitted], dict[str, str]]:
    """Bandwidth from large payloads; start, and start per rank, from small ones; reasons where there are too few."""
    large = [one for one in given.measured if one.bytes >= LARGE_BYTES and one.kind != "p2p"]
    small = list(given.small)
    found: dict[str, Fitted] = {}
    missing: dict[str, str] = {}

    def seconds(one: MeasuredCollective, e: Efficiencies) -> float:
        group = Group(ranks=one.ranks, ranks_per_node=one.ranks)
        return float(collective_s(one.kind, one.bytes, group, given.cluster, e))

    def error(points: list[MeasuredCollective], e: Efficiencies) -> float:
        return math.fsum(abs(math.log(seconds(one, e) / one.seconds)) for one in points) / len(points)

    def note(name: str, points: list[MeasuredCollective], e: Efficiencies) -> Efficiencies:
        value = searched(lambda value: error(points, replace(e, **{name: value})), getattr(e, name))  # type: ignore[arg-type]
        e = replace(e, **{name: value})  # type: ignore[arg-type]
        residual = statistics.median(abs(seconds(one, e) / one.seconds - 1) for one in points)
        spread = 1 + 1.5 * max(residual, 0.01)
        source = f"{counted(len(points), 'collective')} of {', '.join(sorted({one.kind for one in points}))}"
        found[name] = Fitted(
            range=Range(
                value=value, low=value / spread, high=value * spread, unit=e.ranges[name].unit, source=source
            ),
            points=len(points),
            residual_frac=residual,
        )  # fmt: skip
        return e

    if len(large) >= FEWEST:
        e = note("link_frac", large, e)
    else:
        missing["link_frac"] = f"{FEWEST} collectives of at least 64 MiB within a node are needed, not {len(large)}"
    if len(small) >= FEWEST:
        e = note("collective_start_s", small, e)
    else:
        kind = "collectives of at most 64 KiB by nccl-tests, not by Python,"
        missing["collective_start_s"] = f"{FEWEST} {kind} are needed, not {len(small)}"
    if len({one.ranks for one in small}) > 1:
        note("collective_rank_s", small, e)
    else:
        missing["collective_rank_s"] = "small collectives of two numbers of ranks are needed, likewise"
    return found, missing
