"""Causes: of the sets of the project's own steps, whose binding, precision and plan the error is, and what can be had.

``make accuracy ARGS=--causes`` writes docs/accuracy.md's tables of them, of probed series by who binds as well. A
step is the host's where the device waits for the host more than a tenth of its predicted time. The same steps were
measured on two days, of other hosts of the kind: no prediction that knows neither host is nearer to both days than half
of what they differ by.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

from benchmarks.measured_sets import Scored
from estimator.estimate.residual import WAITS
from estimator.validation.score import errors

FEWEST = 4
"""Steps that a line of its own needs; fewer are told together."""
SETS = (
    "h200 steps, first day",
    "h200 steps, second day",
    "h200 plans, one GPU",
    "h200 plans, two GPUs",
    "h200 plans, two GPUs, again, by its probes",
    "h200 plans, four GPUs",
)
DAYS = (
    ("h200 steps", "h200 steps, first day", "h200 steps, second day"),
    ("h200 plans, two GPUs", "h200 plans, two GPUs", "h200 plans, two GPUs, again"),
)
"""Sets of the same steps, measured on two days."""
HEAD = [
    "| set | binds | which steps | steps | time, median | nine of ten | mean | bias | of the set's mean |",
    "|---|---|---|--:|--:|--:|--:|--:|--:|",
]
DAYS_HEAD = [
    "| steps of two days | binds | steps | differ, median | nine of ten | one prediction at best | nine of ten |",
    "|---|---|--:|--:|--:|--:|--:|",
]
PROBED, PACED = ", by its probes", ", by its probes at its pace"
PROBED_HEAD = [
    "| probed series: median and nine of ten | the device binds | by its probes | at its pace | the host binds |"
    " by its probes | at its pace | all | by its probes | at its pace | the two differ |",
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
]


def causes(by_set: dict[str, list[Scored]]) -> list[str]:
    """Lines of all tables, of those of their sets that are at hand."""
    lines = [*HEAD]
    for name in SETS:
        timed = [one for one in by_set.get(name, []) if one.time is not None and one.waits_frac is not None]
        whole = sum(abs(one.time or 0.0) for one in timed)
        for binds in ("the device", "the host"):
            group = [one for one in timed if bound_by(one) == binds]
            for which, members in parted(group):
                lines.append(line(name, binds, which, members, whole))
    lines += ["", *DAYS_HEAD]
    for title, first, second in DAYS:
        pairs = list(same(by_set.get(first, []), by_set.get(second, [])))
        for which, chosen in (
            ("all", pairs),
            *((binds, [pair for pair in pairs if bound_by(pair[0]) == binds]) for binds in ("the device", "the host")),
        ):
            if chosen:
                lines.append(days_line(title, which, chosen))
    lines += ["", *PROBED_HEAD]
    lines += [probed_line(name, by_set[name + PROBED], by_set[name + PACED]) for name in probed(by_set)]
    return lines


def probed(by_set: dict[str, list[Scored]]) -> list[str]:
    """Series that were predicted by their host's probes, and at the pace noted beside each step as well."""
    return [name.removesuffix(PROBED) for name in by_set if name.endswith(PROBED)
            and name.removesuffix(PROBED) + PACED in by_set]  # fmt: skip


def probed_line(name: str, by_probes: Sequence[Scored], at_pace: Sequence[Scored]) -> str:
    """One line: how many steps the device and the host bind at the noted pace, and how far off both predictions are.

    At last what these differ by: what paces alone say that the host has moved between probes and steps.
    """
    before = {one.step: one for one in by_probes if one.time is not None}
    pairs = [(before[one.step], one) for one in at_pace if one.time is not None and one.step in before]
    cells = [name]
    for which in ("the device", "the host", ""):
        group = [pair for pair in pairs if which in ("", bound_by(pair[1]))]
        cells.append(str(len(group)))
        for errors_pct in ([one.time for one, _ in group], [one.time for _, one in group]):
            cells.append(_both(errors_pct) if group else "")
    moved = [100 * ((100 + (one.time or 0.0)) / (100 + (other.time or 0.0)) - 1) for other, one in pairs]
    return f"| {' | '.join([*cells, _both(moved)])} |"


def _both(errors_pct: Sequence[float | None]) -> str:
    found = errors(errors_pct)
    return f"{found.median_ape or 0.0:.1f} / {found.p90_ape or 0.0:.1f} %"


def bound_by(one: Scored) -> str:
    """What binds a step, as it is predicted."""
    return "the host" if (one.waits_frac or 0.0) > WAITS else "the device"


def parted(group: Sequence[Scored]) -> Iterator[tuple[str, list[Scored]]]:
    """All of a group, then by precision on one GPU and by plan on several, where more than one has enough steps."""
    if not group:
        return
    yield "all", list(group)
    what: Callable[[Scored], str] = (
        (lambda one: one.plan) if any(one.plan for one in group) else (lambda one: one.precision)
    )
    found: dict[str, list[Scored]] = {}
    for one in group:
        found.setdefault(what(one), []).append(one)
    few = [one for members in found.values() if len(members) < FEWEST for one in members]
    named = {name: members for name, members in sorted(found.items()) if len(members) >= FEWEST}
    if len(named) + bool(few) > 1:
        yield from named.items()
        if few:
            yield "others", few


def line(name: str, binds: str, which: str, members: Sequence[Scored], whole: float) -> str:
    """One line: errors of some steps, and their part of the set's mean error."""
    found = errors([one.time for one in members])
    share = 100 * sum(abs(one.time or 0.0) for one in members) / whole if whole else 0.0
    cells = [f"{value or 0.0:.1f} %" for value in (found.median_ape, found.p90_ape, found.mape, found.bias)]
    return f"| {name} | {binds} | {which} | {found.n} | {' | '.join(cells)} | {share:.0f} % |"


def same(first: Sequence[Scored], second: Sequence[Scored]) -> Iterator[tuple[Scored, Scored]]:
    """Steps that both days measured."""
    later = {one.step: one for one in second if one.step}
    for one in first:
        other = later.get(one.step)
        if other and all(each.time is not None and each.measured_s for each in (one, other)):
            yield one, other


def days_line(title: str, which: str, pairs: Sequence[tuple[Scored, Scored]]) -> str:
    """How far measured times of two days are apart, and what a prediction between them is off by."""
    ratios = sorted(abs(math.log((one.measured_s or 1.0) / (other.measured_s or 1.0))) for one, other in pairs)
    median, nine = statistics.median(ratios), ratios[min(int(0.9 * len(ratios)), len(ratios) - 1)]
    cells = [f"{100 * (math.exp(ratio) - 1):.1f} %" for ratio in (median, nine, median / 2, nine / 2)]
    return f"| {title} | {which} | {len(pairs)} | {' | '.join(cells)} |"
