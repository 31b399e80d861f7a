"""Evaluate: step time and memory of many plans at once, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estimator.columns import taken
from estimator.efficiency import Efficiencies
from estimator.memory import stage_memory
from estimator.parallel.pipeline import in_flight
from estimator.parallel.placement import Groups, groups_of
from estimator.plan import AXES, Plan
from estimator.rank import setting
from estimator.search.space import Choice, Shape, Space, canonical, plan_of
from estimator.search.table import Table, in_line, table_of
from estimator.step import Setting, stage_passes, step

BLOCK_ROWS = 16_384
"""Plans priced at once: a column of this length stays in a core's second-level cache."""

Rows = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluated:
    """Plans that share schedule, sharding and placement: those that fit, with their numbers; and how many were tried.

    ``plan(i)`` writes the i-th of them.
    """

    space: Space
    choices: list[Choice]
    shapes: list[list[Shape]]
    choice: Rows
    shape: Rows
    schedule: str
    virtual_stages: Rows
    sharding: str
    shard_ranks: int
    placement: str
    tried: int
    step_s: Values
    peak_bytes: Values

    def plan(self, index: int) -> Plan:
        """Return one plan."""
        choice = self.choices[self.choice[index]]
        shape = self.shapes[self.choice[index]][self.shape[index]]
        return plan_of(
            self.space.fixed,
            choice,
            shape,
            schedule=self.schedule,
            virtual_stages=int(self.virtual_stages[index]),
            sharding=self.sharding,
            shard_ranks=self.shard_ranks,
            placement=self.placement,
        )


def evaluated(space: Space, e: Efficiencies, *, capacity_bytes: float) -> Iterator[Evaluated]:
    """Yield every plan of the space: memory for all of them, step time for those whose reserve fits the capacity."""
    for shardings in space.number_classes():
        table, choices, shapes = table_of(space, shardings[0][0], e)
        if table is None:
            continue
        placed = {
            placement: (mask, in_line(table, _groups(space, table, placement), space.base.cluster, e))
            for placement in space.placements()
            if (mask := _canonical(space, table, placement)).any()
        }
        for schedule, rows, virtual in _staged(space, table):
            for start in range(0, len(rows), BLOCK_ROWS):
                block, chunks = rows[start : start + BLOCK_ROWS], virtual[start : start + BLOCK_ROWS]
                part = taken(table, block)
                for sharding, ranks in shardings:
                    usable = _shards(space, part, sharding, ranks)
                    if not usable.any():
                        continue
                    peak = _peak_bytes(space, part, schedule, chunks, sharding, ranks, e)
                    fits = usable & (peak * e.allocator_frac <= capacity_bytes)
                    for placement, (mask, parts) in placed.items():
                        here = mask[block]
                        keep = np.flatnonzero(fits & here)
                        tried = int(np.count_nonzero(usable & here))
                        if not tried:
                            continue
                        chosen = block[keep]
                        cut = replace(taken(table, chosen), parts=taken(parts, chosen))
                        seconds = (
                            _step_s(space, cut, schedule, chunks[keep], sharding, ranks, placement, e)
                            if len(keep)
                            else np.zeros(0)
                        )
                        yield Evaluated(
                            space=space, choices=choices, shapes=shapes, choice=table.choice[chosen],
                            shape=table.shape[chosen], schedule=schedule, virtual_stages=chunks[keep],
                            sharding=sharding, shard_ranks=ranks, placement=placement, tried=tried, step_s=seconds,
                            peak_bytes=peak[keep],
                        )  # fmt: skip


def _staged(space: Space, table: Table) -> Iterator[tuple[str, Rows, Rows]]:
    """Yield rows and their chunks by schedule; a pipeline of one stage apart, because it has one kind of stage."""
    found: dict[tuple[str, bool], tuple[list[int], list[int]]] = {}
    pairs = np.stack([np.asarray(table.degrees.pp), np.asarray(table.micro_batches)], axis=1)
    distinct, which = np.unique(pairs, axis=0, return_inverse=True)
    legal = [space.stagings(int(pp), int(m)) for pp, m in distinct]
    rows_of = [np.flatnonzero(which == i) for i in range(len(distinct))]
    for (pp, _), listed, rows in zip(distinct, legal, rows_of, strict=True):
        for schedule, virtual in listed:
            entry = found.setdefault((schedule, pp == 1), ([], []))
            entry[0].extend(rows.tolist())
            entry[1].extend([virtual] * len(rows))
    for (schedule, _), (rows_list, chunks) in found.items():
        yield schedule, np.array(rows_list, dtype=np.int64), np.array(chunks, dtype=np.int64)


def _setting(
    space: Space, table: Table, schedule: str, chunks: Rows, sharding: str, ranks: int, placement: str
) -> Setting:
    degrees = replace(table.degrees, shard=np.full(len(chunks), float(ranks)) if ranks else table.degrees.data)
    single = bool(np.all(np.asarray(degrees.pp) == 1))
    plan = replace(space.fixed, schedule=schedule, sharding=sharding, shard_ranks=ranks, placement=placement)
    return setting(
        table.shard,
        groups_of(degrees, placement, space.base.cluster.chips_per_node),
        degrees,
        plan,
        space.base.training,
        space.base.cluster,
        stages=1 if single else degrees.pp,
        virtual_stages=chunks.astype(float),
        micro_batches=table.micro_batches,
    )


def _step_s(
    space: Space, table: Table, schedule: str, chunks: Rows, sharding: str, ranks: int, placement: str, e: Efficiencies
) -> Values:
    found = _setting(space, table, schedule, chunks, sharding, ranks, placement)
    return np.asarray(step(found, stage_passes(found, table.parts, e), e).seconds, dtype=float)


def _peak_bytes(
    space: Space, table: Table, schedule: str, chunks: Rows, sharding: str, ranks: int, e: Efficiencies
) -> Values:
    """Memory of the fullest stage: the first, the second (which stands for those in the middle) or the last."""
    found = _setting(space, table, schedule, chunks, sharding, ranks, space.fixed.placement)
    most: Values | None = None
    for kind in found.kinds:
        stage = {"only": 0.0, "first": 0.0, "middle": 1.0, "last": found.stages - 1}[kind.name]
        flying = (
            1.0
            if kind.name == "only"
            else in_flight(schedule, stage, found.stages, found.micro_batches, found.virtual_stages)
        )
        peak = stage_memory(
            found.shard,
            kind,
            found.policy,
            in_flight=flying,
            micro_batches=found.micro_batches,
            workspace_bytes=e.workspace_bytes,
        ).peak_bytes
        most = np.asarray(peak) if most is None else np.maximum(most, peak)
    assert most is not None
    return most


def _groups(space: Space, table: Table, placement: str) -> Groups:
    return groups_of(table.degrees, placement, space.base.cluster.chips_per_node)


def _canonical(space: Space, table: Table, placement: str) -> NDArray[np.bool_]:
    if "placement" in space.locked:
        return np.ones(len(table.choice), dtype=bool)
    degrees = np.stack([np.asarray(getattr(table.degrees, axis)) for axis in AXES], axis=1)
    distinct, which = np.unique(degrees == 1, axis=0, return_inverse=True)
    legal = [
        canonical(placement, {axis: 1 if one else 2 for axis, one in zip(AXES, row, strict=True)}) for row in distinct
    ]
    return np.array(legal)[which]


def _shards(space: Space, table: Table, sharding: str, ranks: int) -> NDArray[np.bool_]:
    """Where a sharding is a plan of its own: one data rank shards nothing, a copy spans fewer ranks than all."""
    data = np.asarray(table.degrees.data)
    if ranks:
        locked = "shard_ranks" in space.locked
        return np.asarray((data % ranks == 0) & ((data > ranks) | locked))
    alone = sharding == space.shardings()[0][0]
    return np.asarray((data > 1) | alone)
