"""Fitting: the legal plan of so many chips that is nearest to one that has another number of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from estimator.scenario.legality import legality, tensor_degrees
from estimator.scenario.model import Model
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training

DEGREES = ("dp", "tp", "pp", "cp", "micro_batch")
"""What may be changed: pp, cp and micro_batch to 1 alone, where what they are does not fit."""

MOST_CHIPS = 1 << 20
"""Of more no plan is looked for: their divisors are not counted in passing."""


def fitting_plans(model: Model, plan: Plan, training: Training, chips: int) -> list[Plan]:
    """Return the legal plan whose degrees differ least, by the sum of the logarithms of their ratios; none if none is.

    Where the model cannot have its tp, that of each of the nearest degrees that it can, as its own problem names them.
    """
    if chips > MOST_CHIPS:
        return []

    def off(one: Plan) -> float:
        return math.fsum(abs(math.log(getattr(one, name) / getattr(plan, name))) for name in DEGREES)

    def is_legal(one: Plan) -> bool:
        whole = training.global_batch % (one.dp * one.micro_batch) == 0
        return whole and not legality(model, one, training)

    legal = filter(is_legal, sorted(_candidates(plan, chips), key=off))
    near = tensor_degrees(model, plan.tp) if plan.tp_kind == "1d" else [plan.tp]
    if near == [plan.tp]:
        return list(itertools.islice(legal, 1))
    best: dict[int, Plan] = {}
    for one in legal:
        best.setdefault(one.tp, one)
    return [best[tp] for tp in near if tp in best] or list(best.values())[:1]


def _candidates(plan: Plan, chips: int) -> Iterator[Plan]:
    """Plans of so many chips, each once."""
    for pp, cp, micro_batch in itertools.product(*({one, 1} for one in (plan.pp, plan.cp, plan.micro_batch))):
        if chips % (pp * cp) == 0:
            ranks = chips // (pp * cp)
            for tp in divisors(ranks):
                yield replace(plan, dp=ranks // tp, tp=tp, pp=pp, cp=cp, micro_batch=micro_batch)


def divisors(value: int) -> tuple[int, ...]:
    """All divisors, ascending."""
    small = [n for n in range(1, math.isqrt(value) + 1) if value % n == 0]
    return tuple(sorted({*small, *(value // n for n in small)}))
