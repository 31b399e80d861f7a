"""Device time: seconds and launches of one part of the network (a block, embedding, head) per micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from estimator.cost.efficiency import Efficiencies
from estimator.cost.price import Priced, price
from estimator.operations.op import Op
from estimator.scenario.breakdown import Category
from estimator.scenario.hardware import Chip
from estimator.scenario.units import Number

DIRECTIONS = ("forward", "input", "weight")
"""Forward; backward towards the inputs, recomputation included; backward towards the weights."""

COMPONENTS = ("products", "attention products", "fused attention", "attention kernels", "kernels")
"""What is priced by the same efficiencies and shown in the same category."""

LAUNCHES = ("forward", "recomputed", "input", "weight")


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Seconds by direction and component, and launches by direction; recomputed kernels are launched like forward.

    ``products``: matrix products with weights in one forward, which tensor parallelism splits. ``norm_launches``:
    kernels of norms among the launches, by phase.
    """

    seconds: Mapping[str, Sequence[Number]]
    launches: Mapping[str, Number]
    products: Number
    norm_launches: Mapping[str, Number]
    priced: tuple[Priced, ...]


def work_of(ops: Iterable[Op], chip: Chip, e: Efficiencies) -> Work:
    """Price every op and add them up."""
    seconds: dict[str, list[Number]] = {direction: [0.0] * len(COMPONENTS) for direction in DIRECTIONS}
    launches: dict[str, Number] = dict.fromkeys(LAUNCHES, 0.0)
    priced = tuple(price(op, chip, e) for op in ops)
    products: Number = 0.0
    norms: dict[str, Number] = {"forward": 0.0, "backward": 0.0}
    for one in priced:
        op = one.op
        forward = op.phase == "forward"
        direction = "forward" if forward else ("weight" if op.weight else "input")
        component = _component(op)
        if forward and component == 0:
            products += op.count
        if component == 4 and "norm" in op.name:
            norms[op.phase] += op.launches * op.count
        seconds[direction][component] += one.seconds * op.count
        launches["recomputed" if op.recomputed else direction] += op.launches * op.count
    return Work(seconds=seconds, launches=launches, products=products, norm_launches=norms, priced=priced)


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


def _component(op: Op) -> int:
    if op.kind == "attention":
        return 2
    if op.category == Category.ATTENTION:
        return 1 if op.kind == "gemm" else 3
    return 0 if op.kind == "gemm" else 4
