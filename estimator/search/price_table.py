"""Table: what every shape costs and holds, as columns, before it is placed, staged and copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.communication.in_line import InLine, Message, members, rest
from estimator.communication.in_line import beside as beside_attention
from estimator.communication.placement import Degrees, Groups
from estimator.cost.collectives import collective_s
from estimator.cost.device_time import attention_s
from estimator.cost.efficiency import Efficiencies
from estimator.estimate.assemble import Lines, parts_of, rank_of
from estimator.memory.rank_memory import Shard
from estimator.scenario.arrays import joined
from estimator.scenario.hardware import Cluster
from estimator.scenario.plan import AXES, SHARDINGS
from estimator.scenario.units import Number
from estimator.schedule.micro_batch import Part
from estimator.schedule.step import Parts
from estimator.search.space import (
    SHAPE,
    Choice,
    Shape,
    Sharing,
    Space,
    canonical,
    changes,
    plan_of,
    refuse_many_shapes,
    shapes_of,
)

Key = tuple[int, str, str, str, bool, str]
"""A kind of traffic: part of the network, phase, kind of collective, group, beside attention; the name too where
messages must stay apart: beside attention, or where only some ranks of the group take part."""

HEAD = -1
EMBEDDING = -2


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """Messages of one kind per micro-batch: how many, their bytes together, and their ranks if not the group's."""

    count: Number
    bytes: Number
    ranks: Number | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """One row a shape: parts without what depends on placement, what a rank holds, traffic, and degrees.

    ``changes``: fields of choice and shape that are not at their default.
    """

    parts: Parts
    shard: Shard
    attention: tuple[dict[str, Number], ...]
    traffic: dict[Key, Traffic]
    degrees: Degrees
    micro_batches: Number
    choice: NDArray[np.int64]
    shape: NDArray[np.int64]
    changes: NDArray[np.int64]


def table_of(space: Space, sharding: str, e: Efficiencies) -> tuple[Table | None, list[Choice], list[list[Shape]]]:
    """Price all shapes of a space under the numbers that ``sharding`` keeps; rows point into the returned lists.

    Raises InputProblems where there are too many.
    """
    choices: list[Choice] = []
    listed: list[list[Shape]] = []
    tables: list[Table] = []
    lengths: list[int] = []
    for choice in space.choices():
        shapes = shapes_of(space, choice)
        space.beat()
        refuse_many_shapes(sum(lengths) + len(shapes))
        if not shapes:
            continue
        tables.append(_of_choice(space, choice, shapes, sharding, e, len(choices)))
        choices.append(choice)
        listed.append(shapes)
        lengths.append(len(shapes))
    return (_joined(tables, lengths) if tables else None), choices, listed


def in_line(table: Table, groups: Groups, cluster: Cluster, e: Efficiencies) -> Parts:
    """Return the parts with the collectives of every row priced in their groups.

    Time is linear in bytes for one kind and group, so count · t(mean payload) is the sum over the messages.
    """
    extra: dict[tuple[int, str], Number] = {}
    passing: dict[tuple[int, str], Number] = {}
    for (part, phase, _, _, beside, _), traffic in table.traffic.items():
        if beside:
            passing[part, phase] = passing.get((part, phase), 0.0) + traffic.count
    for (part, phase, kind, group, beside, _), traffic in table.traffic.items():
        count = np.maximum(traffic.count, 1e-30)
        seconds = collective_s(kind, traffic.bytes / count, members(getattr(groups, group), traffic.ranks), cluster, e)
        if beside and not e.lower_bound:
            seconds = beside_attention(seconds, table.attention[part][phase], passing[part, phase], table.degrees.cp)
        extra[part, phase] = extra.get((part, phase), 0.0) + seconds * traffic.count
    parts = table.parts

    def added(part: Part, key: int) -> Part:
        forward, backward = extra.get((key, "forward"), 0.0), extra.get((key, "backward"), 0.0)
        if e.lower_bound:
            forward, backward = rest(forward, part.forward_s), rest(backward, part.input_s + part.weight_s)
        return replace(part, inline_forward_s=forward, inline_backward_s=backward)

    return Parts(
        blocks=tuple(added(part, index) for index, part in enumerate(parts.blocks)),
        embedding=added(parts.embedding, EMBEDDING),
        head=added(parts.head, HEAD),
    )


def _of_choice(space: Space, choice: Choice, shapes: list[Shape], sharding: str, e: Efficiencies, index: int) -> Table:
    columns = {name: np.array([getattr(shape, name) for shape in shapes], dtype=float) for name in SHAPE}
    plan = plan_of(space.fixed, choice, sharding=sharding)
    scenario = replace(space.base, plan=plan)
    arrays: dict[str, Any] = {
        name: columns[name] for name in ("tp", "tp_depth", "cp", "ep", "expert_tp", "micro_batch")
    }
    rank = rank_of(scenario, e, **arrays)
    messages = {
        EMBEDDING: rank.embedding_messages,
        HEAD: rank.head_messages,
        **dict(enumerate(rank.block_messages)),
    }
    lines = Lines(
        blocks=tuple(_unpriced(found) for found in rank.block_messages),
        embedding=_unpriced(rank.embedding_messages),
        head=_unpriced(rank.head_messages),
    )
    d = rank.d
    return Table(
        parts=parts_of(rank, lines, scenario.training, e),
        shard=rank.shard,
        attention=tuple(attention_s(work) for work in rank.blocks),
        traffic=_traffic(messages),
        degrees=Degrees(
            tp=columns["tp"], cp=columns["cp"], dp=columns["dp"], pp=columns["pp"], ep=columns["ep"],
            expert_tp=columns["expert_tp"], shard=columns["dp"] * columns["cp"], grid_side=d.grid_side,
        ),
        micro_batches=scenario.training.global_batch / (columns["dp"] * columns["micro_batch"]),
        choice=np.full(len(shapes), index),
        shape=np.arange(len(shapes)),
        # The default of every part of a shape is 1.
        changes=changes(choice) + sum(columns[name] != 1 for name in SHAPE),
    )  # fmt: skip


def _unpriced(messages: Sequence[Message]) -> list[InLine]:
    return [InLine(message=message, ranks=1, seconds=0.0, exposed_s=0.0) for message in messages]


def _traffic(messages: dict[int, Sequence[Message]]) -> dict[Key, Traffic]:
    found: dict[Key, Traffic] = {}
    for part, listed in messages.items():
        for m in listed:
            key = (
                part,
                m.phase,
                m.kind,
                m.group,
                m.beside_attention,
                m.name if m.beside_attention or m.ranks is not None else "",
            )
            before = found.get(key, Traffic(count=0.0, bytes=0.0))
            found[key] = Traffic(
                count=before.count + m.count, bytes=before.bytes + m.count * m.payload_bytes, ranks=m.ranks
            )
    return found


def _joined(tables: list[Table], lengths: list[int]) -> Table:
    keys = {key: None for table in tables for key in table.traffic}
    ones = Traffic(count=0.0, bytes=0.0, ranks=1.0)
    none = Traffic(count=0.0, bytes=0.0)
    return Table(
        parts=joined([t.parts for t in tables], lengths),
        shard=joined([t.shard for t in tables], lengths),
        attention=tuple(
            {phase: joined([t.attention[i][phase] for t in tables], lengths) for phase in ("forward", "backward")}
            for i in range(len(tables[0].attention))
        ),
        traffic={
            # Messages of some ranks of a group have a name in their key, as those beside attention have.
            key: joined([t.traffic.get(key, ones if key[5] and not key[4] else none) for t in tables], lengths)
            for key in keys
        },
        degrees=joined([t.degrees for t in tables], lengths),
        micro_batches=joined([t.micro_batches for t in tables], lengths),
        choice=np.concatenate([t.choice for t in tables]),
        shape=np.concatenate([t.shape for t in tables]),
        changes=np.concatenate([t.changes for t in tables]),
    )


Rows = NDArray[np.int64]


def staged(space: Space, table: Table) -> Iterator[tuple[str, Rows, Rows]]:
    """Yield rows and their chunks by schedule; a pipeline of one stage apart, because it has one kind of stage.

    Rows whose busy axes are the same follow one another, as they have the same placements.
    """
    found: dict[tuple[str, bool], list[tuple[Rows, Rows]]] = {}
    pairs = np.asarray(table.degrees.pp) + 1j * np.asarray(table.micro_batches)
    kinds, which = np.unique(pairs, return_inverse=True)
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=len(kinds)))
    for pair, rows in zip(kinds, np.split(order, ends[:-1]), strict=True):
        for schedule, virtual in space.stagings(int(pair.real), int(pair.imag)):
            found.setdefault((schedule, pair.real == 1), []).append((rows, np.full(len(rows), virtual)))
    busy = _busy(table)
    for (schedule, _), parts in found.items():
        rows, chunks = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(busy[rows], kind="stable")
        yield schedule, rows[order], chunks[order]


def distinct(space: Space, table: Table, placement: str) -> NDArray[np.bool_]:
    """Where a placement stands for all that differ only in where axes of degree 1 come."""
    if "placement" in space.locked:
        return np.ones(len(table.choice), dtype=bool)
    legal = [
        canonical(placement, {axis: 2 if code >> place & 1 else 1 for place, axis in enumerate(AXES)})
        for code in range(2 ** len(AXES))
    ]
    return np.array(legal)[_busy(table)]


def _busy(table: Table) -> Rows:
    """Which axes have a degree above 1, as bits of one number a row."""
    found = np.zeros(len(table.choice), dtype=np.int64)
    for place, axis in enumerate(AXES):
        found |= (np.asarray(getattr(table.degrees, axis)) > 1).astype(np.int64) << place
    return found


def usable_rows(space: Space, table: Table, sharing: Sharing) -> NDArray[np.bool_]:
    """Where a sharing is a plan of its own.

    One data rank shards nothing and exchanges nothing but experts; a copy spans fewer ranks than all.
    """
    data, ranks = np.asarray(table.degrees.data), sharing.shard_ranks
    if ranks:
        found = (data % ranks == 0) & ((data > ranks) | ("shard_ranks" in space.locked))
    else:
        found = (data > 1) | (sharing.sharding == space.allowed("sharding", SHARDINGS)[0])
    for name in ("ddp_mode", "overlap"):
        if getattr(sharing, name) != space.on_request(name)[0]:
            exchanged = data > 1
            if space.base.model.experts:
                exchanged = exchanged | (np.asarray(table.degrees.expert_data) > 1)
            found = found & exchanged
    return np.asarray(found)
