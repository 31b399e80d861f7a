"""Of an op list: from what a program or profile did to the same Estimate that a scenario ends in."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter

import numpy as np

from estimator.cost.efficiency import Calibrated, Efficiencies, efficiencies_for
from estimator.cost.slowest_chip import of_slowest
from estimator.estimate import explain
from estimator.estimate.estimate import Estimate, Memory, roofs_of
from estimator.estimate.interval import quadrature
from estimator.estimate.kept import kept
from estimator.estimate.op_list_report import (
    assumptions_of,
    collectives_of,
    module_costs,
    op_costs,
    problems_of,
    tokens_of,
)
from estimator.estimate.passage import Passage, passage
from estimator.estimate.recorded import Recorded
from estimator.estimate.report import MemoryOfStage
from estimator.estimate.residual import kind_of_program, known_of_host, widened
from estimator.memory.timeline import MemoryTimeline, timeline
from estimator.operations.aten import workspace_bytes_of
from estimator.scenario import catalog
from estimator.scenario.aten_cost import plain
from estimator.scenario.breakdown import MEMORY_KINDS, MemoryKind, Phase, complete
from estimator.scenario.hardware import Chip, Cluster, Link, peak_flops_per_s
from estimator.scenario.op_list import NONE, OpList, Storage
from estimator.scenario.problems import InputProblems, Problem
from estimator.schedule.queue import Order, Queue

MOST_POINTS = 600
"""Points of the memory curve that an estimate keeps."""


def cluster_for(found: OpList, chip: str | Chip = "", link: str | Link = "") -> Cluster:
    """Nodes of the chip that a list was made for, or of ``chip``, as many as its ranks need, joined as is usual.

    ``link``: what joins the chips of a node instead. Either is a name of the catalogue, or one of one's own. Raises
    InputProblems where the catalogue has no such chip or link.
    """
    if not chip and not found.chip:
        remedy = "Name the chip that it is to be priced on, a key of the catalogue."
        raise InputProblems([Problem(field="chip", message="is not said by the op list", remedy=remedy)])
    one = chip if isinstance(chip, Chip) else catalog.chip(chip or found.chip)
    per_node = max(found.world_size, 1) if one.kind == "cpu" else one.chips_per_node  # ranks of a CPU share one host
    nodes = -(-found.world_size // per_node)
    return Cluster(
        chip=one,
        chips_per_node=per_node,
        nodes=nodes,
        link=link if isinstance(link, Link) else catalog.link(link or one.link),
        network=catalog.link(one.network),
    )


def efficiencies_of(found: OpList, cluster: Cluster, calibration: Calibrated | None = None) -> Efficiencies:
    """Return the efficiencies that all of a list's prediction is made with: of the slowest chip of its ranks."""
    return of_slowest(
        efficiencies_for(cluster.rank_chip, calibration), max(found.world_size, 1), cluster.chips_per_node
    )


def estimate_op_list(
    found: OpList, cluster: Cluster, calibration: Calibrated | None = None, *, interval: bool = True
) -> Estimate:
    """Predict the step of an op list on a cluster's chips, one rank's as every rank's.

    operations and cost: the kernels of each distinct call, priced. schedule: host, streams and collectives as a queue.
    memory: the lives of storages under the allocator's rules. ``calibration`` replaces the efficiencies of the chip's
    family.
    """
    chip = cluster.rank_chip
    e = efficiencies_of(found, cluster, calibration)
    interval = interval and not e.lower_bound
    one = passage(found, cluster, e, interval=interval)
    priced, queue, spent = one.priced, one.queue, one.spent
    seconds = float(queue.seconds[0])
    waits = sum(spent.waits_s.values()) / max(seconds, 1e-30)
    kind = kind_of_program(chip.name, max(found.world_size, 1), waits, known=known_of_host(e, chip))
    low, high = (seconds, seconds)
    if interval and seconds > 0:
        low, high = widened(seconds, quadrature(np.asarray(queue.seconds)), kind)
    collectives = collectives_of(priced, queue)
    held = memory_of(one)
    launched = launching(one)
    model_flops, executed, precision = flops_of(priced)
    peak = peak_flops_per_s(chip, precision) or chip.fp32_flops_per_s
    chips = max(found.world_size, 1)
    tokens = tokens_of(priced)
    step_s = max(seconds, 1e-30)
    return Estimate(
        step_time_s=seconds,
        interval_s=(min(low, seconds), max(high, seconds)),
        phases_s=spent.phases_s,
        host_wait_by_phase_s=spent.waits_s,
        breakdown_s=spent.breakdown_s,
        tokens_per_s=tokens * chips / step_s,
        tokens_per_s_per_chip=tokens / step_s,
        mfu=model_flops / (step_s * peak),
        hfu=executed / (step_s * peak),
        memory=held,
        ops=op_costs(priced),
        collectives=collectives,
        limits=explain.limits(
            step_s, spent.breakdown_s, collectives, held.peak_bytes, held.reserved_bytes, held.capacity_bytes, launched
        ),
        assumptions=(
            *assumptions_of(priced, e, seconds, cluster, chips),
            *explain.passed_over_words(chip, calibration),
        ),
        problems=problems_of(priced, held, seconds),
        parameters=found.parameters,
        model_flops=model_flops * chips,
        roofs=roofs_of(chip),
        micro_batches=1,
        chips=chips,
        efficiencies=e.name,
        kind=kind,
        modules=module_costs(priced, queue),
        binds=explain.binding(spent.breakdown_s, launched)[0],
    )


def launching(one: Passage, micro_batches: float = 1.0, communication_s: float = 0.0) -> explain.Launching:
    """Say what the host takes to launch a list's calls, so many times, where that is what binds its queue."""
    host_s = float(one.times.host[0].sum())
    waits_s = sum(one.spent.waits_s.values())
    if not explain.is_paced(host_s, float(one.queue.seconds[0]) - waits_s, waits_s):
        return explain.Launching()
    return explain.Launching(seconds=micro_batches * host_s, communication_s=communication_s)


def flops_of(priced: Recorded) -> tuple[float, float, str]:
    """FLOPs of products and attention of one rank: of the model, executed, and the precision that most of them have.

    The model's: the full square, nothing recomputed; attention's backward twice its forward, without the scores that
    it multiplies again.
    """
    model, executed = 0.0, 0.0
    by_precision: dict[str, float] = {}
    times = Counter(
        (at, call.recomputed) for at, call in zip(priced.of_call, priced.found.calls, strict=True) if at >= 0
    )
    for (at, again), count in times.items():
        for one in priced.work[at].kernels:
            op = one.op
            if op.kind not in ("gemm", "attention"):
                continue
            every = count * float(op.count)
            executed += every * float(one.executed_flops)
            by_precision[op.precision] = by_precision.get(op.precision, 0.0) + every * float(op.flops)
            if not again:
                scores = 2.0 * float(op.batch) * float(op.m) * float(op.n) * float(op.k)
                redone = scores if op.kind == "attention" and op.phase == Phase.BACKWARD else 0.0
                model += every * (float(op.flops) - redone)
    precision = max(by_precision, key=by_precision.__getitem__, default="fp32")
    return model, executed, precision


def memory_of(one: Passage) -> Memory:
    """The storages' peak, without what a compiler does not write; nothing where the list has none."""
    priced, e = one.priced, one.e
    found, capacity = priced.found, one.cluster.rank_chip.memory_bytes
    if not found.storages:
        return Memory(peak_bytes=0.0, reserved_bytes=0.0, capacity_bytes=capacity, fits=True, moment="",
                      by_kind=complete({}, MEMORY_KINDS), stages=())  # fmt: skip
    listed = any(one.kind == MemoryKind.FRAMEWORK for one in found.storages)
    storages = kept(found, priced.phases, priced.inner, priced.flow, ends=priced.ends, same=priced.same)
    segments = one.cluster.chip.kind != "cpu"
    units = one.cluster.chip.compute_units if segments else 0.0
    own = [int(workspace_bytes_of(s, units)) for s in found.signatures]
    storages += [
        Storage(bytes=own[call.signature], born=index, died=index + 1)
        for index, call in enumerate(found.calls)
        if call.kind == "kernel" and own[call.signature] and not call.compiled
    ]
    storages += [Storage(bytes=int(size), born=first, died=last + 1) for size, first, last in priced.copies]
    calls = len(found.calls)
    updates = next((at for at, call in enumerate(found.calls) if call.phase == Phase.OPTIMIZER), calls)
    workspace = 0.0 if listed else e.workspace_bytes
    held = timeline(storages, calls, workspace, segments=segments, updates=updates)
    moment = _moment(found, held)
    stage = MemoryOfStage(
        stage=0,
        layers=0.0,
        in_flight=1.0,
        moment=moment,
        peak_bytes=held.peak_bytes,
        reserved_bytes=held.reserved_bytes,
        by_kind=held.by_kind,
    )
    return Memory(
        peak_bytes=held.peak_bytes,
        reserved_bytes=held.reserved_bytes,
        capacity_bytes=capacity,
        fits=held.reserved_bytes <= capacity,
        moment=moment,
        by_kind=held.by_kind,
        stages=(stage,),
        curve=_curve(held, one.order, one.queue),
    )


def _moment(found: OpList, held: MemoryTimeline) -> str:
    """Name the call before which most is held: its phase, its module, its op."""
    if not found.calls:
        return "before the step"
    call = found.calls[min(held.peak_call, len(found.calls) - 1)]
    op = plain(found.of(call).op) if call.signature != NONE else call.kind
    where = f" of {found.modules[call.module]}" if call.module != NONE else ""
    return f"{call.phase or 'outside of the phases'}: {op}{where}"


def _curve(held: MemoryTimeline, order: Order, queue: Queue) -> tuple[tuple[float, float], ...]:
    """The bytes held over the seconds of the step; of neighbouring points the fullest, where there are many."""
    if not len(order.starts):
        return tuple((0.0, size) for _, size in held.curve)
    starts = order.starts.tolist()
    ends = [0.0, *np.maximum.accumulate(queue.ends_s).tolist()]
    stops = [*starts[1:], len(order.kind)]

    def at(call: int) -> float:
        run = max(bisect_right(starts, call) - 1, 0)
        share = (call - starts[run]) / max(stops[run] - starts[run], 1)
        return float(ends[run] + min(share, 1.0) * (ends[run + 1] - ends[run]))

    points = list(held.curve)
    width = math.ceil(len(points) / MOST_POINTS)
    kept = [max(points[i : i + width], key=lambda point: point[1]) for i in range(0, len(points), width)]
    return tuple((at(call), size) for call, size in kept)
