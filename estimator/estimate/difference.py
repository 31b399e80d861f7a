"""Difference: where the seconds go by which one step differs from another, cause by cause, with nothing left over.

A cause's seconds are a product of factors: t = amount · (seconds / amount), for communication · the share that shows.
Its difference is split by the logarithmic mean Divisia index (Ang 2004, doi 10.1016/j.enpol.2003.10.010), which leaves
no remainder and does not depend on an order of the factors: of factor x the part is L(t_B, t_A) · ln(x_B / x_A), with
L(b, a) = (b - a) / ln(b / a). Where one side does not say a factor, the cause stays whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from estimator.estimate.report import Collective, OpCost, axis_of_ranks
from estimator.scenario.breakdown import CATEGORIES, PHASES, SHOWN_CATEGORIES, Category
from estimator.scenario.measurement import Measurement

UNTOLD = "untold"
"""What either side does not tell apart; the seconds that its causes leave."""
NOTHING_FRAC = 1e-12
"""What rounding leaves of a step is no cause."""
KNOWN_FRAC = 0.99
"""A measured category's amount is known where kernels that say theirs take this share of all its time."""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Seconds that a category takes of one step, those of one ``axis`` of ``ranks`` for communication.

    ``work_s``: of its kernels or collectives, of which only ``seconds`` show; ``amount``: what they compute or move, in
    ``unit``; None where that is not known. ``again_s`` and ``again_amount``: what of both is recomputed in backward,
    ``again_s`` None where nobody tells it apart.
    """

    category: str
    axis: str = ""
    ranks: int = 0
    seconds: float
    work_s: float | None = None
    amount: float | None = None
    unit: str = ""
    again_s: float | None = None
    again_amount: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One step on the way from A to B: B takes ``seconds`` more for it.

    ``name``: a category, a phase where only phases are known, or ``untold``. ``factor``: "amount", "rate" (slower for
    the same amount), "again" (more is recomputed in backward), "overlap" (less of the same is hidden), "work" (amount
    or rate, not told apart), "" for the whole.
    ``a_s`` and ``b_s``: what the whole cause takes on either side, None where that side does not say.
    """

    name: str
    axis: str = ""
    factor: str = ""
    seconds: float
    a_s: float | None
    b_s: float | None
    a_amount: float | None = None
    b_amount: float | None = None
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What one side says of its step: seconds in all, by category and by phase, as far as it knows them."""

    step_time_s: float | None
    spent: Sequence[Spent] = ()
    phases_s: Mapping[str, float] | None = None


def spent_of_prediction(
    breakdown_s: Mapping[str, float], ops: Iterable[OpCost], collectives: Iterable[Collective]
) -> tuple[Spent, ...]:
    """Give the categories of an estimate; communication by axis, so that the axes add to what shows."""
    amounts: dict[str, float] = {}
    again: dict[str, tuple[float, float]] = {}
    for op in ops:
        unit = SHOWN_CATEGORIES[op.category].amount_unit
        amount = op.flops if unit == "FLOP" else op.bytes
        amounts[op.category] = amounts.get(op.category, 0.0) + amount
        if op.recomputed:
            again_s, again_amount = again.get(op.category, (0.0, 0.0))
            again[op.category] = (again_s + op.seconds, again_amount + amount)
    found = []
    for name, seconds in breakdown_s.items():
        if name != Category.COMMUNICATION:
            again_s, again_amount = again.get(name, (0.0, 0.0))
            found.append(
                Spent(
                    category=name,
                    seconds=seconds,
                    amount=amounts.get(name),
                    unit=SHOWN_CATEGORIES[name].amount_unit,
                    again_s=min(again_s, seconds),  # of kernels beside others less may show
                    again_amount=again_amount,
                )
            )
    return (*found, *_by_axis(breakdown_s.get(Category.COMMUNICATION, 0.0), collectives))


def _by_axis(seconds: float, collectives: Iterable[Collective]) -> list[Spent]:
    by: dict[str, list[float]] = {}
    ranks: dict[str, int] = {}
    for one in collectives:
        ranks[one.axis] = max(one.ranks, ranks.get(one.axis, 0))
        sums = by.setdefault(one.axis, [0.0, 0.0, 0.0])
        for index, value in enumerate((one.exposed_s, one.seconds, one.bytes * one.count)):
            sums[index] += value
    listed = math.fsum(sums[0] for sums in by.values())
    found = [
        Spent(
            category=Category.COMMUNICATION,
            axis=axis,
            ranks=ranks[axis],
            # what an op list's queue shows is not told by collective: each axis shows its share of it
            seconds=seconds * shown / listed if listed > 0 else seconds / len(by),
            work_s=work,
            amount=moved or None,
            unit="bytes",
        )
        for axis, (shown, work, moved) in by.items()
    ]
    return found or [Spent(category=Category.COMMUNICATION, seconds=seconds, work_s=0.0, amount=0.0, unit="bytes")]


def spent_of_measurement(measurement: Measurement) -> tuple[Spent, ...]:
    """Give the categories that a measurement tells apart; amounts where kernels that say theirs take nearly all."""
    found = []
    for name, seconds in measurement.breakdown_s.items():
        kernels = [one for one in measurement.kernels if one.category == name]
        work_s = math.fsum(one.total_s for one in kernels) or None
        unit = SHOWN_CATEGORIES[name].amount_unit
        said = [(one.flops if unit == "FLOP" else one.bytes, one.total_s) for one in kernels]
        known_s = math.fsum(each_s for amount, each_s in said if amount)
        # a result may keep its longest kernels alone: what they leave of the category has an amount, too
        known = unit and work_s and known_s >= KNOWN_FRAC * max(work_s, seconds)
        found.append(
            Spent(
                category=name,
                seconds=seconds,
                work_s=work_s if name == Category.COMMUNICATION else None,
                amount=math.fsum(amount or 0.0 for amount, _ in said) if known else None,
                unit=unit,
            )
        )
    return tuple(found)


def causes(a: Told, b: Told) -> tuple[Cause, ...]:
    """Say where B's step time differs from A's; the causes' seconds add to B - A. Empty where a step time is not known.

    By category where both tell any, else by phase, else in one piece.
    """
    if a.step_time_s is None or b.step_time_s is None:
        return ()
    found: list[Cause] = []
    if a.spent and b.spent:
        for category in CATEGORIES:
            found += _of_category(_named(a.spent, category), _named(b.spent, category), category)
    elif a.phases_s and b.phases_s:
        both = [name for name in PHASES if name in a.phases_s and name in b.phases_s]
        of_a, of_b = _within(a.phases_s, a.step_time_s), _within(b.phases_s, b.step_time_s)
        sides = [(name, of_a[name], of_b[name]) for name in both]
        found = [Cause(name=name, seconds=t_b - t_a, a_s=t_a, b_s=t_b) for name, t_a, t_b in sides if t_a or t_b]
    a_rest_s = _left(a.step_time_s, _told(found, "a_s"))
    b_rest_s = _left(b.step_time_s, _told(found, "b_s"))
    untold_s = (b.step_time_s - a.step_time_s) - math.fsum(one.seconds for one in found)
    if found and abs(untold_s) <= NOTHING_FRAC * max(a.step_time_s, b.step_time_s):
        return tuple(found)
    return (*found, Cause(name=UNTOLD, seconds=untold_s, a_s=a_rest_s, b_s=b_rest_s))


def _left(step_time_s: float, told_s: Sequence[float]) -> float:
    """What the causes leave of a step, s; nothing where that is rounding."""
    rest_s = step_time_s - math.fsum(told_s)
    return rest_s if abs(rest_s) > NOTHING_FRAC * step_time_s else 0.0


def _within(phases_s: Mapping[str, float], step_time_s: float) -> dict[str, float]:
    """Phases, s; as shares of the step where they add to more: the medians of each do, and figures of few digits."""
    share = min(1.0, step_time_s / (math.fsum(phases_s.values()) or math.inf))
    return {name: seconds * share for name, seconds in phases_s.items()}


def _told(found: Sequence[Cause], letter: str) -> list[float]:
    """What the causes take on one side, each once though it may have several factors."""
    return list({(one.name, one.axis): getattr(one, letter) for one in found}.values())


def _named(spent: Sequence[Spent], category: str) -> list[Spent]:
    return [one for one in spent if one.category == category]


def _of_category(a: list[Spent], b: list[Spent], category: str) -> list[Cause]:
    """The causes of one category; none where a side does not tell it, so that it stays in the rest."""
    if not a or not b:
        return []
    if not all(one.axis for one in (*a, *b)) and (len(a) > 1 or len(b) > 1 or a[0].axis != b[0].axis):
        a, b = [_together(a)], [_together(b)]
    a, b = _as_called(a, b), _as_called(b, a)
    axes = dict.fromkeys(one.axis for one in (*a, *b))
    unit = SHOWN_CATEGORIES[category].amount_unit
    nothing = Spent(category=category, seconds=0.0, work_s=0.0, amount=0.0, unit=unit, again_s=0.0)
    found = []
    for axis in axes:
        one = next((one for one in a if one.axis == axis), nothing)
        other = next((one for one in b if one.axis == axis), nothing)
        if one.seconds or other.seconds:
            found += _split(one, other, axis)
    return found


def _as_called(spent: list[Spent], other: list[Spent]) -> list[Spent]:
    """Call an axis that only its number of ranks names as the other side does, where that has one of as many."""
    found, own = [], {one.axis for one in spent}
    for one in spent:
        alike = [its for its in other if its.ranks == one.ranks and its.axis not in own - {one.axis}]
        unnamed = one.ranks > 0 and one.axis == axis_of_ranks(one.ranks)
        found.append(replace(one, axis=alike[0].axis) if unnamed and len(alike) == 1 else one)
    return found


def _together(spent: list[Spent]) -> Spent:
    def added(of: Callable[[Spent], float | None]) -> float | None:
        values = [of(one) for one in spent]
        return None if any(value is None for value in values) else math.fsum(value or 0.0 for value in values)

    return Spent(
        category=spent[0].category,
        seconds=math.fsum(one.seconds for one in spent),
        work_s=added(lambda one: one.work_s),
        amount=added(lambda one: one.amount),
        unit=spent[0].unit,
        again_s=added(lambda one: one.again_s),
        again_amount=math.fsum(one.again_amount for one in spent),
    )


def _split(a: Spent, b: Spent, axis: str) -> list[Cause]:
    recomputes = a.again_s is not None and b.again_s is not None and (a.again_s > 0 or b.again_s > 0)
    if not recomputes:
        return [_cause(a, b, axis, factor, part, (a.amount, b.amount)) for factor, part in _parts(a, b).items()]
    # a forward kernel has another rate than one of backward: together their mean would differ by the share of each
    once, again = _parts(_once(a), _once(b)), _parts(_again(a), _again(b))
    rate_s = again.pop("rate", 0.0)
    if "rate" in once or rate_s:
        once["rate"] = once.get("rate", 0.0) + rate_s
    amounts, amounts_again = (_once(a).amount, _once(b).amount), (a.again_amount, b.again_amount)
    first = [_cause(a, b, axis, factor, part, amounts) for factor, part in once.items() if factor != "rate"]
    last = [_cause(a, b, axis, factor, part, amounts) for factor, part in once.items() if factor == "rate"]
    return [*first, _cause(a, b, axis, "again", math.fsum(again.values()), amounts_again), *last]


def _cause(
    a: Spent, b: Spent, axis: str, factor: str, seconds: float, amounts: tuple[float | None, float | None]
) -> Cause:
    return Cause(
        name=a.category, axis=axis, factor=factor, seconds=seconds, a_s=a.seconds, b_s=b.seconds,
        a_amount=amounts[0], b_amount=amounts[1], unit=a.unit or b.unit,
    )  # fmt: skip


def _once(spent: Spent) -> Spent:
    amount = None if spent.amount is None else spent.amount - spent.again_amount
    return replace(spent, seconds=spent.seconds - (spent.again_s or 0.0), amount=amount)


def _again(spent: Spent) -> Spent:
    return replace(spent, seconds=spent.again_s or 0.0, amount=None if spent.amount is None else spent.again_amount)


def _parts(a: Spent, b: Spent) -> dict[str, float]:
    """By how many seconds each factor makes B differ from A."""
    factors = _factors(a, b)
    parts = divided([ratios for _, ratios in factors], b.seconds - a.seconds)
    return {factor: part for (factor, _), part in zip(factors, parts, strict=True)}


def _factors(a: Spent, b: Spent) -> list[tuple[str, tuple[float, float]]]:
    """The factors whose product is each side's seconds: what both know."""
    whole = (a.seconds, b.seconds)
    amounts = None if a.amount is None or b.amount is None else (a.amount, b.amount)
    works = None if a.work_s is None or b.work_s is None else (a.work_s, b.work_s)
    found: list[tuple[str, tuple[float, float]]] = []
    if works:
        per = [("amount", amounts), ("rate", _ratio(works, amounts))] if amounts else [("work", works)]
        found = [*per, ("overlap", _ratio(whole, works))]
    elif amounts:
        found = [("amount", amounts), ("rate", _ratio(whole, amounts))]
    usable = found and all(_agree(whole, [pair for _, pair in found], side) for side in (0, 1))
    return found if usable else [("", whole)]


def _ratio(over: tuple[float, float], under: tuple[float, float]) -> tuple[float, float]:
    return (_over(over[0], under[0]), _over(over[1], under[1]))


def _over(value: float, by: float) -> float:
    """A quotient; 1 where nothing is divided by nothing: no amount at no rate."""
    return value / by if by > 0 else 1.0


def _agree(whole: tuple[float, float], pairs: Sequence[tuple[float, float]], side: int) -> bool:
    """Whether the factors give the seconds: kernels that take no time, or time without an amount, do not."""
    product = math.prod(pair[side] for pair in pairs)
    return math.isfinite(product) and abs(product - whole[side]) <= 1e-9 * max(whole[side], 1e-30)


def divided(factors: Sequence[tuple[float, float]], difference: float) -> list[float]:
    """Split the difference of two products over their factors, (x_A, x_B) each; the parts add to ``difference``.

    Where a product is nothing, the factors that vanish (equally, where several do) are the cause.
    """
    a, b = (math.prod(pair[side] for pair in factors) for side in (0, 1))
    if a > 0 and b > 0:
        logs = [math.log(pair[1] / pair[0]) for pair in factors]
        mean = a if b == a else (b - a) / math.log(b / a)
        parts = [mean * log for log in logs]
    else:
        gone = [min(pair) <= 0 for pair in factors]
        parts = [difference * yes / max(sum(gone), 1) for yes in gone]
    # the last digit goes where the most is
    largest = max(range(len(parts)), key=lambda index: abs(parts[index]))
    parts[largest] += difference - math.fsum(parts)
    return parts
