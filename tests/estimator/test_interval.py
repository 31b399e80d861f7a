"""Interval: wider ranges widen it, exact efficiencies close it, and groups add in quadrature."""

from dataclasses import replace

import pytest

from estimator.efficiency import efficiencies
from estimator.interval import INTERVAL_GROUPS, interval_s
from estimator.networks.dims import dims
from estimator.networks.transformer import network
from estimator.scenario import scenario_from_json
from estimator.stages import stages
from estimator.step import step

SCENARIO = scenario_from_json(
    {
        "model": "llama3.2-1b",
        "cluster": {"chip": "h200-sxm", "chips_per_node": 1},
        "plan": {"micro_batch": 4},
        "training": {"seq_len": 2048, "global_batch": 4, "precision": "bf16"},
    }
)
LAYOUT = stages(SCENARIO, network(dims(SCENARIO)))
E = efficiencies("hopper")
SECONDS = step(SCENARIO, LAYOUT, E).seconds


def narrowed(names):
    exact = {name: replace(E.ranges[name], low=E.ranges[name].value, high=E.ranges[name].value) for name in names}
    return replace(E, ranges={**E.ranges, **exact})


def test_every_efficiency_of_time_is_in_exactly_one_group():
    grouped = [name for names in INTERVAL_GROUPS.values() for name in names]
    assert len(grouped) == len(set(grouped))
    assert set(E.ranges) - set(grouped) == {"workspace_bytes", "allocator_frac"}


def test_exact_efficiencies_leave_no_interval():
    low, high = interval_s(SCENARIO, LAYOUT, SECONDS, narrowed(E.ranges))
    assert low == high == SECONDS


def test_groups_add_in_quadrature():
    squares = 0.0
    for names in INTERVAL_GROUPS.values():
        others = [name for name in E.ranges if name not in names]
        squares += (interval_s(SCENARIO, LAYOUT, SECONDS, narrowed(others))[1] - SECONDS) ** 2
    assert interval_s(SCENARIO, LAYOUT, SECONDS, E)[1] - SECONDS == pytest.approx(squares**0.5)
