"""Splits: every layout that divides the model once, and the softmax's fastest as if each were priced alone."""

from __future__ import annotations

import numpy as np
import pytest

from estimator.scenario.problems import InputProblems
from estimator.studies.deepflow import lstm_step, plans
from estimator.studies.deepflow.inputs import Inputs, machine_of, model_of, rates_of, technology_of
from estimator.studies.deepflow.kernel_split import KernelSplit
from estimator.studies.deepflow.lstm import Lstm
from estimator.studies.deepflow.lstm_plan import LstmPlan, check, replica
from estimator.studies.deepflow.splits import fastest_softmax, layouts, many, rates_by_links, splits_of
from estimator.studies.deepflow.technology import machine

ODD = Inputs(chips=60, batch=90, hidden=120, vocab=600, layers=6)


def test_splits_over_some_chips():
    assert splits_of(1) == (KernelSplit(),)
    assert [split.label for split in splits_of(6)] == ["CR 6", "RC 1 × 6", "RC 2 × 3", "RC 3 × 2", "RC 6 × 1"]


@pytest.mark.parametrize("inputs", [ODD, Inputs(chips=24, batch=7, hidden=96, vocab=97, layers=4)])
def test_layouts_are_those_that_a_step_accepts(inputs):
    m = model_of(inputs)
    listed = list(layouts(inputs.chips, m))
    assert len(set(listed)) == len(listed)
    accepted = set()
    for dp in range(1, inputs.chips + 1):
        for hlp in range(1, inputs.chips + 1):
            for apart in (0, 1):
                stage, left = divmod(inputs.chips, dp * hlp * (1 + apart))
                for hidden in splits_of(stage) if stage and not left else ():
                    plan = LstmPlan(dp=dp, lp=hlp + apart, hlp=hlp, hidden=hidden, embedding=hidden)
                    try:
                        check(m, rates_of(inputs, machine_of(inputs, plan)), plan)
                    except InputProblems:
                        continue
                    accepted.add((dp, hlp, apart, hidden))
    assert set(listed) == accepted


def test_the_fastest_softmax_is_that_of_one_after_the_other():
    m = model_of(ODD)
    keys = [(1, 60, 2), (2, 30, 3), (3, 20, 1), (30, 2, 2), (60, 1, 2), (1, 7, 1)]
    found = fastest_softmax(ODD, m, keys)
    assert (1, 7, 1) not in found
    for dp, degree, links in keys[:-1]:
        rates = rates_of(ODD, machine(technology_of(ODD), links))
        seconds = {}
        for split in splits_of(degree):
            own = replica(m, dp)
            if own.batch * own.sequence % split.rows or own.hidden % split.inner or own.vocab % split.columns:
                continue
            forward, backward = lstm_step.softmax(own, rates, split, m.hidden)
            seconds[split] = forward.seconds + backward.seconds
        assert found[dp, degree, links] == min(seconds, key=lambda split: seconds[split])


@pytest.mark.parametrize("change", [{}, {"mode": "bound"}, {"batch": 91, "vocab": 660, "link_power_frac": 0.01}])
def test_plans_together_cost_what_each_costs_alone(change):
    inputs = Inputs(**{"chips": 60, "batch": 90, "hidden": 120, "vocab": 600, "layers": 6} | change)
    rows = plans.best(inputs)
    assert len(rows) > 20
    for row in rows:
        rates = rates_of(inputs, machine_of(inputs, row.plan))
        alone = lstm_step.step(model_of(inputs), rates, row.plan)
        assert row.seconds == pytest.approx(float(alone.seconds), rel=1e-12)
        assert row.bytes == pytest.approx(float(plans.held_bytes(model_of(inputs), row.plan)), rel=1e-12)


def test_many_plans_are_one_of_arrays():
    split = KernelSplit(kind="row-column", first=2, second=3)
    found = many([LstmPlan(dp=2, hidden=split), LstmPlan(dp=3, lp=2, hidden=split)])
    assert (list(found.dp), list(found.lp), list(found.hlp)) == ([2, 3], [1, 2], [1, 1])
    assert (found.hidden.kind, list(found.hidden.second), found.softmax) == ("row-column", [3, 3], KernelSplit())


def test_link_power_is_spread_over_the_links_of_each_plan():
    one, two, four = rates_by_links(ODD, np.array([1, 2, 4])).link_bytes_per_s
    assert (one, two) == (pytest.approx(2 * two), pytest.approx(2 * four))


def test_a_model_that_nothing_divides_has_the_layouts_of_one_chip_a_replica():
    prime = Lstm(batch=8, hidden=7, vocab=11, layers=1, gates=1)
    assert [layout[:3] for layout in layouts(8, prime) if layout[3].kind == "none"] == [(4, 1, 1), (8, 1, 0)]
