"""Plans of the LSTM on many chips: every mix of data, layer and kernel parallelism, fastest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from estimator.studies.deepflow import lstm_memory, lstm_step
from estimator.studies.deepflow.inputs import Inputs, machine_of, model_of, rates_of
from estimator.studies.deepflow.lstm import Lstm
from estimator.studies.deepflow.lstm_plan import LstmPlan, replica
from estimator.studies.deepflow.splits import fastest_softmax, layouts, many, rates_by_links
from estimator.studies.deepflow.technology import ring_links


@dataclass(frozen=True, kw_only=True)
class PlanRow:
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


def best(i: Inputs) -> list[PlanRow]:
    """All plans on ``i.chips`` chips that divide the model; those that fit first, each from fast to slow.

    The softmax is cut over all chips of a replica, or over a half of its own where lp = hlp + 1; the embedding is cut
    like the recurrent layers. For every layout of those the fastest of the softmax's splits is taken.
    """
    m = model_of(i)
    single = LstmPlan()
    machine = machine_of(i, single)
    alone_s = float(lstm_step.step(m, rates_of(i, machine), single).seconds)
    capacity = float(machine.memory_bytes)
    if i.chips == 1:
        return [_row(single, alone_s, float(held_bytes(m, single)), capacity, alone_s)]
    if not i.link_power_frac:
        return []
    found = _plans(i, m)
    rows: list[PlanRow | None] = [None] * len(found)
    for kinds in dict.fromkeys((plan.hidden.kind, plan.softmax.kind) for plan in found):
        here = [place for place, plan in enumerate(found) if (plan.hidden.kind, plan.softmax.kind) == kinds]
        some = [found[place] for place in here]
        together = many(some)
        links = np.array([ring_links(*plan.rings) for plan in some])
        seconds: Any = lstm_step.priced(m, rates_by_links(i, links), together).seconds
        held = held_bytes(m, together)
        for place, plan, its_s, its_bytes in zip(here, some, seconds.tolist(), held.tolist(), strict=True):
            rows[place] = _row(plan, its_s, its_bytes, capacity, alone_s)
    return sorted((row for row in rows if row), key=lambda row: (not row.fits, row.seconds))


def held_bytes(m: Lstm, plan: LstmPlan) -> Any:
    """Bytes of the fullest chip, of one plan or of many: what shares a group of chips adds up."""
    own = replica(m, plan.dp)
    splits = {part: getattr(plan, part) for part in lstm_memory.PARTS}
    held = lstm_memory.requirement(own, splits, stages=plan.hlp)
    head = held["softmax"].bytes + held["projection"].bytes
    table, stage = held["embedding"].bytes, held["hidden"].bytes
    together, apart = stage + table + head, np.maximum(stage + table, head)
    groups = np.asarray(plan.lp - plan.hlp, dtype=int)
    return np.choose(groups, [together, apart, np.maximum(np.maximum(stage, table), head)])


def _plans(i: Inputs, m: Lstm) -> list[LstmPlan]:
    listed = list(layouts(i.chips, m))
    keys = [
        (dp, hlp * hidden.degree, ring_links(dp, hlp + apart, hidden.first, hidden.second))
        for dp, hlp, apart, hidden in listed
    ]
    softmax = fastest_softmax(i, m, list(dict.fromkeys(keys)))
    return [
        LstmPlan(dp=dp, lp=hlp + apart, hlp=hlp, hidden=hidden, softmax=softmax[key], embedding=hidden)
        for (dp, hlp, apart, hidden), key in zip(listed, keys, strict=True)
        if key in softmax
    ]


def _row(plan: LstmPlan, seconds: float, held: float, capacity: float, alone_s: float) -> PlanRow:
    return PlanRow(
        plan=plan, seconds=seconds, bytes=held, fits=held <= capacity,
        efficiency_frac=alone_s / (seconds * plan.chips),
    )  # fmt: skip
