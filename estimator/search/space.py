"""Space: which plans a search tries, by choice, shape, staging, sharing and placement."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from estimator.scenario.fitting import divisors
from estimator.scenario.grid_shape import grid_fits
from estimator.scenario.legality import context_problems, expert_problems, pipeline_problems, tensor_problems
from estimator.scenario.plan import AXES, CP_KINDS, PLACEMENTS, RECOMPUTES, SCHEDULES, SHARDINGS, TP_KINDS, Plan
from estimator.scenario.precision import byte_widths
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import Scenario


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What decides by branches, not by numbers, how one rank computes."""

    tp_kind: str
    sequence_parallel: bool
    cp_kind: str
    recompute: str
    recompute_every: int = 1


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Sharing:
    """What data ranks share and exchange, and what they leave to the host."""

    sharding: str
    shard_ranks: int = 0
    ddp_mode: str = "bucketed"
    overlap: bool = True
    offload: str = "none"


SHAPE = tuple(f.name for f in fields(Shape))
_DEFAULT = Plan()


def plan_of(
    fixed: Plan, choice: Choice | None = None, shape: Shape | None = None, sharing: Sharing | None = None, **more: Any
) -> Plan:
    """Write a choice, and where they are given a shape and a sharing, as a plan; ``fixed`` has the rest."""
    return replace(fixed, **_values(choice), **_values(shape), **_values(sharing), **more)


def changes(part: Plan | Choice | Shape | Sharing) -> int:
    """Fields of a plan, or of a part of it, that are not at the plan's default."""
    return sum(getattr(part, f.name) != getattr(_DEFAULT, f.name) for f in fields(part))


def _values(part: Choice | Shape | Sharing | None) -> dict[str, Any]:
    return {f.name: getattr(part, f.name) for f in fields(part)} if part is not None else {}


SEARCHED = (
    "dp", "tp", "tp_kind", "tp_depth", "sequence_parallel", "cp", "cp_kind", "pp", "virtual_stages", "schedule", "ep",
    "expert_tp", "sharding", "shard_ranks", "micro_batch", "recompute", "placement",
)  # fmt: skip
"""Fields that a search moves; the others stay at what is locked, or at their default."""


class Space:
    """The plans of one model on one cluster within what is ``locked``, listed by choice, shape, staging and sharing.

    ``further``: values of fields that are searched on request alone, the one that stands for all others first.
    ``beat`` is called many times a second while plans are listed and priced; what it raises ends that.
    """

    def __init__(
        self,
        base: Scenario,
        locked: Mapping[str, Any],
        further: Mapping[str, tuple[Any, ...]] | None = None,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self.base = base
        self.beat = beat
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
            key = byte_widths(self.base.training, replace(self.fixed, sharding=sharing.sharding))
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


MAX_MICRO_BATCH = 128
MAX_ODD_MICRO_BATCH = 16
MAX_EXPERT_TP = 8
"""As far as Explore's sliders go: every divisor up to 16 sequences, beyond them powers of two."""
MAX_SHAPES = 500_000
"""Some GiB of columns while they are priced."""


def too_much(message: str) -> InputProblems:
    """Build the refusal of a search that has more to try than it may."""
    remedy = "Lock a field, e.g. locked.placement, or choose a smaller cluster or global_batch."
    return InputProblems([Problem(field="locked", message=message, remedy=remedy)])


def refuse_many_shapes(count: int) -> None:
    """Raise InputProblems where ``count`` shapes are more than are priced at once."""
    if count > MAX_SHAPES:
        raise too_much(f"more than {MAX_SHAPES} degrees and micro-batches of one rank to price")


def shapes_of(space: Space, choice: Choice) -> list[Shape]:
    """List the shapes of a choice that the model and the batch allow; a degree of 1 has one choice only.

    Raises InputProblems where there are more than MAX_SHAPES.
    """
    chips, batch = space.chips, space.base.training.global_batch
    first_kind = space.allowed("cp_kind", CP_KINDS)[0]
    found: list[Shape] = []
    for tp in space.allowed("tp", divisors(chips)):
        if not _kind_fits(space, choice, tp):
            continue
        for depth in _depths(space, choice.tp_kind, tp):
            for cp in space.allowed("cp", divisors(chips // tp) if chips % tp == 0 else ()):
                space.beat()
                if (chips % (tp * cp)) or (cp == 1 and choice.cp_kind != first_kind):
                    continue
                if not _layers_fit(space, choice, tp, depth, cp):
                    continue
                for pp in space.allowed("pp", divisors(chips // (tp * cp))):
                    if chips % (tp * cp * pp) or pp > space.base.model.layers:
                        continue
                    dp = chips // (tp * cp * pp)
                    if space.locked.get("dp", dp) != dp or batch % dp:
                        continue
                    refuse_many_shapes(len(found))
                    for micro_batch in _micro_batches(space, batch // dp):
                        space.beat()
                        for ep, expert_tp in _experts(space, tp * cp * dp):
                            shape = Shape(tp=tp, tp_depth=depth, cp=cp, ep=ep, expert_tp=expert_tp,
                                          micro_batch=micro_batch, pp=pp, dp=dp)  # fmt: skip
                            if _legal(space, choice, shape):
                                found.append(shape)
    return found


def _kind_fits(space: Space, choice: Choice, tp: int) -> bool:
    if tp == 1:
        plain = not choice.sequence_parallel or "sequence_parallel" in space.locked
        return choice.tp_kind == space.allowed("tp_kind", ("1d",))[0] and plain
    return True


def _depths(space: Space, tp_kind: str, tp: int) -> tuple[int, ...]:
    if tp_kind == "2.5d":
        # Depth 1 is the 2d grid.
        return space.allowed("tp_depth", tuple(d for d in divisors(tp)[1:] if d < tp and grid_fits("2.5d", tp, d)))
    return space.allowed("tp_depth", (1,)) if tp_kind == "1d" or grid_fits(tp_kind, tp) else ()


def _micro_batches(space: Space, per_rank: int) -> tuple[int, ...]:
    sizes = tuple(
        size
        for size in divisors(per_rank)
        if size <= MAX_ODD_MICRO_BATCH or (size <= MAX_MICRO_BATCH and size.bit_count() == 1)
    )
    return tuple(size for size in space.allowed("micro_batch", sizes) if per_rank % size == 0)


def _experts(space: Space, ranks: int) -> list[tuple[int, int]]:
    model, locked = space.base.model, space.locked
    if not model.experts:
        return [(locked.get("ep", 1), locked.get("expert_tp", 1))]
    degrees = space.allowed("ep", divisors(math.gcd(model.experts, ranks)))
    return [
        (ep, expert_tp)
        for ep in degrees
        # Ranks hold whole experts as long as there are any to divide: an expert's tokens then travel once, not twice.
        for expert_tp in space.allowed("expert_tp", (1, 2, 4, MAX_EXPERT_TP) if ep == max(degrees) else (1,))
        if ranks % (ep * expert_tp) == 0 or "expert_tp" in space.locked
    ]


def _layers_fit(space: Space, choice: Choice, tp: int, depth: int, cp: int) -> bool:
    """Whether the model's layers divide over tp and cp, as far as that depends on no micro-batch."""
    model, training = space.base.model, space.base.training
    sequence = ("sequence", choice.cp_kind, cp, tp)
    tensor = ("tensor", choice.tp_kind, choice.sequence_parallel, tp, depth, cp)

    def plan() -> Plan:
        return plan_of(space.fixed, choice, tp=tp, tp_depth=depth, cp=cp)

    return space.once(sequence, lambda: not context_problems(model, plan(), training)) and (
        choice.tp_kind != "1d" or space.once(tensor, lambda: not tensor_problems(model, plan(), training))
    )


def _legal(space: Space, choice: Choice, shape: Shape) -> bool:
    model, training = space.base.model, space.base.training
    grid = ("grid", choice.tp_kind, choice.sequence_parallel, shape.tp, shape.tp_depth, shape.cp, shape.micro_batch)
    experts = ("experts", shape.ep, shape.expert_tp, shape.dp * shape.cp * shape.tp)

    def plan() -> Plan:
        return plan_of(space.fixed, choice, shape)

    return (
        choice.tp_kind == "1d" or space.once(grid, lambda: not tensor_problems(model, plan(), training))
    ) and space.once(experts, lambda: not expert_problems(model, plan()))
