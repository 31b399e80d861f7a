"""Device time: seconds and launches of one part of the network (a block, embedding, head) per micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from estimator.cost.efficiency import Efficiencies
from estimator.cost.host import new_products_s
from estimator.cost.price import Priced, price
from estimator.operations.op import HEAD_NORMS, Op, norms_of
from estimator.scenario.arrays import maximum, where
from estimator.scenario.breakdown import ARITHMETIC, SHOWN_CATEGORIES, Category
from estimator.scenario.hardware import Chip
from estimator.scenario.units import Number

DIRECTIONS = ("forward", "input", "weight")
"""Forward; backward towards the inputs, recomputation included; backward towards the weights."""

COMPONENTS = tuple((category, kind) for category, shown in SHOWN_CATEGORIES.items() for kind in shown.op_kinds)
"""What is priced by the same efficiencies and shown in the same category: a category and a kind of ops."""
PLACE = {component: place for place, component in enumerate(COMPONENTS)}
PLACES = {
    category: tuple(PLACE[category, kind] for kind in shown.op_kinds)
    for category, shown in SHOWN_CATEGORIES.items()
    if shown.op_kinds
}
"""Of each category that a network's ops have."""
PRODUCTS = PLACE[Category.MATMUL, "gemm"]
PRODUCTS_AND_ATTENTION = tuple(place for category in ARITHMETIC for place in PLACES[category])
"""What has products, with the kernels that stand between them: all that is not plain traffic of memory."""

LAUNCHES = ("forward", "recomputed", "input", "weight")


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Seconds by direction and component, and launches by direction; recomputed kernels are launched like forward.

    ``products``: matrix products with weights in one forward, which tensor parallelism splits; ``products_again``:
    those of them that backward runs once more; ``regions``: pieces that are checkpointed; ``norms``: norms of a
    forward; ``head_norms``, ``head_norms_again``: those of queries and keys, apart; ``biased``: products with a bias.
    ``norm_launches``: kernels of ``norms`` among the launches, by phase.
    ``views``: ops of the host that launch nothing, ``plain``: kernels of plain PyTorch beside the launches, both by
    direction; ``redone_s``: seconds of recomputed kernels by component; ``new_s``: what the host takes longer in a pass
    for products whose rows a router chose. ``expert_calls``, ``experts_s``: what of forward's launches and views, and
    of its seconds by component, experts are, for whose rows the host may have to wait.
    """

    seconds: Mapping[str, Sequence[Number]]
    launches: Mapping[str, Number]
    products: Number
    norm_launches: Mapping[str, Number]
    priced: tuple[Priced, ...]
    products_again: Number = 0.0
    regions: Number = 0.0
    packed: Number = 0.0
    norms: Number = 0.0
    head_norms: Number = 0.0
    head_norms_again: Number = 0.0
    biased: Number = 0.0
    views: Mapping[str, Number] = field(default_factory=dict)
    plain: Mapping[str, Number] = field(default_factory=dict)
    redone_s: Sequence[Number] = (0.0,) * len(COMPONENTS)
    new_s: Mapping[str, Number] = field(default_factory=dict)
    expert_calls: Number = 0.0
    experts_s: Sequence[Number] = (0.0,) * len(COMPONENTS)


def work_of(ops: Iterable[Op], chip: Chip, e: Efficiencies) -> Work:
    """Price every op and add them up."""
    seconds: dict[str, list[Number]] = {direction: [0.0] * len(COMPONENTS) for direction in DIRECTIONS}
    launches: dict[str, Number] = dict.fromkeys(LAUNCHES, 0.0)
    priced = tuple(price(op, chip, e) for op in ops)
    products: Number = 0.0
    again: Number = 0.0
    regions: Number = 0.0
    packed: Number = 0.0
    norm_ops: Number = 0.0
    head_norms: Number = 0.0
    head_norms_again: Number = 0.0
    biased: Number = 0.0
    norms: dict[str, Number] = {"forward": 0.0, "backward": 0.0}
    views: dict[str, Number] = dict.fromkeys(LAUNCHES, 0.0)
    plain: dict[str, Number] = dict.fromkeys(LAUNCHES, 0.0)
    new: dict[str, Number] = {"forward": 0.0, "backward": 0.0}
    expert_calls: Number = 0.0
    experts: list[Number] = [0.0] * len(COMPONENTS)
    redone: list[Number] = [0.0] * len(COMPONENTS)
    for one in priced:
        op = one.op
        direction = _direction(op)
        component = PLACE[op.category, op.kind]
        if component == PRODUCTS and op.recomputed:
            again += op.count
        elif direction == "forward" and component == PRODUCTS:
            products += op.count
        if op.name.endswith("bias gradient"):
            biased += op.launches * op.count
        if op.name == HEAD_NORMS:
            head_norms_again += norms_of(op) * op.count if op.recomputed else 0.0
            head_norms += norms_of(op) * op.count if direction == "forward" and not op.recomputed else 0.0
        elif norms_of(op):
            norms[op.phase] += op.launches * op.count
            norm_ops += op.count if direction == "forward" else 0.0
        seconds[direction][component] += one.seconds * op.count
        if op.recomputed:
            redone[component] += one.seconds * op.count
        launched = "recomputed" if op.recomputed else direction
        launches[launched] += op.launches * op.count
        regions += op.regions
        packed += op.packed * op.count
        views[launched] += op.views * op.count
        plain[launched] += op.plain * op.count
        if not isinstance(op.alike, float) or op.alike:
            rows = op.k if op.weight else op.m
            new[op.phase] += new_products_s(op.launches * op.count, op.alike, rows, e)
        if _of_experts(op):
            expert_calls += (op.launches + op.views) * op.count
            experts[component] += one.seconds * op.count
    return Work(seconds=seconds, launches=launches, products=products, norm_launches=norms, priced=priced,
                products_again=again, regions=regions, packed=packed, norms=norm_ops, head_norms=head_norms,
                head_norms_again=head_norms_again, biased=biased, views=views, plain=plain,
                redone_s=redone, new_s=new, expert_calls=expert_calls, experts_s=experts)  # fmt: skip


def in_steps(parts: Sequence[Work], e: Efficiencies, clock: Number = 1.0) -> list[Work]:
    """The parts of a rank with products as fast as inside steps, and fused attention, at so much of the ``clock``."""
    if as_alone(e) and isinstance(clock, float) and clock == 1.0:
        return list(parts)
    return [_in_step(work, e, clock) for work in parts]


def as_alone(e: Efficiencies) -> bool:
    """Whether products run inside steps as they do alone."""
    return e.lower_bound or e.gemm_in_step_factor == 1.0


def slower(clock: Number, e: Efficiencies) -> Number:
    """How many times as long as at the full clock is what units bind, of whose time ``clocked_frac`` follows it."""
    return 1.0 + e.clocked_frac * (1.0 / clock - 1.0)


def at_clock(one: Priced, clock: Number, e: Efficiencies) -> Priced:
    """An op inside a step at so much of the full ``clock``: what units take is ``slower``, the rest as it was.

    Products, whose rates are those of products alone, are as much faster as they are in steps.
    """
    if isinstance(one.units_s, float) and one.units_s == 0.0:
        return one
    times = slower(clock, e) / (e.gemm_in_step_factor if one.op.kind == "gemm" else 1.0)
    return replace(one, seconds=one.seconds + one.units_s * (times - 1.0), compute_s=one.compute_s * times)


def _in_step(work: Work, e: Efficiencies, clock: Number) -> Work:
    priced = tuple(at_clock(one, clock, e) for one in work.priced)
    seconds = {direction: list(work.seconds[direction]) for direction in DIRECTIONS}
    experts, redone = list(work.experts_s), list(work.redone_s)
    for before, after in zip(work.priced, priced, strict=True):
        if after is not before:
            more_s = (after.seconds - before.seconds) * after.op.count
            seconds[_direction(after.op)][PLACE[after.op.category, after.op.kind]] += more_s
            if _of_experts(after.op):
                experts[PRODUCTS] += more_s
            if after.op.recomputed:
                redone[PLACE[after.op.category, after.op.kind]] += more_s
    return replace(work, seconds=seconds, priced=priced, experts_s=experts, redone_s=redone)


def runs_again(work: Work) -> Number:
    """How often a checkpointed block runs again where each of its weights gets its gradient by itself.

    Once for each product and each norm that has weights, whole regions at a time.
    """
    weights = work.products + work.norms + work.head_norms
    return where(work.regions > 0, weights / maximum(work.regions, 1e-9), 0.0)


def with_weights_apart(work: Work, share: float) -> Work:
    """The work with what a ``share`` of its weights run again for their gradients, as ops beside those."""
    times = share * runs_again(work)
    again = (
        replace(one, op=replace(one.op, count=one.op.count * times, weight=True))
        for one in work.priced
        if one.op.recomputed
    )
    weight = [own + times * redone for own, redone in zip(work.seconds["weight"], work.redone_s, strict=True)]
    return replace(work, seconds={**work.seconds, "weight": weight}, priced=(*work.priced, *again))


def attention_s(work: Work) -> dict[str, Number]:
    """Device seconds of attention's core by phase."""
    forward, towards_input, weight = (of_category(work.seconds[one], Category.ATTENTION) for one in DIRECTIONS)
    return {"forward": forward, "backward": towards_input + weight}


def of_category(seconds: Sequence[Number], category: str) -> Number:
    """Seconds of a category, of those of all components."""
    return sum(seconds[place] for place in PLACES[category])


def device_s(work: Work) -> dict[str, Number]:
    """Device seconds of a part by phase."""
    seconds = work.seconds
    return {"forward": sum(seconds["forward"]), "backward": sum(seconds["input"]) + sum(seconds["weight"])}


def products_s(work: Work) -> dict[str, Number]:
    """Device seconds of a part's matrix products outside attention, by phase."""
    seconds = work.seconds
    return {
        "forward": seconds["forward"][PRODUCTS],
        "backward": seconds["input"][PRODUCTS] + seconds["weight"][PRODUCTS],
    }


def _of_experts(op: Op) -> bool:
    """Whether it waits in forward for what a router chose."""
    return op.phase == "forward" and op.name.startswith("expert ")


def _direction(op: Op) -> str:
    if op.phase == "forward":
        return "forward"
    return "weight" if op.weight else "input"
