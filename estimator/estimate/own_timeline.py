"""Own timeline: when the calls of an op list run, on the host that launches them and on the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from estimator.cost.efficiency import Calibrated
from estimator.estimate.of_op_list import cluster_for, efficiencies_of, memory_of
from estimator.estimate.passage import passage
from estimator.scenario.breakdown import Category, Phase
from estimator.scenario.op_list import OpList
from estimator.schedule.queue import COLLECTIVE, KERNEL, moments


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """Something that runs, in seconds from the begin of the step; ``kind``: its category."""

    kind: str
    name: str
    phase: str
    start_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnStep:
    """The predicted step of a list: what runs, and (seconds, bytes held), none where it has no storages."""

    total_s: float
    ran: list[Ran]
    memory: tuple[tuple[float, float], ...]
    capacity_bytes: float


def own_step(found: OpList, chip: str = "", calibration: Calibrated | None = None) -> OwnStep:
    """Lay the predicted step of a list out over time; raise InputProblems where its chip is not known."""
    cluster = cluster_for(found, chip)
    one = passage(found, cluster, efficiencies_of(found, cluster, calibration), interval=False)
    when = moments(one.order, one.times, follows_on=found.follows_on)
    columns = (when.begins_s, when.ends_s, when.called_s, when.launched_s)

    def each() -> Iterator[Ran]:
        for at, (begin_s, end_s, called_s, launched_s) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            if one.order.kind[at] not in (KERNEL, COLLECTIVE):
                continue
            phase, category = one.priced.phases[at], one.priced.work_of(at).category
            name = found.of(found.calls[at]).op
            computes = phase == Phase.OPTIMIZER and category != Category.COMMUNICATION
            yield Ran(kind=Category.HOST, name=name, phase=phase, start_s=called_s, end_s=launched_s)
            kind = Category.OPTIMIZER if computes else category
            yield Ran(kind=kind, name=name, phase=phase, start_s=begin_s, end_s=end_s)

    held = memory_of(one)
    return OwnStep(
        total_s=float(one.queue.seconds[0]), ran=list(each()), memory=held.curve, capacity_bytes=held.capacity_bytes
    )
