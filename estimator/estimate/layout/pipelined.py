"""Pipelined: the Estimate of a list whose step runs in micro-batches, on one rank or cut into pipeline stages.

The list's own batch is one micro-batch. Every kind of stage is a list of its own, which host and streams work off as
any other; the schedule's formulas put the stages together, as for a scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estimator.communication.placement import Groups
from estimator.cost.collectives import p2p_s
from estimator.cost.efficiency import Calibrated, Efficiencies, efficiencies_for
from estimator.cost.price import price
from estimator.cost.slowest_chip import of_slowest
from estimator.estimate import explain
from estimator.estimate.estimate import Estimate, Memory, ModuleCost, roofs_of
from estimator.estimate.interval import quadrature
from estimator.estimate.layout.stages import Cut, cut, handed_bytes, kept_bytes, stage
from estimator.estimate.of_op_list import flops_of, launching, memory_of
from estimator.estimate.op_list_report import (
    assumptions_of,
    collectives_of,
    module_costs,
    op_costs,
    problems_of,
    tokens_of,
)
from estimator.estimate.passage import Passage, QueueSpent, passage
from estimator.estimate.report import Collective, OpCost, stage_messages, tied_messages
from estimator.estimate.residual import kind_of_program, known_of_host, widened
from estimator.memory.between_stages import between_stages_bytes
from estimator.memory.stage_layout import StageKind, stage_kinds
from estimator.operations.aten import kernels_of
from estimator.scenario.breakdown import PHASES, WAITING, Category, MemoryKind, Phase, complete
from estimator.scenario.hardware import Cluster, peak_flops_per_s
from estimator.scenario.op_list import NONE, Operand, OpList, Signature, Storage
from estimator.scenario.plan import FOLDED, Plan
from estimator.schedule.micro_batch import StageTimes
from estimator.schedule.schedules import Bubble, fullest_of, head_in_flight, in_flight
from estimator.schedule.step import pipeline_bubble, tied_s

Floats = NDArray[np.float64]
OverRanks = Callable[[OpList], OpList]


@dataclass(frozen=True, kw_only=True)
class _Stage:
    """One kind of stage: its list, and how that passes as it is laid out over data parallel ranks.

    ``weight_frac``: share of backward's work that goes towards weights.
    """

    kind: StageKind
    layers: tuple[int, ...]
    found: OpList
    passage: Passage
    weight_frac: float

    @property
    def spent(self) -> QueueSpent:
        """Where the seconds of one micro-batch go."""
        return self.passage.spent

    @property
    def times(self) -> StageTimes:
        """What a schedule moves around, (variants,)."""
        backward, weight_s = self.spent.all(Phase.BACKWARD), self.weight_frac * self.spent.busy[Phase.BACKWARD]
        return StageTimes(forward_s=self.spent.all(Phase.FORWARD), input_s=backward - weight_s, weight_s=weight_s)


@dataclass(frozen=True, kw_only=True)
class _Step:
    """The stages put together: what comes on top of m micro-batches of the critical one.

    ``bubble``: idle time and messages; ``added_s``: gradients of later micro-batches added; ``shown_s``: of the
    exchange that DDP makes once in a step; ``tied_s``: of a table that two stages hold; ``data``: the first stage as it
    passes with that exchange.
    """

    m: float
    critical: _Stage
    first: _Stage
    bubble: Bubble
    send_s: Floats
    added_s: float
    shown_s: Floats
    tied_s: float
    data: Passage | None

    @property
    def seconds(self) -> Floats:
        """The step, (variants,)."""
        own = self.critical.spent
        window_s = own.all(Phase.FORWARD) + own.all(Phase.BACKWARD)
        ends_s = self.first.spent.all(Phase.OPTIMIZER) + self.shown_s + self.tied_s
        return np.asarray(self.m * window_s + self.added_s + self.bubble.idle_s + self.bubble.send_s + ends_s)

    @property
    def phases_s(self) -> dict[str, float]:
        """Seconds by phase; they add to the step."""
        own, last = self.critical.spent, self.first.spent
        both = (Phase.FORWARD, Phase.BACKWARD)
        shows = self.shown_s + self.bubble.send_s + self.tied_s + last.exposed[Phase.OPTIMIZER]
        found = {
            Phase.FORWARD: self.m * own.busy[Phase.FORWARD],
            Phase.BACKWARD: self.m * own.busy[Phase.BACKWARD] + self.added_s,
            Phase.OPTIMIZER: last.busy[Phase.OPTIMIZER],
            Phase.EXPOSED_COMMUNICATION: self.m * sum((own.exposed[phase] for phase in both), start=0.0) + shows,
            Phase.BUBBLE: self.bubble.idle_s,
            Phase.HOST_WAIT: sum(self.waits_s.values()),
        }
        return complete({name: _first(value) for name, value in found.items()}, PHASES)

    @property
    def waits_s(self) -> dict[str, float]:
        """Waits for the host by phase."""
        own, last = self.critical.spent, self.first.spent
        return {
            Phase.FORWARD: self.m * _first(own.waits[Phase.FORWARD]),
            Phase.BACKWARD: self.m * _first(own.waits[Phase.BACKWARD]),
            Phase.OPTIMIZER: _first(last.waits[Phase.OPTIMIZER]),
        }

    @property
    def breakdown_s(self) -> dict[str, float]:
        """Seconds by category; they add to the step."""
        phases = self.phases_s
        work = self.critical.spent.categories_s((Phase.FORWARD, Phase.BACKWARD))
        found = {category: self.m * seconds for category, seconds in work.items()}
        found[Category.ELEMENTWISE] += self.added_s
        found[Category.OPTIMIZER] += phases[Phase.OPTIMIZER]
        for category, phase in WAITING.items():
            found[category] += phases[phase]
        return found


def estimate_pipelined(
    found: OpList, plan: Plan, micro_batches: int, layout: OverRanks, cluster: Cluster, groups: Groups,
    calibration: Calibrated | None = None, *, interval: bool = True,
) -> Estimate:  # fmt: skip
    """Predict the step of ``micro_batches`` of the list's own batch on ``plan.pp`` stages.

    ``layout``: what data parallel ranks make of a stage's list; what it sends once in a step (DDP) runs beside the last
    micro-batch's backward. Raises InputProblems for a list that has no layers to cut between.
    """
    chip, m, ranks = cluster.rank_chip, float(micro_batches), plan.dp * plan.tp * plan.pp
    e = of_slowest(efficiencies_for(chip, calibration), ranks, cluster.chips_per_node)
    interval = interval and not e.lower_bound
    whole = cut(found, "plan.pp" if plan.pp > 1 else "micro_batches")
    stages = _stages(whole, plan, layout, cluster, e, interval=interval)
    step = _step(whole, stages, plan, m, layout, cluster, groups, e, interval=interval)
    seconds = step.seconds
    one_s = _first(seconds)
    waits = sum(step.waits_s.values()) / max(one_s, 1e-30)
    kind = kind_of_program(chip.name, ranks, waits, known=known_of_host(e, chip))
    low, high = (one_s, one_s)
    if interval and one_s > 0:
        low, high = widened(one_s, quadrature(seconds), kind)
    held = _memory(whole, stages, plan, micro_batches, layout, cluster, e)
    model_flops, executed, precision = flops_of(passage(found, cluster, e, interval=False).priced)
    copies = m * plan.dp * plan.tp
    peak = (peak_flops_per_s(chip, precision) or chip.fp32_flops_per_s) * ranks
    tokens = tokens_of(next(one for one in reversed(stages) if one.kind.head).passage.priced) * m * plan.dp
    spent = max(one_s, 1e-30)
    priced = step.critical.passage.priced
    collectives = _collectives(step, whole, plan)
    outside_s = _first(step.shown_s) + step.tied_s + _first(step.bubble.send_s)
    launched = launching(step.critical.passage, m, outside_s)
    return Estimate(
        step_time_s=one_s,
        interval_s=(min(low, one_s), max(high, one_s)),
        phases_s=step.phases_s,
        host_wait_by_phase_s=step.waits_s,
        breakdown_s=step.breakdown_s,
        tokens_per_s=tokens / spent,
        tokens_per_s_per_chip=tokens / spent / ranks,
        mfu=model_flops * copies / (spent * peak),
        hfu=executed * copies / (spent * peak),
        memory=held,
        ops=tuple(_often(row, m) for row in op_costs(priced)),
        collectives=collectives,
        limits=explain.limits(
            spent, step.breakdown_s, collectives, held.peak_bytes, held.reserved_bytes, held.capacity_bytes, launched
        ),
        assumptions=(
            *assumptions_of(priced, e, one_s, cluster, ranks),
            *_said(plan, micro_batches, whole, step.critical),
            *explain.passed_over_words(chip, calibration),
        ),
        problems=problems_of(priced, held, one_s),
        parameters=found.parameters,
        model_flops=model_flops * copies,
        roofs=roofs_of(chip),
        micro_batches=micro_batches,
        chips=ranks,
        efficiencies=e.name,
        kind=kind,
        modules=tuple(_often_in(one, m) for one in module_costs(priced, step.critical.passage.queue)),
        binds=explain.binding(step.breakdown_s, launched)[0],
    )  # fmt: skip


def _stages(
    whole: Cut, plan: Plan, layout: OverRanks, cluster: Cluster, e: Efficiencies, *, interval: bool
) -> list[_Stage]:  # fmt: skip
    """The only stage, or the first, a middle and the last one."""
    folded = plan.schedule in FOLDED
    count = len(whole.layers)
    found = []
    for kind in stage_kinds((count,), (False,), stages=plan.pp, virtual_stages=_chunks(plan), folded=folded):
        layers = _layers_of(kind, count, folded=folded)
        plain = stage(whole, layers, embedding=kind.embedding, head=kind.head)
        one = passage(plain if plan.sharding == "ddp" else layout(plain), cluster, e, interval=interval)
        found.append(
            _Stage(kind=kind, layers=layers, found=plain, passage=one, weight_frac=_weight_frac(plain, cluster, e))
        )
    return found


def _layers_of(kind: StageKind, count: int, *, folded: bool) -> tuple[int, ...]:
    """Layers that stand for a stage's own, all being alike."""
    own = round(float(kind.layers))
    if kind.name == "only":
        return tuple(range(count))
    if kind.name == "last":
        return tuple(range(count - own, count))
    if kind.name == "middle":
        begin = min(own, count - own)
        return tuple(range(begin, begin + own))
    ahead = (own + 1) // 2 if folded else own
    return (*range(ahead), *range(count - (own - ahead), count))


def _chunks(plan: Plan) -> int:
    return 2 if plan.schedule in FOLDED else plan.virtual_stages


def _weight_frac(found: OpList, cluster: Cluster, e: Efficiencies) -> float:
    """Share of backward's kernels that make gradients of parameters: where one is born, and what is cast to it."""
    one = passage(found, cluster, e, interval=False)
    device = one.times.device[0]
    back = [
        at for at, name in enumerate(one.priced.phases) if name == Phase.BACKWARD and found.calls[at].kind == "kernel"
    ]
    born = {each.born for each in found.storages if each.kind == MemoryKind.GRADIENTS and each.born != NONE}
    towards = set[int]()
    for before, at in zip([NONE, *back], back, strict=False):
        if at in born:
            towards.add(at)
            s = found.of(found.calls[at])
            if s.op == "aten::_to_copy" and before != NONE:
                towards.add(before)
    every = float(device[back].sum())
    return float(device[sorted(towards)].sum()) / every if every else 0.0


def _step(
    whole: Cut, stages: Sequence[_Stage], plan: Plan, m: float, layout: OverRanks, cluster: Cluster, groups: Groups,
    e: Efficiencies, *, interval: bool,
) -> _Step:  # fmt: skip
    """Put the stages together."""
    first = stages[0]
    critical = max(stages, key=lambda one: _first(one.times.seconds))
    send_s = np.asarray(p2p_s(whole.boundary_bytes, groups.send_across, cluster, e), dtype=float)
    bubble = Bubble(idle_s=0.0, send_s=0.0)
    if plan.pp > 1:
        bubble = pipeline_bubble(
            plan.schedule, [one.times for one in stages], [one.kind for one in stages], plan.pp, m, _chunks(plan),
            send_s, one_stream=True,
        )  # fmt: skip
    tied = whole.tied_bytes if plan.pp > 1 and not first.kind.head else 0.0
    # Data parallel ranks sum their gradients beside the last micro-batch's backward, the first stage as the last.
    data = (
        passage(layout(first.found), cluster, e, interval=interval) if plan.sharding == "ddp" and plan.dp > 1 else None
    )
    shown_s = np.zeros_like(first.passage.queue.seconds)
    if data is not None:
        zero = np.zeros_like(shown_s)
        shown_s = sum(data.queue.exposed_s.values(), start=zero) - sum(
            first.passage.queue.exposed_s.values(), start=zero
        )
    return _Step(
        m=m, critical=critical, first=first, bubble=bubble, send_s=send_s, added_s=(m - 1) * _adding_s(critical, e),
        shown_s=shown_s, tied_s=_first(tied_s(tied, groups, cluster, e)) if tied else 0.0, data=data,
    )  # fmt: skip


def _adding_s(one: _Stage, e: Efficiencies) -> float:
    """Seconds in which one more micro-batch's gradients are added to those that are there."""
    total = 0.0
    for each in one.passage.priced.found.storages:
        if each.kind == MemoryKind.GRADIENTS and each.born != NONE:
            gradient = Operand(shape=(each.bytes // 4,), dtype="float32")
            s = Signature(op="aten::add_.Tensor", inputs=(gradient, gradient), outputs=(gradient,))
            total += sum(float(price(op, one.passage.cluster.rank_chip, e).seconds * op.count) for op in kernels_of(s))
    return total


def _memory(
    whole: Cut, stages: Sequence[_Stage], plan: Plan, micro_batches: int, layout: OverRanks, cluster: Cluster,
    e: Efficiencies,
) -> Memory:  # fmt: skip
    """The fullest stage's memory and every stage's, with as many micro-batches in flight as its schedule holds."""
    found: list[Memory] = []
    alone = plan.pp == 1
    places = [
        (int(place), one)
        for one in stages
        if one.kind.name != "middle" or plan.pp > 2  # two stages have none there
        for place in dict.fromkeys(fullest_of(one.kind.name, plan.schedule, plan.pp))
    ]
    for place, one in places:
        flying = 1.0 if alone else float(in_flight(plan.schedule, place, plan.pp, micro_batches, _chunks(plan)))
        at_head = float(head_in_flight(plan.schedule, flying, plan.pp, _chunks(plan)))
        inside, head = kept_bytes(whole, one.layers, embedding=one.kind.embedding, head=one.kind.head)
        more = (flying - 1) * inside + (at_head - 1) * head
        buffers = 0.0
        if not alone:
            outputs, waiting = between_stages_bytes(
                whole.boundary_bytes, in_flight=flying, micro_batches=micro_batches, chunks=_chunks(plan),
                first=one.kind.embedding, last=one.kind.head,
            )  # fmt: skip
            buffers = float(waiting)
            more += float(outputs) + (at_head * handed_bytes(whole) if one.kind.head else 0.0)
        laid = layout(one.found) if plan.sharding == "ddp" else one.passage.priced.found
        # While all micro-batches are in flight, none has left gradients.
        kept = _with(laid, more, buffers, accumulates=micro_batches > flying)
        held = memory_of(passage(kept, cluster, e, interval=False))
        row = (
            replace(held.stages[0], stage=place, layers=float(one.kind.layers), in_flight=flying)
            if held.stages
            else None
        )
        found.append(replace(held, stages=(row,) if row else ()))
    fullest = max(found, key=lambda one: one.peak_bytes)
    return replace(fullest, stages=tuple(row for one in found for row in one.stages), curve=())


def _with(found: OpList, more_bytes: float, buffer_bytes: float, *, accumulates: bool) -> OpList:
    """The list with what earlier micro-batches have left: activations until the optimizer runs, gradients; buffers."""
    ends = next((at for at, call in enumerate(found.calls) if call.phase == Phase.OPTIMIZER), len(found.calls))
    storages = list(found.storages)
    if accumulates:
        storages = [each for one in storages for each in _accumulated(one)]
    if more_bytes > 0:
        storages.append(Storage(bytes=int(more_bytes), born=NONE, died=ends, kind=MemoryKind.ACTIVATIONS))
    if buffer_bytes > 0:
        storages.append(Storage(bytes=int(buffer_bytes), born=NONE, died=NONE, kind=MemoryKind.COMMUNICATION))
    return replace(found, storages=tuple(storages))


def _accumulated(one: Storage) -> list[Storage]:
    """A gradient that is there from the start, and the fresh one that is added to it."""
    if one.kind != MemoryKind.GRADIENTS:
        return [one]
    if one.born == NONE:
        return []  # of the step before
    fresh = replace(one, kind=MemoryKind.TEMPORARIES, died=one.born + 1, weight=NONE)
    return [replace(one, born=NONE), fresh]


def _collectives(step: _Step, whole: Cut, plan: Plan) -> tuple[Collective, ...]:
    """Those of the critical stage's micro-batches, of the data ranks once in a step, and the stages' messages."""
    rows = [
        one if one.phase == Phase.OPTIMIZER else replace(one, count=one.count * step.m, seconds=one.seconds * step.m,
                                                         exposed_s=one.exposed_s * step.m)
        for one in collectives_of(step.critical.passage.priced, step.critical.passage.queue)
    ]  # fmt: skip
    if step.data is not None:
        known = {(one.name, one.phase, one.bytes) for one in rows}
        made = collectives_of(step.data.priced, step.data.queue)
        rows += [one for one in made if (one.name, one.phase, one.bytes) not in known]
    rows += stage_messages(plan.pp, whole.boundary_bytes, _first(step.bubble.send_s), _first(step.send_s))
    rows += tied_messages(whole.tied_bytes, step.tied_s)
    return tuple(rows)


def _often(row: OpCost, m: float) -> OpCost:
    """A row of one micro-batch as often as it runs in a step."""
    if row.phase == Phase.OPTIMIZER:
        return row
    names = ("count", "flops", "bytes", "launches", "saved_bytes", "seconds")
    return replace(row, **{name: getattr(row, name) * m for name in names})


def _often_in(one: ModuleCost, m: float) -> ModuleCost:
    """A module's cost of one micro-batch as often as it runs in a step."""
    phases_s = {phase: s * (1.0 if phase == Phase.OPTIMIZER else m) for phase, s in one.phases_s.items()}
    often = m if one.phases_s[Phase.OPTIMIZER] < one.seconds else 1.0
    return replace(one, phases_s=phases_s, seconds=sum(phases_s.values()), launches=one.launches * often,
                   flops=one.flops * often, bytes=one.bytes * often)  # fmt: skip


def _said(plan: Plan, micro_batches: int, whole: Cut, critical: _Stage) -> list[str]:
    said = [f"The list's batch is one of {micro_batches} micro-batches of a step."]
    if plan.pp > 1:
        said.append(
            f"{plan.pp} stages of {len(whole.layers)} layers ({whole.layers[0]} to {whole.layers[-1]}) under"
            f" {plan.schedule}; ops and modules are of the slowest, with {float(critical.kind.layers):g} of them."
        )
    return said


def _first(value: object) -> float:
    return float(np.asarray(value, dtype=float).reshape(-1)[0])
