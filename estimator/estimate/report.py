"""Report: a priced step written out for people: phases, categories, collectives, every stage's memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from estimator.cost.device_time import COMPONENTS, PLACES, of_category
from estimator.cost.efficiency import Efficiencies
from estimator.cost.host import launch_s
from estimator.cost.price import Priced, price
from estimator.estimate.assemble import Lines, Rank
from estimator.memory.stage_layout import StageKind
from estimator.operations.op import Op
from estimator.scenario.breakdown import CATEGORIES, PHASES, WAITING, Category, Phase, complete
from estimator.scenario.units import Number
from estimator.schedule.micro_batch import runs_again
from estimator.schedule.schedules import in_flight
from estimator.schedule.step import Setting, Step, memory_of_stage, once_per_step, optimizer_s, weights_apart


@dataclass(frozen=True, kw_only=True, slots=True)
class Collective:
    """All executions of one collective in a step on one rank; ``bytes`` is one execution's payload."""

    name: str
    kind: str
    axis: str
    phase: str
    ranks: int
    bytes: float
    count: float
    seconds: float
    exposed_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryOfStage:
    """Memory of one pipeline stage's rank at its own peak."""

    stage: int
    layers: float
    in_flight: float
    moment: str
    peak_bytes: float
    reserved_bytes: float
    by_kind: dict[str, float]


def axis_of_ranks(ranks: int) -> str:
    """What an axis is called whose collectives say no more than how many ranks meet in them."""
    return f"{ranks} ranks"


def phases_and_breakdown(timing: Step, rank: Rank, setting: Setting) -> tuple[dict[str, float], dict[str, float]]:
    """Return seconds by phase and by category; each adds to the step time."""
    phases = {
        Phase.FORWARD: float(timing.forward_s),
        Phase.BACKWARD: float(timing.backward_s),
        Phase.OPTIMIZER: float(timing.optimizer_s),
        Phase.EXPOSED_COMMUNICATION: float(timing.exposed_s),
        Phase.BUBBLE: float(timing.bubble_s),
        Phase.HOST_WAIT: float(timing.wait_s),
    }
    kind = setting.kinds[int(timing.critical_stage)]
    sums = [0.0] * len(COMPONENTS)
    found = list(zip(rank.blocks, kind.blocks, strict=True))
    found += [(rank.embedding, 1.0)] if kind.embedding else []
    found += [(rank.head, 1.0)] if kind.head else []
    apart = float(weights_apart(setting, kind)) if setting.shard.redone_blocks else 0.0
    for work, times in found:
        for column in work.seconds.values():
            for index, seconds in enumerate(column):
                sums[index] += float(seconds) * float(times)
        for index, seconds in enumerate(work.redone_s):
            sums[index] += float(seconds) * float(times) * apart * float(runs_again(work))
    m = float(setting.micro_batches)
    breakdown = {category: m * float(of_category(sums, category)) for category in PLACES}
    breakdown[Category.ELEMENTWISE] += float(timing.accumulation_s)
    breakdown[Category.OPTIMIZER] = phases[Phase.OPTIMIZER]
    breakdown |= {category: phases[phase] for category, phase in WAITING.items()}
    return complete(phases, PHASES), complete(breakdown, CATEGORIES)


def collectives_of(timing: Step, lines: Lines, setting: Setting) -> tuple[Collective, ...]:
    """List the collectives of the critical stage over a step, those of the data ranks, and the stages' messages."""
    kind = setting.kinds[int(timing.critical_stage)]
    m = float(setting.micro_batches)
    merged: dict[tuple[str, str, str], dict[str, Any]] = {}
    found = list(zip(lines.blocks, kind.blocks, strict=True))
    found += [(lines.embedding, 1.0)] if kind.embedding else []
    found += [(lines.head, 1.0)] if kind.head else []
    for group, times in found:
        for line in group:
            message = line.message
            count = float(message.count) * float(times) * m
            if count == 0:
                continue
            row = merged.setdefault(
                (message.name, message.axis, message.phase),
                {"kind": message.kind, "ranks": int(line.ranks), "bytes": float(message.payload_bytes),
                 "count": 0.0, "seconds": 0.0, "exposed_s": 0.0},
            )  # fmt: skip
            row["count"] += count
            row["seconds"] += float(line.seconds) * float(times) * m
            row["exposed_s"] += float(line.exposed_s) * float(times) * m
    rows = [Collective(name=n, axis=a, phase=p, **row) for (n, a, p), row in merged.items()]
    for line in timing.data:
        message = line.message
        if float(line.ranks) <= 1:
            continue
        rows.append(
            Collective(
                name=message.name,
                kind=message.kind,
                axis=message.axis,
                phase=message.phase,
                ranks=int(line.ranks),
                bytes=float(message.payload_bytes),
                count=float(message.count),
                seconds=float(line.seconds),
                exposed_s=float(line.exposed_s),
            )
        )
    return (*rows, *_messages(timing, setting), *_tied(timing, setting), *_copies(timing))


def stage_memories(setting: Setting, e: Efficiencies) -> tuple[MemoryOfStage, ...]:
    """Return every stage's memory at its own peak; stages of a kind differ in the micro-batches in flight only."""
    stages = int(setting.stages)
    if stages == 1:
        return tuple(_of_kind(setting, setting.kinds[0], [0], 1.0, e))
    plan, batches = setting.plan, setting.micro_batches
    found = in_flight(plan.schedule, np.arange(stages, dtype=float), stages, batches, setting.virtual_stages)
    flying = np.asarray(found, dtype=float).tolist()
    first, middle, last = setting.kinds
    between = list(range(1, stages - 1))
    return (
        *_of_kind(setting, first, [0], flying[0], e),
        *(_of_kind(setting, middle, between, np.array(flying[1:-1]), e) if between else ()),
        *_of_kind(setting, last, [stages - 1], flying[-1], e),
    )


def _of_kind(
    setting: Setting, kind: StageKind, indices: list[int], flying: Number, e: Efficiencies
) -> Iterator[MemoryOfStage]:
    place: Number = float(indices[0]) if isinstance(flying, (int, float)) else np.array(indices, dtype=float)
    memory = memory_of_stage(setting, kind, flying, e.workspace_bytes, place)
    reserved = np.broadcast_to(memory.reserved_bytes(e), (len(indices),)).tolist()
    for index, (moment, by_kind), held in zip(indices, memory.at_peaks(len(indices)), reserved, strict=True):
        yield MemoryOfStage(
            stage=index,
            layers=float(kind.layers),
            in_flight=float(flying if isinstance(flying, (int, float)) else flying[index - indices[0]]),
            moment=moment,
            peak_bytes=sum(by_kind.values()),
            reserved_bytes=held,
            by_kind=by_kind,
        )


def _messages(timing: Step, setting: Setting) -> list[Collective]:
    if setting.stages == 1:
        return []
    size = float(setting.shard.message_bytes)
    return stage_messages(int(setting.stages), size, float(timing.sends_s), float(timing.send_each_s))


def stage_messages(stages: int, size_bytes: float, shown_s: float, each_s: float) -> list[Collective]:
    """What shows of the messages between stages, as so many whole ones."""
    if shown_s == 0:
        return []
    return [
        Collective(
            name="stage to stage, exposed",
            kind="p2p",
            axis="pp",
            phase=Phase.FORWARD,
            ranks=stages,
            bytes=size_bytes,
            count=shown_s / each_s,
            seconds=shown_s,
            exposed_s=shown_s,
        )
    ]


def _tied(timing: Step, setting: Setting) -> list[Collective]:
    shard = setting.shard
    return tied_messages(shard.head_parameters * shard.widths.gradient, float(timing.tied_s))


def tied_messages(size_bytes: Number, seconds: float) -> list[Collective]:
    """The sum of the gradients of a table that first and last stage hold."""
    if seconds == 0:
        return []
    return [
        Collective(
            name="tied embedding gradient sum",
            kind="all-reduce",
            axis="pp",
            phase=Phase.BACKWARD,
            ranks=2,
            bytes=float(size_bytes),
            count=1.0,
            seconds=seconds,
            exposed_s=seconds,
        )
    ]


def _copies(timing: Step) -> list[Collective]:
    """Copies into and out of flat buffers, as far as they show: not on a link, yet part of what communication costs."""
    exposed = sum(float(line.copies_exposed_s) for line in timing.data)
    offload = float(timing.offload_s)
    rows = []
    if exposed > 0:
        count = sum(float(line.message.count) for line in timing.data)
        moved = sum(float(line.message.copies_bytes) for line in timing.data)
        rows.append(Collective(name="copies into and out of buckets", kind="copy", axis="dp", phase="backward", ranks=1,
                               bytes=moved / count, count=count, seconds=exposed, exposed_s=exposed))  # fmt: skip
    if offload > 0:
        rows.append(Collective(name="activations to and from host memory, exposed", kind="copy", axis="host",
                               phase="backward", ranks=1, bytes=0.0, count=1.0, seconds=offload,
                               exposed_s=offload))  # fmt: skip
    return rows


@dataclass(kw_only=True, slots=True)
class OpCost:
    """One op of one rank of the critical stage: totals over a step."""

    name: str
    layer: str
    phase: str
    category: str
    shape: str
    count: float
    flops: float
    bytes: float
    launches: float
    saved_bytes: float
    seconds: float
    bound: str
    intensity_flops_per_byte: float
    precision: str
    recomputed: bool


def op_costs(rank: Rank, setting: Setting, kind: StageKind, e: Efficiencies) -> tuple[OpCost, ...]:
    """Return totals over a step for every op that one rank of a kind of stage runs; the first stage's optimizer."""
    chip, training, m = setting.cluster.rank_chip, setting.training, float(setting.micro_batches)
    found = [(work.priced, float(times)) for work, times in zip(rank.blocks, kind.blocks, strict=True) if times > 0]
    found += [(rank.embedding.priced, 1.0)] if kind.embedding else []
    found += [(rank.head.priced, 1.0)] if kind.head else []
    launch = {phase: launch_s(training, phase, e) for phase in ("forward", "backward")}
    rows = [
        op_cost(one, times * m, launch[one.op.phase])
        for priced, times in found
        for one in priced
        if one.op.launches > 0
    ]
    once = once_per_step(setting, setting.kinds[0])
    priced_once = [op_cost(price(op, chip, e), 1.0, 0.0) for op in once]
    if setting.policy.offload_optimizer:
        # What goes over the gradients before the update runs there, too, as a part of it.
        update = priced_once[-1]
        priced_once = [_in_host_memory(update, float(optimizer_s(setting, once, e)))]
    return (*rows, *priced_once)


def _in_host_memory(update: OpCost, seconds: float) -> OpCost:
    """The update that the host makes while the chip waits: no kernel, but time of the step."""
    return replace(
        update, name=f"{update.name} in host memory", count=1.0, flops=0.0, bytes=0.0, launches=0.0, saved_bytes=0.0,
        seconds=seconds, bound="host link", intensity_flops_per_byte=0.0,
    )  # fmt: skip


def op_cost(priced: Priced, times: float, host_s: float) -> OpCost:
    """Write one priced op out that runs ``times`` as often; the host needs ``host_s`` for each of its launches."""
    op = priced.op
    count = float(op.count) * times
    seconds = float(priced.seconds)
    bound = "launch" if float(op.launches) * host_s > seconds else priced.bound
    flops, moved = float(priced.executed_flops), float(op.bytes)
    return OpCost(
        name=op.name,
        layer=op.layer,
        phase=op.phase,
        category=op.category,
        shape=_shape(op),
        count=count,
        flops=flops * count,
        bytes=moved * count,
        launches=float(op.launches) * count,
        saved_bytes=float(op.saved_bytes) * count,
        seconds=seconds * count,
        bound=bound,
        intensity_flops_per_byte=flops / moved if moved else 0.0,
        precision=op.precision,
        recomputed=op.recomputed,
    )


def _shape(op: Op) -> str:
    if op.kind == "kernels" or not float(op.m):
        return ""
    product = f"{float(op.m):.0f} × {float(op.n):.0f} × {float(op.k):.0f}"
    return product if float(op.batch) == 1 else f"{float(op.batch):.0f} × ({product})"
