"""Recomputing: what recomputation takes of a host that binds, in seconds and in words."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.cost.efficiency import Efficiencies
from estimator.cost.host import (
    launching_s,
    plain_s,
    running_again_s,
    runs_again_apart,
    slowest_rank,
    waiting_ranks,
)
from estimator.estimate.assemble import Rank
from estimator.memory.stage_layout import StageKind
from estimator.scenario.scenario import Scenario
from estimator.scenario.units import counted, seconds
from estimator.schedule.micro_batch import Pass


@dataclass(frozen=True, kw_only=True)
class Recomputing:
    """What a micro-batch takes the slowest rank's host: ``launches`` run again, ``regions`` that are checkpointed."""

    launches: float = 0.0
    launching_s: float = 0.0
    regions: float = 0.0
    regions_s: float = 0.0


def recomputing(scenario: Scenario, rank: Rank, kind: StageKind, e: Efficiencies) -> Recomputing:
    """Add up what the layers of a stage run again, and their checkpointed regions (estimator.cost.host)."""
    training = scenario.training
    ranks = waiting_ranks(training, scenario.cluster.chips, scenario.plan.pp)
    slower = float(slowest_rank(training, ranks, e))
    launches = again_s = regions = regions_s = 0.0
    for work, times in zip(rank.blocks, kind.blocks, strict=True):
        often = float(times)
        own, plain = work.launches["recomputed"], work.plain.get("recomputed", 0.0)
        views = work.views.get("recomputed", 0.0)
        launches += often * float(own + plain)
        again_s += often * float(launching_s(training, "forward", own, views, e) + plain_s("forward", plain, e))
        regions += often * float(work.regions)
        regions_s += often * float(sum(running_again_s(training, work.regions, work.packed, own, views, e)))
    return Recomputing(launches=launches, launching_s=slower * again_s, regions=regions, regions_s=slower * regions_s)


def runs_again_words(scenario: Scenario, one: Pass) -> tuple[str, ...]:
    """Say that zero-bubble stages run a recomputed block again for each of its weights, and what that takes.

    ``one``: a micro-batch on the slowest stage.
    """
    part, times = one.part, scenario.micro_batches
    if not runs_again_apart(scenario.plan, scenario.training) or not part.again_s:
        return ()
    return (
        f"PyTorch's {scenario.plan.schedule} stages start autograd anew for each product and norm with weights, and a"
        " recomputed block runs again whole each time, all of which is kept until the last has its gradient:"
        f" {seconds(float(times * part.again_s))} of a step's device time on the slowest stage, and"
        f" {seconds(float(times * part.host_again_s))} of its host's. Under 1f1b it runs again once; selective"
        " recomputation does so here, too.",
    )


def recomputing_words(found: Recomputing, waits_s: float) -> tuple[str, ...]:
    """Say what recomputation takes of a host that binds; nothing where none is.

    ``waits_s``: what the device waits in a micro-batch, which is the most that its host's time can lengthen.
    """
    whole_s = found.launching_s + found.regions_s
    if whole_s <= 0.0:
        return ()
    parts = f"{seconds(found.launching_s)} launching {found.launches:,.0f} kernels again with the ops around them"
    if found.regions_s > 0.0:
        parts += (
            f", {seconds(found.regions_s)} entering {counted(round(found.regions), 'checkpointed region')} and keeping"
            " what their ops save"
        )
    longer_s = min(whole_s, waits_s)
    return (
        f"Of the host's time, {seconds(whole_s)} a micro-batch are recomputation: {parts}. The device waits"
        f" {seconds(waits_s)} of a micro-batch, so that this lengthens it by up to {seconds(longer_s)} beside what the"
        " device computes again; where memory allows, recompute less.",
    )
