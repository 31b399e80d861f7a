"""Evaluate: step time and memory of many plans at once, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estimator.communication.placement import Groups, groups_of
from estimator.cost.efficiency import Efficiencies
from estimator.estimate.assemble import setting
from estimator.scenario.arrays import taken, where
from estimator.scenario.plan import Plan
from estimator.schedule.micro_batch import Part
from estimator.schedule.schedules import fullest_of, in_flight
from estimator.schedule.step import Parts, Setting, memory_of_stage, stage_passes, step
from estimator.search.price_table import PriceTable, Rows, distinct, in_line, staged, table_of, usable_rows
from estimator.search.space import Choice, Shape, Sharing, Space, changes, plan_of

BLOCK_ROWS = 16_384
"""Plans priced at once: a column of this length stays in a core's second-level cache."""

Values = NDArray[np.float64]
_DEFAULT = Plan()


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluated:
    """Plans that share schedule, sharing and placement: those that fit, with their numbers; and how many were tried.

    ``plan(i)`` writes the i-th of them. ``changed``: fields of choice and shape that are not at their default.
    """

    space: Space
    choices: list[Choice]
    shapes: list[list[Shape]]
    choice: Rows
    shape: Rows
    changed: Rows
    schedule: str
    virtual_stages: Rows
    sharing: Sharing
    placement: str
    tried: int
    step_s: Values
    peak_bytes: Values
    reserved_bytes: Values

    def plan(self, index: int) -> Plan:
        """Return one plan."""
        choice = self.choices[self.choice[index]]
        shape = self.shapes[self.choice[index]][self.shape[index]]
        return plan_of(
            self.space.fixed,
            choice,
            shape,
            self.sharing,
            schedule=self.schedule,
            virtual_stages=int(self.virtual_stages[index]),
            placement=self.placement,
        )

    def changes(self, rows: Rows) -> Rows:
        """Fields of each of these plans that are not at their default, apart from those that all plans share."""
        shared: int = (
            changes(self.sharing) + (self.schedule != _DEFAULT.schedule) + (self.placement != _DEFAULT.placement)
        )
        chunks = self.virtual_stages[rows] != _DEFAULT.virtual_stages
        return np.asarray(self.changed[rows] + chunks + shared, dtype=np.int64)


def evaluated(space: Space, e: Efficiencies, *, capacity_bytes: float) -> Iterator[Evaluated]:
    """Yield every plan of the space: memory for all of them, step time for those whose reserve fits the capacity."""
    for sharings in space.number_classes():
        table, choices, shapes = table_of(space, sharings[0].sharding, e)
        if table is None:
            continue
        placed = {}
        for placement in space.placements():
            space.beat()
            if (mask := distinct(space, table, placement)).any():
                placed[placement] = mask, in_line(table, _groups(space, table, placement), space.base.cluster, e)
        for schedule, rows, virtual in staged(space, table):
            for start in range(0, len(rows), BLOCK_ROWS):
                space.beat()
                block, chunks = rows[start : start + BLOCK_ROWS], virtual[start : start + BLOCK_ROWS]
                part = taken(table, block)
                for sharing in sharings:
                    usable = usable_rows(space, part, sharing)
                    if not usable.any():
                        continue
                    peak, reserved = _peak_and_reserved_bytes(space, part, schedule, chunks, sharing, e)
                    keep = np.flatnonzero(usable & (reserved <= capacity_bytes))
                    fitting = part if len(keep) == len(block) else taken(part, keep)
                    for placement, (mask, parts) in placed.items():
                        here = mask[block]
                        tried = int(np.count_nonzero(usable & here))
                        if not tried:
                            continue
                        some = np.flatnonzero(here[keep])
                        chosen = keep[some]
                        cut = fitting if len(some) == len(keep) else taken(fitting, some)
                        lined = replace(cut, parts=_with_lines(cut.parts, parts, block[chosen]))
                        yield Evaluated(
                            space=space, choices=choices, shapes=shapes, choice=cut.choice, shape=cut.shape,
                            changed=cut.changes, schedule=schedule, virtual_stages=chunks[chosen], sharing=sharing,
                            placement=placement, tried=tried, peak_bytes=peak[chosen], reserved_bytes=reserved[chosen],
                            step_s=_step_s(space, lined, schedule, chunks[chosen], sharing, placement, e),
                        )  # fmt: skip


def _with_lines(own: Parts, placed: Parts, rows: Rows) -> Parts:
    """Return the parts with the seconds of collectives in line of a placement, the only ones that depend on it."""

    def added(part: Part, lines: Part) -> Part:
        placed_s = lines.inline_forward_s, lines.inline_backward_s, lines.read_device_s
        forward_s, backward_s, read_s = taken(placed_s, rows)
        return replace(part, inline_forward_s=forward_s, inline_backward_s=backward_s, read_device_s=read_s)

    return Parts(
        blocks=tuple(map(added, own.blocks, placed.blocks)),
        embedding=added(own.embedding, placed.embedding),
        head=added(own.head, placed.head),
    )


def _setting(space: Space, table: PriceTable, schedule: str, chunks: Rows, sharing: Sharing, placement: str) -> Setting:
    ranks = sharing.shard_ranks
    degrees = replace(table.degrees, shard=np.full(len(chunks), float(ranks)) if ranks else table.degrees.data)
    single = bool(np.all(np.asarray(degrees.pp) == 1))
    return setting(
        table.shard,
        groups_of(degrees, placement, space.base.cluster.chips_per_node),
        degrees,
        plan_of(space.fixed, sharing=sharing, schedule=schedule, placement=placement),
        space.base.training,
        space.base.cluster,
        stages=1 if single else degrees.pp,
        virtual_stages=chunks.astype(float),
        micro_batches=table.micro_batches,
    )


def _step_s(
    space: Space, table: PriceTable, schedule: str, chunks: Rows, sharing: Sharing, placement: str, e: Efficiencies
) -> Values:
    if not len(chunks):
        return np.zeros(0)
    found = _setting(space, table, schedule, chunks, sharing, placement)
    return np.asarray(step(found, stage_passes(found, table.parts, e), e).seconds, dtype=float)


def _peak_and_reserved_bytes(
    space: Space, table: PriceTable, schedule: str, chunks: Rows, sharing: Sharing, e: Efficiencies
) -> tuple[Values, Values]:
    """Memory of the fullest stage: the first, the fullest of those in the middle, or the last."""
    found = _setting(space, table, schedule, chunks, sharing, space.fixed.placement)
    most: list[Values] = []
    for kind in found.kinds:
        for stage in fullest_of(kind.name, schedule, found.stages):
            flying = (
                1.0
                if kind.name == "only"
                else in_flight(schedule, stage, found.stages, found.micro_batches, found.virtual_stages)
            )
            held = memory_of_stage(found, kind, flying, e.workspace_bytes, stage)
            both = [held.peak_bytes, held.reserved_bytes(e)]
            if kind.name == "middle":
                both = [where(found.stages > 2, one, 0.0) for one in both]  # two stages have none
            most = [np.maximum(*pair) for pair in zip(most, both, strict=True)] if most else [*map(np.asarray, both)]
    return most[0], most[1]


def _groups(space: Space, table: PriceTable, placement: str) -> Groups:
    return groups_of(table.degrees, placement, space.base.cluster.chips_per_node)
