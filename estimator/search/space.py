"""Space: which plans a search tries, and under which choices, stagings, sharings and placements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from estimator.legality import pipeline_problems
from estimator.networks.dims import numbers
from estimator.plan import AXES, CP_KINDS, PLACEMENTS, RECOMPUTES, SCHEDULES, SHARDINGS, TP_KINDS, Plan
from estimator.scenario import Scenario
from estimator.search.choice import Choice, Sharing

SEARCHED = (
    "dp", "tp", "tp_kind", "tp_depth", "sequence_parallel", "cp", "cp_kind", "pp", "virtual_stages", "schedule", "ep",
    "expert_tp", "sharding", "shard_ranks", "micro_batch", "recompute", "placement",
)  # fmt: skip
"""Fields that a search moves; the others stay at what is locked, or at their default."""


class Space:
    """The plans of one model on one cluster within what is ``locked``, listed by choice, shape, staging and sharing.

    ``further``: values of fields that are searched on request alone, the one that stands for all others first.
    """

    def __init__(
        self, base: Scenario, locked: Mapping[str, Any], further: Mapping[str, tuple[Any, ...]] | None = None
    ) -> None:
        self.base = base
        self.locked = dict(locked)
        self.further = dict(further or {})
        self.fixed = replace(Plan(), **{name: value for name, value in locked.items() if name not in SEARCHED})
        self.chips = base.cluster.chips
        self._seen: dict[tuple[Any, ...], bool] = {}

    def allowed(self, name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the values to try for a field: the locked one, or all."""
        return (self.locked[name],) if name in self.locked else values

    def on_request(self, name: str) -> tuple[Any, ...]:
        """Return the values to try for a field that is searched on request alone."""
        return self.further.get(name, (getattr(self.fixed, name),))

    def choices(self) -> Iterator[Choice]:
        """Yield every branch."""
        for tp_kind in self.allowed("tp_kind", TP_KINDS):
            for split in self.allowed("sequence_parallel", (False, True) if tp_kind == "1d" else (False,)):
                for cp_kind in self.allowed("cp_kind", CP_KINDS if tp_kind == "1d" else CP_KINDS[:1]):
                    for recompute, every in self._recomputations():
                        yield Choice(
                            tp_kind=tp_kind,
                            sequence_parallel=split,
                            cp_kind=cp_kind,
                            recompute=recompute,
                            recompute_every=every,
                        )

    def stagings(self, shape_pp: int, micro_batches: int) -> list[tuple[str, int]]:
        """List schedules and virtual stages for a pipeline; one stage has one."""
        if shape_pp == 1:
            schedule = self.allowed("schedule", ("1f1b",))[0]
            return (
                [(schedule, self.allowed("virtual_stages", (1,))[0])]
                if self._staged(schedule, 1, 1, micro_batches)
                else []
            )
        layers = self.base.model.layers
        found = []
        for schedule in self.allowed("schedule", SCHEDULES):
            chunks = divisors(max(layers // shape_pp, 1))[1:] if schedule == "interleaved" else (1,)
            if schedule == "zero-bubble-v":
                chunks = (2,)
            for virtual in self.allowed("virtual_stages", chunks):
                if self._staged(schedule, shape_pp, virtual, micro_batches):
                    found.append((schedule, virtual))
        return found

    def sharings(self) -> list[Sharing]:
        """List what data ranks shard and over how many of them (all, or those of a node), how they exchange, offload.

        Only DDP has several ways to exchange gradients, and only buckets travel beside compute.
        """
        found = []
        for sharding, ranks in self._shardings():
            for mode in self.on_request("ddp_mode")[: None if sharding == "ddp" else 1]:
                late = sharding == "ddp" and mode != "bucketed"
                found += [
                    Sharing(sharding=sharding, shard_ranks=ranks, ddp_mode=mode, overlap=overlap, offload=offload)
                    for offload in self.on_request("offload")
                    for overlap in self.on_request("overlap")[: 1 if late else None]
                ]
        return found

    def placements(self) -> tuple[str, ...]:
        """List orders of the axes."""
        return self.allowed("placement", PLACEMENTS)

    def number_classes(self) -> list[list[Sharing]]:
        """Group the sharings by how wide they keep numbers: under autocast FSDP differs from the others."""
        groups: dict[Any, list[Sharing]] = {}
        for sharing in self.sharings():
            key = numbers(self.base.training, replace(self.fixed, sharding=sharing.sharding))
            groups.setdefault(key, []).append(sharing)
        return list(groups.values())

    def once(self, key: tuple[Any, ...], test: Callable[[], bool]) -> bool:
        """Answer a question about the model and the batch, from memory if it was asked before."""
        if key not in self._seen:
            self._seen[key] = test()
        return self._seen[key]

    def _recomputations(self) -> list[tuple[str, int]]:
        """Pair recomputation with blocks per checkpoint, of which only full recomputation has several."""
        return [
            (recompute, every)
            for recompute in self.allowed("recompute", RECOMPUTES)
            for every in self.on_request("recompute_every")
            if every == 1 or (recompute == "full" and every <= self.base.model.layers)
        ]

    def _shardings(self) -> list[tuple[str, int]]:
        per_node, nodes = self.base.cluster.chips_per_node, self.base.cluster.nodes
        found = []
        for sharding in self.allowed("sharding", SHARDINGS):
            hybrid = (0, per_node) if sharding in ("zero3", "fsdp") and nodes > 1 and per_node > 1 else (0,)
            ranks_of_copy = self.allowed("shard_ranks", hybrid)
            found += [(sharding, ranks) for ranks in ranks_of_copy if sharding != "ddp" or not ranks]
        return found

    def _staged(self, schedule: str, stages: int, virtual_stages: int, micro_batches: int) -> bool:
        key = ("staged", schedule, stages, virtual_stages, micro_batches)
        return self.once(
            key, lambda: not pipeline_problems(self.base.model, schedule, stages, virtual_stages, micro_batches)
        )


def canonical(placement: str, degrees: Mapping[str, int]) -> bool:
    """Whether a placement stands for all that differ only in where axes of degree 1 come.

    That is the default where it is one of them, else the one with those axes last.
    """
    order = placement.split("-")
    busy = [axis for axis in order if degrees[axis] > 1]
    if busy == [axis for axis in AXES if degrees[axis] > 1]:
        return placement == PLACEMENTS[0]
    return order == [*busy, *(axis for axis in AXES if degrees[axis] == 1)]


def divisors(value: int) -> tuple[int, ...]:
    """All divisors, ascending."""
    small = [n for n in range(1, math.isqrt(value) + 1) if value % n == 0]
    return tuple(sorted({*small, *(value // n for n in small)}))
