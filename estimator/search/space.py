"""Space: which plans a search tries: what one rank computes (a shape), how often it is copied, and how it is staged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from estimator.legality import context_problems, expert_problems, pipeline_problems, tensor_problems
from estimator.networks.dims import numbers
from estimator.parallel.grid_shape import grid_fits
from estimator.plan import AXES, CP_KINDS, PLACEMENTS, RECOMPUTES, SCHEDULES, SHARDINGS, TP_KINDS, Plan
from estimator.scenario import Scenario

MAX_MICRO_BATCH = 16
SEARCHED = (
    "dp", "tp", "tp_kind", "tp_depth", "sequence_parallel", "cp", "cp_kind", "pp", "virtual_stages", "schedule", "ep",
    "expert_tp", "sharding", "shard_ranks", "micro_batch", "recompute", "placement",
)  # fmt: skip
"""Fields that a search moves; the others stay at what is locked, or at their default."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What decides by branches, not by numbers, how one rank computes."""

    tp_kind: str
    sequence_parallel: bool
    cp_kind: str
    recompute: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Degrees and micro-batch of one rank under a choice; ``dp`` and ``pp`` say how often it is copied and staged."""

    tp: int
    tp_depth: int
    cp: int
    ep: int
    expert_tp: int
    micro_batch: int
    pp: int
    dp: int


class Space:
    """The plans of one model on one cluster within what is ``locked``, listed by choice, shape and staging."""

    def __init__(self, base: Scenario, locked: Mapping[str, Any]) -> None:
        self.base = base
        self.locked = dict(locked)
        self.fixed = replace(Plan(), **{name: value for name, value in locked.items() if name not in SEARCHED})
        self.chips = base.cluster.chips
        self._seen: dict[tuple[Any, ...], bool] = {}

    def allowed(self, name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the values to try for a field: the locked one, or all."""
        return (self.locked[name],) if name in self.locked else values

    def choices(self) -> Iterator[Choice]:
        """Yield every branch; recomputation only where blocks are there to recompute."""
        for tp_kind in self.allowed("tp_kind", TP_KINDS):
            for split in self.allowed("sequence_parallel", (False, True) if tp_kind == "1d" else (False,)):
                for cp_kind in self.allowed("cp_kind", CP_KINDS if tp_kind == "1d" else CP_KINDS[:1]):
                    for recompute in self.allowed("recompute", RECOMPUTES):
                        if self.fixed.recompute_every > 1 and recompute != "full":
                            continue
                        yield Choice(tp_kind=tp_kind, sequence_parallel=split, cp_kind=cp_kind, recompute=recompute)

    def shapes(self, choice: Choice) -> list[Shape]:
        """List the shapes of a choice that the model and the batch allow; a degree of 1 has one choice only."""
        batch = self.base.training.global_batch
        found = []
        for tp in self.allowed("tp", divisors(self.chips)):
            if not self._kind_fits(choice, tp):
                continue
            for depth in self._depths(choice.tp_kind, tp):
                for cp in self.allowed("cp", divisors(self.chips // tp) if self.chips % tp == 0 else ()):
                    if (self.chips % (tp * cp)) or (cp == 1 and choice.cp_kind != self.allowed("cp_kind", CP_KINDS)[0]):
                        continue
                    for pp in self.allowed("pp", divisors(self.chips // (tp * cp))):
                        if self.chips % (tp * cp * pp):
                            continue
                        dp = self.chips // (tp * cp * pp)
                        if self.locked.get("dp", dp) != dp or batch % dp:
                            continue
                        for micro_batch in self._micro_batches(batch // dp):
                            for ep, expert_tp in self._experts(tp * cp * dp):
                                shape = Shape(tp=tp, tp_depth=depth, cp=cp, ep=ep, expert_tp=expert_tp,
                                              micro_batch=micro_batch, pp=pp, dp=dp)  # fmt: skip
                                if self._legal(choice, shape):
                                    found.append(shape)
        return found

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
                chunks = (self.fixed.virtual_stages, 2)[1:]
            for virtual in self.allowed("virtual_stages", chunks):
                if self._staged(schedule, shape_pp, virtual, micro_batches):
                    found.append((schedule, virtual))
        return found

    def shardings(self) -> list[tuple[str, int]]:
        """List what data ranks shard, and over how many of them: all, or those of a node."""
        per_node = self.base.cluster.chips_per_node
        nodes = self.base.cluster.nodes
        found = []
        for sharding in self.allowed("sharding", SHARDINGS):
            hybrid = (0, per_node) if sharding in ("zero3", "fsdp") and nodes > 1 and per_node > 1 else (0,)
            ranks_of_copy = self.allowed("shard_ranks", hybrid)
            found += [(sharding, ranks) for ranks in ranks_of_copy if sharding != "ddp" or not ranks]
        return found

    def placements(self) -> tuple[str, ...]:
        """List orders of the axes."""
        return self.allowed("placement", PLACEMENTS)

    def number_classes(self) -> list[list[tuple[str, int]]]:
        """Group the shardings by how wide they keep numbers: under autocast FSDP differs from the others."""
        groups: dict[Any, list[tuple[str, int]]] = {}
        for sharding, ranks in self.shardings():
            key = numbers(self.base.training, replace(self.fixed, sharding=sharding))
            groups.setdefault(key, []).append((sharding, ranks))
        return list(groups.values())

    def _kind_fits(self, choice: Choice, tp: int) -> bool:
        if tp == 1:
            plain = not choice.sequence_parallel or "sequence_parallel" in self.locked
            return choice.tp_kind == self.allowed("tp_kind", ("1d",))[0] and plain
        return True

    def _depths(self, tp_kind: str, tp: int) -> tuple[int, ...]:
        if tp_kind == "2.5d":
            # Depth 1 is the 2d grid.
            return self.allowed("tp_depth", tuple(d for d in divisors(tp)[1:] if d < tp and grid_fits("2.5d", tp, d)))
        return self.allowed("tp_depth", (1,)) if tp_kind == "1d" or grid_fits(tp_kind, tp) else ()

    def _micro_batches(self, per_rank: int) -> tuple[int, ...]:
        sizes = tuple(size for size in divisors(per_rank) if size <= MAX_MICRO_BATCH)
        return tuple(size for size in self.allowed("micro_batch", sizes) if per_rank % size == 0)

    def _experts(self, ranks: int) -> list[tuple[int, int]]:
        if not self.base.model.experts:
            return [(self.locked.get("ep", 1), self.locked.get("expert_tp", 1))]
        return [
            (ep, expert_tp)
            for ep in self.allowed("ep", divisors(math.gcd(self.base.model.experts, ranks)))
            for expert_tp in self.allowed("expert_tp", (1,))
        ]

    def _legal(self, choice: Choice, shape: Shape) -> bool:
        model, training = self.base.model, self.base.training
        tensor = ("tensor", choice.tp_kind, choice.sequence_parallel, shape.tp, shape.tp_depth, shape.cp,
                  shape.micro_batch if choice.tp_kind != "1d" else 1)  # fmt: skip
        sequence = ("sequence", choice.cp_kind, shape.cp, shape.tp)
        experts = ("experts", shape.ep, shape.expert_tp, shape.dp * shape.cp * shape.tp)
        return (
            self._once(tensor, lambda: not tensor_problems(model, self._plan(choice, shape), training))
            and self._once(sequence, lambda: not context_problems(model, self._plan(choice, shape), training))
            and self._once(experts, lambda: not expert_problems(model, self._plan(choice, shape)))
            and shape.pp <= model.layers
        )

    def _staged(self, schedule: str, stages: int, virtual_stages: int, micro_batches: int) -> bool:
        key = ("staged", schedule, stages, virtual_stages, micro_batches)
        return self._once(
            key, lambda: not pipeline_problems(self.base.model, schedule, stages, virtual_stages, micro_batches)
        )

    def _plan(self, choice: Choice, shape: Shape) -> Plan:
        return plan_of(self.fixed, choice, shape)

    def _once(self, key: tuple[Any, ...], test: Any) -> bool:
        if key not in self._seen:
            self._seen[key] = test()
        return self._seen[key]


def plan_of(fixed: Plan, choice: Choice, shape: Shape, **more: Any) -> Plan:
    """Write a shape under a choice as a plan."""
    return replace(
        fixed,
        tp_kind=choice.tp_kind,
        sequence_parallel=choice.sequence_parallel,
        cp_kind=choice.cp_kind,
        recompute=choice.recompute,
        **{
            name: getattr(shape, name)
            for name in ("tp", "tp_depth", "cp", "ep", "expert_tp", "micro_batch", "pp", "dp")
        },
        **more,
    )


def canonical(placement: str, degrees: Mapping[str, int]) -> bool:
    """Whether a placement stands for all that differ only in where axes of degree 1 come."""
    order = placement.split("-")
    idle = [axis for axis in AXES if degrees[axis] == 1]
    return order[len(order) - len(idle) :] == idle


def divisors(value: int) -> tuple[int, ...]:
    """All divisors, ascending."""
    small = [n for n in range(1, math.isqrt(value) + 1) if value % n == 0]
    return tuple(sorted({*small, *(value // n for n in small)}))
