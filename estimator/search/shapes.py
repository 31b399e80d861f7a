"""Shapes: what one rank may compute under a choice: the degrees and micro-batches that model and batch allow."""

from __future__ import annotations

import math

from estimator.legality import context_problems, expert_problems, tensor_problems
from estimator.parallel.grid_shape import grid_fits
from estimator.plan import CP_KINDS, Plan
from estimator.search.choice import Choice, Shape, plan_of
from estimator.search.space import Space, divisors

MAX_MICRO_BATCH = 16


def shapes_of(space: Space, choice: Choice) -> list[Shape]:
    """List the shapes of a choice that the model and the batch allow; a degree of 1 has one choice only."""
    chips, batch = space.chips, space.base.training.global_batch
    first_kind = space.allowed("cp_kind", CP_KINDS)[0]
    found = []
    for tp in space.allowed("tp", divisors(chips)):
        if not _kind_fits(space, choice, tp):
            continue
        for depth in _depths(space, choice.tp_kind, tp):
            for cp in space.allowed("cp", divisors(chips // tp) if chips % tp == 0 else ()):
                if (chips % (tp * cp)) or (cp == 1 and choice.cp_kind != first_kind):
                    continue
                for pp in space.allowed("pp", divisors(chips // (tp * cp))):
                    if chips % (tp * cp * pp):
                        continue
                    dp = chips // (tp * cp * pp)
                    if space.locked.get("dp", dp) != dp or batch % dp:
                        continue
                    for micro_batch in _micro_batches(space, batch // dp):
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
    sizes = tuple(size for size in divisors(per_rank) if size <= MAX_MICRO_BATCH)
    return tuple(size for size in space.allowed("micro_batch", sizes) if per_rank % size == 0)


def _experts(space: Space, ranks: int) -> list[tuple[int, int]]:
    model, locked = space.base.model, space.locked
    if not model.experts:
        return [(locked.get("ep", 1), locked.get("expert_tp", 1))]
    return [
        (ep, expert_tp)
        for ep in space.allowed("ep", divisors(math.gcd(model.experts, ranks)))
        for expert_tp in space.allowed("expert_tp", (1,))
    ]


def _legal(space: Space, choice: Choice, shape: Shape) -> bool:
    model, training = space.base.model, space.base.training
    tensor = ("tensor", choice.tp_kind, choice.sequence_parallel, shape.tp, shape.tp_depth, shape.cp,
              shape.micro_batch if choice.tp_kind != "1d" else 1)  # fmt: skip
    sequence = ("sequence", choice.cp_kind, shape.cp, shape.tp)
    experts = ("experts", shape.ep, shape.expert_tp, shape.dp * shape.cp * shape.tp)

    def plan() -> Plan:
        return plan_of(space.fixed, choice, shape)

    return (
        space.once(tensor, lambda: not tensor_problems(model, plan(), training))
        and space.once(sequence, lambda: not context_problems(model, plan(), training))
        and space.once(experts, lambda: not expert_problems(model, plan()))
        and shape.pp <= model.layers
    )
