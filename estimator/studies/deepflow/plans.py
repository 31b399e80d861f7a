"""Plans of the LSTM on many chips: every mix of data, layer and kernel parallelism, fastest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from estimator import lstm_step
from estimator.lstm_plan import LstmPlan, replica
from estimator.lstm_price import Rates
from estimator.networks import lstm, lstm_memory
from estimator.networks.lstm import Lstm
from estimator.parallel import kernel
from estimator.parallel.kernel import KernelSplit
from estimator.problems import InputProblems
from estimator.studies.deepflow.inputs import Inputs, machine_of, model_of, rates_of, technology_of
from estimator.technology import machine, ring_links


@dataclass(frozen=True, kw_only=True)
class Row:
    """One plan: its time, the bytes that its fullest chip keeps, and whether they fit."""

    plan: LstmPlan
    seconds: float
    bytes: float
    fits: bool
    efficiency_frac: float

    @property
    def label(self) -> str:
        """Degrees as words."""
        p = self.plan
        return f"dp {p.dp}, lp {p.lp}, hlp {p.hlp}, hidden {p.hidden.label}, softmax {p.softmax.label}"


def best(i: Inputs) -> list[Row]:
    """All plans on at most ``i.chips`` chips that divide the model; those that fit first, each from fast to slow.

    The softmax is cut over all chips of a replica, or over a half of its own where lp = hlp + 1; the embedding is cut
    like the recurrent layers. For every layout of those the fastest of the softmax's splits is taken.
    """
    m = model_of(i)
    alone = _seconds_alone(i, m)
    rows = []
    for plan in _plans(i, m):
        chip = machine_of(i, plan)
        try:
            seconds = float(lstm_step.step(m, rates_of(i, chip), plan).seconds)
        except InputProblems:
            continue
        held = held_bytes(m, plan)
        capacity = float(chip.memory_bytes)
        rows.append(
            Row(plan=plan, seconds=seconds, bytes=held, fits=held <= capacity,
                efficiency_frac=alone / (seconds * plan.chips))
        )  # fmt: skip
    return sorted(rows, key=lambda row: (not row.fits, row.seconds))


def held_bytes(m: Lstm, plan: LstmPlan) -> float:
    """Bytes of the fullest chip: what shares a group of chips adds up."""
    own = replica(m, plan.dp)
    splits = {part: getattr(plan, part) for part in lstm_memory.PARTS}
    held = lstm_memory.requirement(own, splits, stages=plan.hlp)
    head = float(held["softmax"].bytes + held["projection"].bytes)
    table, stage = float(held["embedding"].bytes), float(held["hidden"].bytes)
    apart = plan.lp - plan.hlp
    return (stage + table + head, max(stage + table, head), max(stage, table, head))[apart]


def splits_of(degree: int) -> Iterator[KernelSplit]:
    """Every split over ``degree`` chips."""
    if degree == 1:
        yield KernelSplit()
        return
    yield KernelSplit(kind="column-row", first=degree, second=1)
    for first in _divisors(degree):
        yield KernelSplit(kind="row-column", first=first, second=degree // first)


def _plans(i: Inputs, m: Lstm) -> Iterator[LstmPlan]:
    for dp in _divisors(i.chips):
        own = replica(m, dp)
        if dp > m.batch:
            continue
        for hlp in _divisors(i.chips // dp):
            if m.layers % hlp:
                continue
            group = i.chips // dp
            for apart in (0, 1):
                if group % (hlp * (1 + apart)):
                    continue
                for hidden in splits_of(group // (hlp * (1 + apart))):
                    if not _divides(own, "hidden", hidden):
                        continue
                    links = ring_links(dp, hlp + apart, hidden.first, hidden.second)
                    softmax = _fastest_softmax(i, m, dp, hlp * hidden.degree, links)
                    if softmax:
                        yield LstmPlan(dp=dp, lp=hlp + apart, hlp=hlp, hidden=hidden, softmax=softmax, embedding=hidden)


@lru_cache(maxsize=4096)
def _fastest_softmax(i: Inputs, m: Lstm, dp: int, degree: int, links: int) -> KernelSplit | None:
    own, found = replica(m, dp), []
    for split in splits_of(degree):
        if _divides(own, "softmax", split):
            plan = LstmPlan(dp=dp, softmax=split)
            rates = _rates(i, plan, links)
            if plan.chips > 1 and float(rates.link_bytes_per_s) == 0:
                return None
            forward, backward = lstm_step.softmax(own, rates, split, m.hidden)
            found.append((float(forward.seconds + backward.seconds), split))
    return min(found, key=lambda pair: pair[0])[1] if found else None


def _rates(i: Inputs, plan: LstmPlan, links: int) -> Rates:
    return rates_of(i, machine(technology_of(i), links))


def _divides(own: Lstm, part: str, split: KernelSplit) -> bool:
    return not kernel.problems(split, lstm.forward_product(own, part, own.hidden), "")


def _seconds_alone(i: Inputs, m: Lstm) -> float:
    plan = LstmPlan()
    return float(lstm_step.step(m, rates_of(i, machine_of(i, plan)), plan).seconds)


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]
