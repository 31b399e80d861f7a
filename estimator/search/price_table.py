"""Price table: what every shape costs and holds, as columns, before it is placed, staged and copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.communication.message import Message, merged, priced_in_line
from estimator.communication.placement import Degrees, Groups
from estimator.cost.device_time import attention_s
from estimator.cost.efficiency import Efficiencies
from estimator.estimate.assemble import parts_of, rank_of
from estimator.memory.rank_memory import RankMemory
from estimator.scenario.arrays import joined
from estimator.scenario.hardware import Cluster
from estimator.scenario.plan import AXES, SHARDINGS
from estimator.scenario.units import Number
from estimator.schedule.micro_batch import Part, with_messages
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

Key = tuple[int | str, tuple[str, ...]]
"""Part of the network (the number of a kind of block, or an edge), and what its merged messages have in common."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PriceTable:
    """One row a shape: parts without what depends on placement, what a rank holds, messages, and degrees.

    ``changes``: fields of choice and shape that are not at their default.
    """

    parts: Parts
    shard: RankMemory
    attention: tuple[dict[str, Number], ...]
    messages: dict[Key, Message]
    degrees: Degrees
    micro_batches: Number
    choice: NDArray[np.int64]
    shape: NDArray[np.int64]
    changes: NDArray[np.int64]


def table_of(space: Space, sharding: str, e: Efficiencies) -> tuple[PriceTable | None, list[Choice], list[list[Shape]]]:
    """Price all shapes of a space under the numbers that ``sharding`` keeps; rows point into the returned lists.

    Raises InputProblems where there are too many.
    """
    choices: list[Choice] = []
    listed: list[list[Shape]] = []
    tables: list[PriceTable] = []
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


def in_line(table: PriceTable, groups: Groups, cluster: Cluster, e: Efficiencies) -> Parts:
    """Return the parts with the collectives of every row priced in their groups."""

    def lined(part: Part, key: int | str, attention: dict[str, Number]) -> Part:
        messages = [message for (where_at, _), message in table.messages.items() if where_at == key]
        device = {"forward": part.forward_s, "backward": part.input_s + part.weight_s}
        every = {"forward": part.products_forward_s, "backward": part.products_backward_s}
        products = {phase: seconds - attention.get(phase, 0.0) for phase, seconds in every.items()}
        priced = priced_in_line(
            messages, groups, cluster, e, attention_s=attention, device_s=device, products_s=products
        )
        return with_messages(part, priced)

    parts = table.parts
    return Parts(
        blocks=tuple(lined(part, index, table.attention[index]) for index, part in enumerate(parts.blocks)),
        embedding=lined(parts.embedding, "embedding", {}),
        head=lined(parts.head, "head", {}),
    )


def _of_choice(
    space: Space, choice: Choice, shapes: list[Shape], sharding: str, e: Efficiencies, index: int
) -> PriceTable:
    columns = {name: np.array([getattr(shape, name) for shape in shapes], dtype=float) for name in SHAPE}
    plan = plan_of(space.fixed, choice, sharding=sharding)
    scenario = replace(space.base, plan=plan)
    arrays: dict[str, Any] = {
        name: columns[name] for name in ("tp", "tp_depth", "cp", "ep", "expert_tp", "micro_batch")
    }
    rank = rank_of(scenario, e, **arrays)
    messages: list[tuple[int | str, Sequence[Message]]] = [
        *enumerate(rank.block_messages),
        ("embedding", rank.embedding_messages),
        ("head", rank.head_messages),
    ]
    d = rank.d
    return PriceTable(
        parts=parts_of(rank, scenario.training, e),
        shard=rank.shard,
        attention=tuple(attention_s(work) for work in rank.blocks),
        messages={(part, key): one for part, found in messages for key, one in merged(found, e).items()},
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


def _unsent(one: Message) -> Message:
    """A message for choices that do not send it: of none of its numbers is there a column, which others' rows have."""
    ranks = None if one.ranks is None else 1.0
    return replace(one, count=0.0, payload_bytes=0.0, host=1.0, batches=0.0, sized=1.0, ranks=ranks, ramp=0.0,
                   open_frac=0.0)  # fmt: skip


def _joined(tables: list[PriceTable], lengths: list[int]) -> PriceTable:
    sample = {key: message for table in tables for key, message in table.messages.items()}
    unsent = {key: _unsent(one) for key, one in sample.items()}
    return PriceTable(
        parts=joined([t.parts for t in tables], lengths),
        shard=joined([t.shard for t in tables], lengths),
        attention=tuple(
            {phase: joined([t.attention[i][phase] for t in tables], lengths) for phase in ("forward", "backward")}
            for i in range(len(tables[0].attention))
        ),
        messages={key: joined([t.messages.get(key, unsent[key]) for t in tables], lengths) for key in sample},
        degrees=joined([t.degrees for t in tables], lengths),
        micro_batches=joined([t.micro_batches for t in tables], lengths),
        choice=np.concatenate([t.choice for t in tables]),
        shape=np.concatenate([t.shape for t in tables]),
        changes=np.concatenate([t.changes for t in tables]),
    )


Rows = NDArray[np.int64]


def staged(space: Space, table: PriceTable) -> Iterator[tuple[str, Rows, Rows]]:
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


def distinct(space: Space, table: PriceTable, placement: str) -> NDArray[np.bool_]:
    """Where a placement stands for all that differ only in where axes of degree 1 come."""
    if "placement" in space.locked:
        return np.ones(len(table.choice), dtype=bool)
    legal = [
        canonical(placement, {axis: 2 if code >> place & 1 else 1 for place, axis in enumerate(AXES)})
        for code in range(2 ** len(AXES))
    ]
    return np.array(legal)[_busy(table)]


def _busy(table: PriceTable) -> Rows:
    """Which axes have a degree above 1, as bits of one number a row."""
    found = np.zeros(len(table.choice), dtype=np.int64)
    for place, axis in enumerate(AXES):
        found |= (np.asarray(getattr(table.degrees, axis)) > 1).astype(np.int64) << place
    return found


def usable_rows(space: Space, table: PriceTable, sharing: Sharing) -> NDArray[np.bool_]:
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
