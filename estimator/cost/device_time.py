"""Device time: seconds and launches of one part of the network (a block, embedding, head) per micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from estimator.cost.efficiency import Efficiencies
from estimator.cost.price import Priced, price
from estimator.operations.op import Op
from estimator.scenario.arrays import maximum, minimum
from estimator.scenario.breakdown import Category
from estimator.scenario.hardware import Chip
from estimator.scenario.units import Number

DIRECTIONS = ("forward", "input", "weight")
"""Forward; backward towards the inputs, recomputation included; backward towards the weights."""

COMPONENTS = ("products", "attention products", "fused attention", "attention kernels", "kernels")
"""What is priced by the same efficiencies and shown in the same category."""
PRODUCTS = COMPONENTS[:3]
"""What draws a chip's power."""

LAUNCHES = ("forward", "recomputed", "input", "weight")


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Seconds by direction and component, and launches by direction; recomputed kernels are launched like forward.

    ``products``: matrix products with weights in one forward, which tensor parallelism splits; ``products_again``:
    those of them that backward runs once more. ``norm_launches``: kernels of norms among the launches, by phase.
    """

    seconds: Mapping[str, Sequence[Number]]
    launches: Mapping[str, Number]
    products: Number
    norm_launches: Mapping[str, Number]
    priced: tuple[Priced, ...]
    products_again: Number = 0.0


def work_of(ops: Iterable[Op], chip: Chip, e: Efficiencies) -> Work:
    """Price every op and add them up."""
    seconds: dict[str, list[Number]] = {direction: [0.0] * len(COMPONENTS) for direction in DIRECTIONS}
    launches: dict[str, Number] = dict.fromkeys(LAUNCHES, 0.0)
    priced = tuple(price(op, chip, e) for op in ops)
    products: Number = 0.0
    again: Number = 0.0
    norms: dict[str, Number] = {"forward": 0.0, "backward": 0.0}
    for one in priced:
        op = one.op
        direction = _direction(op)
        component = _component(op)
        if component == 0 and op.recomputed:
            again += op.count
        elif direction == "forward" and component == 0:
            products += op.count
        if component == 4 and "norm" in op.name:
            norms[op.phase] += op.launches * op.count
        seconds[direction][component] += one.seconds * op.count
        launches["recomputed" if op.recomputed else direction] += op.launches * op.count
    return Work(seconds=seconds, launches=launches, products=products, norm_launches=norms, priced=priced,
                products_again=again)  # fmt: skip


def at_clock(parts: Sequence[tuple[Work, Number]], e: Efficiencies) -> list[Work]:
    """The parts of a rank, each as often as it runs, at the clock that their products leave the chip."""
    if one_clock(e):
        return [work for work, _ in parts]
    busy, every = (
        sum((_seconds(work, of) * times for work, times in parts), start=0.0) for of in (PRODUCTS, COMPONENTS)
    )
    factor = clock_factor(busy / maximum(every, 1e-30), e)
    return [_products_at(work, factor, e) for work, _ in parts]


def one_clock(e: Efficiencies) -> bool:
    """Whether products run inside steps as they do alone."""
    return e.lower_bound or e.power_free_factor == e.power_bound_factor == 1.0


def clock_factor(share: Number, e: Efficiencies) -> Number:
    """Rate of products on matrix units inside a step, over that of the same products alone.

    Matrix units draw more power than anything else: a chip whose device time they fill lowers its clock, one that
    spends the time between them on memory keeps it. The factor falls from ``power_free_factor`` to
    ``power_bound_factor`` as products and attention go from ``power_free_frac`` to ``power_bound_frac`` of forward's
    and backward's device time (NVIDIA H200, clocks and kernel tables of 23 steps: 0.88 of peak at 1980 MHz, 0.77 at
    1740).
    """
    far = minimum(maximum((share - e.power_free_frac) / (e.power_bound_frac - e.power_free_frac), 0.0), 1.0)
    return e.power_free_factor + (e.power_bound_factor - e.power_free_factor) * far


def at_factor(one: Priced, factor: Number, e: Efficiencies) -> Priced:
    """A product on matrix units at ``factor`` times its rate, as far as that binds it; anything else as it is.

    Of (compute^p + memory^p)^(1/p) the share compute^p / (compute^p + memory^p) follows the rate.
    """
    if one.op.kind != "gemm" or one.op.category != Category.MATMUL or one.op.precision == "fp32":
        return one
    bound = 1.0 / (1.0 + (one.memory_s / maximum(one.compute_s, 1e-30)) ** e.gemm_overlap_power)
    return replace(one, seconds=one.seconds * (1.0 + bound * (1.0 / factor - 1.0)), compute_s=one.compute_s / factor)


def _seconds(work: Work, components: Sequence[str]) -> Number:
    indices = [COMPONENTS.index(name) for name in components]
    return sum((work.seconds[direction][index] for direction in DIRECTIONS for index in indices), start=0.0)


def _products_at(work: Work, factor: Number, e: Efficiencies) -> Work:
    priced = tuple(at_factor(one, factor, e) for one in work.priced)
    seconds = {direction: list(work.seconds[direction]) for direction in DIRECTIONS}
    for before, after in zip(work.priced, priced, strict=True):
        if after is not before:
            seconds[_direction(after.op)][0] += (after.seconds - before.seconds) * after.op.count
    return replace(work, seconds=seconds, priced=priced)


def attention_s(work: Work) -> dict[str, Number]:
    """Device seconds of attention's core by phase."""
    seconds = work.seconds
    return {
        "forward": sum(seconds["forward"][1:4]),
        "backward": sum(seconds["input"][1:4]) + sum(seconds["weight"][1:4]),
    }


def device_s(work: Work) -> dict[str, Number]:
    """Device seconds of a part by phase."""
    seconds = work.seconds
    return {"forward": sum(seconds["forward"]), "backward": sum(seconds["input"]) + sum(seconds["weight"])}


def products_s(work: Work) -> dict[str, Number]:
    """Device seconds of a part's matrix products outside attention, by phase."""
    seconds = work.seconds
    return {"forward": seconds["forward"][0], "backward": seconds["input"][0] + seconds["weight"][0]}


def _direction(op: Op) -> str:
    if op.phase == "forward":
        return "forward"
    return "weight" if op.weight else "input"


def _component(op: Op) -> int:
    if op.kind == "attention":
        return 2
    if op.category == Category.ATTENTION:
        return 1 if op.kind == "gemm" else 3
    return 0 if op.kind == "gemm" else 4
