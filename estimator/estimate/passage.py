"""Passage: how host and streams work an op list off, and where the step's seconds go by phase and category."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from estimator.cost.efficiency import Efficiencies
from estimator.estimate.call_times import times_of
from estimator.estimate.recorded import Recorded, recorded
from estimator.scenario.breakdown import CATEGORIES, PHASES, WAITING, WORK_PHASES, Category, Phase, complete
from estimator.scenario.hardware import Cluster
from estimator.scenario.op_list import OpList
from estimator.schedule.queue import DEFAULT_STREAM, KERNEL, Order, Queue, Times, order_of, queued

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class QueueSpent:
    """Seconds of a passage, (variants,), that add to the queue's.

    ``work``: of kernels and of what stands beside them, by phase and category; by phase ``waits``: for the host,
    ``exposed``: for communication.
    """

    work: Mapping[tuple[str, str], Floats]
    waits: Mapping[str, Floats]
    exposed: Mapping[str, Floats]

    @cached_property
    def busy(self) -> dict[str, Floats]:
        """Work by phase."""
        found = {phase: np.zeros_like(self.waits[phase]) for phase in WORK_PHASES}
        for (phase, _), seconds in self.work.items():
            found[phase] = found[phase] + seconds
        return found

    def all(self, phase: str) -> Floats:
        """Everything that happens in a phase."""
        return self.busy[phase] + self.waits[phase] + self.exposed[phase]

    def categories_s(self, phases: Iterable[str]) -> dict[str, float]:
        """Work of these phases by category, without variants."""
        found = dict.fromkeys(CATEGORIES, 0.0)
        for (phase, category), seconds in self.work.items():
            if phase in phases:
                found[category] += float(seconds[0])
        return found

    @property
    def waits_s(self) -> dict[str, float]:
        """Waits for the host by phase, without variants."""
        return {phase: float(seconds[0]) for phase, seconds in self.waits.items()}

    @property
    def phases_s(self) -> dict[str, float]:
        """The step by phase, without variants."""
        found = {phase: float(seconds[0]) for phase, seconds in self.busy.items()}
        found[Phase.EXPOSED_COMMUNICATION] = sum(float(seconds[0]) for seconds in self.exposed.values())
        found[Phase.HOST_WAIT] = sum(self.waits_s.values())
        return complete(found, PHASES)

    @property
    def breakdown_s(self) -> dict[str, float]:
        """The step by category, without variants."""
        phases = self.phases_s
        found = self.categories_s(WORK_PHASES)
        for category, phase in WAITING.items():
            found[category] += phases[phase]
        return found


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A list on its way to an Estimate: its calls priced, and how host and streams worked them off."""

    cluster: Cluster
    e: Efficiencies
    priced: Recorded
    order: Order
    times: Times
    queue: Queue

    @cached_property
    def spent(self) -> QueueSpent:
        """Where the queue's seconds go."""
        return _spent(self)


def passage(found: OpList, cluster: Cluster, e: Efficiencies, *, interval: bool) -> Passage:
    """Price a list's calls and let host and streams work them off, with ``interval`` under its variants, too."""
    priced = recorded(found, cluster, e, interval=interval)
    order = order_of(found.calls, priced.phases)
    times = times_of(priced, e, interval=interval)
    return Passage(cluster=cluster, e=e, priced=priced, order=order, times=times,
                   queue=queued(order, times, follows_on=found.follows_on))  # fmt: skip


def _spent(one: Passage) -> QueueSpent:
    """Add up the kernels of the default stream, and what the queue found between and beside them."""
    order, queue, priced, device = one.order, one.queue, one.priced, one.times.device
    zero = np.zeros(device.shape[0])
    names = list(dict.fromkeys(priced.phases))
    work: dict[tuple[str, str], Floats] = {}

    def book(phase: str, category: str, seconds: Floats) -> None:
        key = (phase, Category.OPTIMIZER if phase == Phase.OPTIMIZER else category)
        work[key] = work.get(key, zero) + seconds

    computes = np.flatnonzero((order.kind == KERNEL) & (order.stream == DEFAULT_STREAM))
    of_work = np.array([CATEGORIES.index(each.category) for each in priced.work], dtype=np.int64)
    alike = order.phase[computes] * len(CATEGORIES) + of_work[np.array(priced.of_call, dtype=np.int64)[computes]]
    for key in np.unique(alike).tolist():
        phase, category = divmod(key, len(CATEGORIES))
        book(names[phase], CATEGORIES[category], device[:, computes[alike == key]].sum(axis=1))
    for index, seconds in queue.beside_s.items():
        book(priced.phases[index], priced.work_of(index).category, seconds)
    waits, exposed = (dict.fromkeys(WORK_PHASES, zero) for _ in range(2))
    for index, seconds in queue.waits_s.items():
        waits[names[index]] = waits[names[index]] + seconds
    for index, seconds in queue.exposed_s.items():
        exposed[priced.phases[index]] = exposed[priced.phases[index]] + seconds
    return QueueSpent(work=work, waits=waits, exposed=exposed)
