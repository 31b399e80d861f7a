"""Plans on many chips and the power split: the best is the best, the search finds what a grid finds, views agree."""

from __future__ import annotations

import json

import numpy as np
import pytest

from estimator.studies import study
from estimator.studies.deepflow import plans, power, view
from estimator.studies.deepflow.inputs import Inputs, machine_of, model_of, rates_of
from estimator.studies.deepflow.lstm_step import step

REFERENCE = Inputs()


def test_plans_on_512_chips_are_sorted_and_each_is_priced_like_a_step():
    rows = plans.best(REFERENCE)
    assert len(rows) > 100
    fitting = [row.seconds for row in rows if row.fits]
    assert fitting == sorted(fitting)
    assert all(row.plan.chips <= 512 for row in rows)
    assert {row.plan.lp - row.plan.hlp for row in rows} == {0, 1}
    assert {row.plan.hidden.kind for row in rows} == {"none", "row-column", "column-row"}
    for row in rows[::40]:
        machine = machine_of(REFERENCE, row.plan)
        assert row.seconds == step(model_of(REFERENCE), rates_of(REFERENCE, machine), row.plan).seconds
        assert row.fits == (row.bytes <= machine.memory_bytes)


def test_the_study_marks_the_best_plan_first():
    figures = [one for one in study("deepflow-lstm").figures if one.group == "plans on 512 chips"]
    assert figures[0].name.startswith("best: dp ")
    assert figures[0].value == min(one.value for one in figures)
    assert sum(one.name.startswith("best") for one in figures) == 1


def test_one_chip_has_one_plan():
    (row,) = plans.best(Inputs(chips=1))
    assert row.seconds == pytest.approx(302.88817584, abs=1e-8)
    assert row.fits is False
    assert row.efficiency_frac == 1


def test_without_link_power_only_a_chip_alone_is_left():
    assert plans.best(Inputs(link_power_frac=0.0)) == []


def test_a_split_is_priced_like_the_study_with_it():
    shares = np.array([[0.2592, 0.2592, 0.16896, 0.202752], [0.4, 0.1, 0.1, 0.29]])
    seconds = power.seconds_of(REFERENCE, shares)
    assert seconds[0] == pytest.approx(302.88817584140634, rel=1e-14)
    named = dict(zip(power.SPLIT, map(float, shares[1]), strict=True))
    alone = next(one for one in study("deepflow-lstm", named).figures if one.name == "Time")
    assert seconds[1] == pytest.approx(alone.value, rel=1e-14)


def test_the_search_begins_at_the_reference_never_rises_and_beats_a_grid():
    found = power.search(REFERENCE)
    assert found.shares[0] == pytest.approx((0.2592, 0.2592, 0.16896, 0.202752))
    assert list(found.seconds) == sorted(found.seconds, reverse=True)
    assert all(sum(shares) == pytest.approx(0.890112) for shares in found.shares)
    random = np.random.default_rng(1).dirichlet(np.ones(4), size=3000) * 0.890112
    assert found.seconds[-1] <= power.seconds_of(REFERENCE, np.maximum(random, 1e-3)).min() * 1.01
    assert power.search(REFERENCE) == found


@pytest.mark.parametrize(
    ("inputs", "scipy_s"),
    [
        ({}, 103.73267928833236),
        ({"mode": "bound"}, 103.73795046571774),
        ({"batch": 64}, 15.467933348413808),
        ({"hidden": 4096}, 17.733285368754082),
        ({"dram_power_frac": 0.1}, 126.83787507398588),
        ({"batch": 1, "hidden": 64, "vocab": 100}, 0.049341585688018996),
    ],
)
def test_the_search_finds_what_differential_evolution_of_scipy_found(inputs, scipy_s):
    """What scipy 1.17.1 found with the same population, generations and factors, begun from Sobol points."""
    assert power.search(Inputs(**inputs)).seconds[-1] == pytest.approx(scipy_s, rel=5e-4)


def test_the_sweep_marks_its_least():
    found = power.sweep(REFERENCE)
    assert found.seconds[found.best] == found.seconds.min()
    assert found.memory_bytes[-1] > found.memory_bytes[0]


def test_the_view_says_what_the_study_says():
    seen = view.view(REFERENCE)
    figures = {(one.group, one.name): one.value for one in study("deepflow-lstm").figures}
    assert seen["time_s"] == figures["result", "Time"]
    assert sum(part["seconds"] for part in seen["composition"]) == pytest.approx(seen["time_s"], rel=1e-12)
    assert seen["overflow"] == pytest.approx(7.4, abs=0.05)
    assert seen["binds"][0]["name"] == "compute"
    for row in seen["compared"]:
        assert row["value"] == figures[row["group"], row["name"]]
        if row["corrected"] is not None:
            assert row["corrected"] == figures[f"corrected: {row['group']}", row["name"]]
    assert {number for row in seen["compared"] for number in row["notes"]} == {1, 2, 3, 4, 5, 6, 7}
    rows = seen["hierarchy"].rows
    assert sum(row.count * row.seconds for row in rows) == pytest.approx(301.24, abs=0.01)
    del seen["hierarchy"]
    json.dumps(seen, allow_nan=False)


@pytest.mark.parametrize("shift", [{"dram_power_frac": 0.003}, {"batch": 1, "hidden": 64, "vocab": 100}])
def test_another_level_binds_where_memory_is_short(shift):
    assert view.view(Inputs(mode="bound", **shift))["binds"][0]["name"] == "memory"
