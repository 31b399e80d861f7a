"""Interval: wider ranges widen it, exact efficiencies close it, and groups add in quadrature."""

import math
from dataclasses import replace

import numpy as np
import pytest

from estimator.cost.efficiency import OF_HOST, Efficiencies, at_rates, efficiencies
from estimator.estimate.estimate import estimate
from estimator.estimate.interval import (
    HOST_SPREAD,
    INTERVAL_GROUPS,
    RANK_SPREAD,
    SHAPES,
    interval_s,
    pace_of_slowest,
    uneven,
)
from estimator.scenario.codec import encode
from estimator.scenario.scenario import scenario_from_json
from tests.estimator.examples import built

SCENARIO = scenario_from_json(
    {
        "model": "llama3.2-1b",
        "cluster": {"chip": "h200-sxm", "chips_per_node": 1},
        "plan": {"micro_batch": 4},
        "training": {"seq_len": 2048, "global_batch": 4, "precision": "bf16"},
    }
)
E = efficiencies("hopper")
BUILT = built(SCENARIO, E)
SECONDS = BUILT.step.seconds


def interval(e: Efficiencies) -> tuple[float, float]:
    return interval_s(BUILT.rank, BUILT.setting, int(BUILT.step.critical_stage), e)


def narrowed(names, e=E):
    exact = {name: replace(e.ranges[name], low=e.ranges[name].value, high=e.ranges[name].value) for name in names}
    return replace(e, ranges={**e.ranges, **exact})


def test_every_efficiency_of_time_is_in_exactly_one_group():
    grouped = [name for names in INTERVAL_GROUPS.values() for name in names]
    assert len(grouped) == len(set(grouped))
    assert set(E.ranges) - set(grouped) == {*SHAPES, "workspace_bytes", "allocator_frac", "allocator_scores_frac"}


def test_exact_efficiencies_leave_no_interval():
    low, high = interval(narrowed(E.ranges))
    assert low == high == pytest.approx(SECONDS, rel=1e-12)


def test_the_interval_has_width_and_holds_the_estimate():
    low, high = interval(E)
    assert 0 < low < SECONDS < high


def test_groups_add_in_quadrature():
    # What else is open of a host's seconds stands beside its pace.
    timed = [name for name in OF_HOST if name != "host_forward_s" and E.ranges[name].value]
    e = replace(E, ranges={**E.ranges, **{name: beside_the_pace(name) for name in timed}})
    squares = 0.0
    for names in INTERVAL_GROUPS.values():
        others = [name for name in E.ranges if name not in names]
        squares += (interval(narrowed(others, e))[1] - SECONDS) ** 2
    assert squares > 0
    assert interval(E)[1] - SECONDS == pytest.approx(squares**0.5)


def beside_the_pace(name):
    known, pace = E.ranges[name], E.ranges["host_forward_s"]
    low, high = (
        math.sqrt(max(math.log(own / known.value) ** 2 - math.log(end / pace.value) ** 2, 0.0))
        for own, end in ((known.low, pace.low), (known.high, pace.high))
    )
    return replace(known, low=known.value * math.exp(-low), high=known.value * math.exp(high))


def test_the_pace_of_a_host_moves_all_of_its_seconds_together():
    slow = scenario_from_json({**encode(SCENARIO), "training": {"seq_len": 64, "global_batch": 4, "precision": "bf16"}})
    pace = E.ranges["host_forward_s"]
    only = replace(narrowed(E.ranges), ranges={**narrowed(E.ranges).ranges, "host_forward_s": pace})
    one = built(slow, only)
    found = interval_s(one.rank, one.setting, int(one.step.critical_stage), only)
    slower = built(slow, at_rates(only, pace.high / pace.value, names=OF_HOST))
    assert found[1] == pytest.approx(slower.step.seconds)
    assert slower.step.seconds > 1.2 * one.step.seconds


def test_the_slowest_of_ranks_of_a_host_that_nobody_knows_is_nearer_to_what_it_usually_is():
    found = [pace_of_slowest(float(ranks), 8) for ranks in (1, 2, 4, 8)]
    rng = np.random.default_rng(7)
    for share, ranks in zip(found, (1, 2, 4, 8), strict=False):
        host = rng.normal(0.0, HOST_SPREAD, 40_000)
        slowest = host + rng.normal(0.0, RANK_SPREAD, (ranks, 40_000)).max(axis=0)
        assert share == pytest.approx(slowest.std() / math.hypot(HOST_SPREAD, RANK_SPREAD), rel=0.02)
    apart = np.hypot(rng.normal(0.0, 1.0, (8, 40_000)).max(axis=0).std(), 0.0)
    assert pace_of_slowest(8.0, 1) == pytest.approx(apart, rel=0.02), "ranks of other nodes have other hosts"


def test_a_group_moves_what_rests_on_its_leading_efficiency():
    # Products at the low end of their share of peak: their device time grows by value/low, and by nothing else.
    only = narrowed([name for name in E.ranges if name != "gemm_matrix_frac"])
    low_end = E.ranges["gemm_matrix_frac"].low
    products = sum(seconds[0] for seconds in BUILT.rank.head.seconds.values())
    products += 16 * sum(seconds[0] for seconds in BUILT.rank.blocks[0].seconds.values())
    expected = products * (E.gemm_matrix_frac / low_end - 1)
    assert interval(only)[1] - SECONDS == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "plan",
    [
        {"dp": 8, "sharding": "fsdp"},
        {"tp": 2, "pp": 2, "cp": 2},
        {"tp": 8, "sequence_parallel": True},
        {"pp": 4, "dp": 2, "schedule": "zero-bubble"},
    ],
)
def test_every_plan_has_an_interval_around_its_estimate(plan):
    found = estimate(
        scenario_from_json(
            {
                "model": "llama3.2-1b",
                "cluster": "h200-sxm",
                "plan": plan,
                "training": {"seq_len": 2048, "global_batch": 8, "precision": "bf16"},
            }
        )
    )
    low, high = found.interval_s
    assert 0 < low < found.step_time_s < high


def test_experts_whose_imbalance_is_not_stated_may_be_later_and_fuller_never_less():
    mixtral = {
        "model": "mixtral-8x7b",
        "cluster": {"chip": "h200-sxm", "chips_per_node": 8},
        "plan": {"dp": 8, "ep": 8, "sharding": "zero1"},
        "training": {"seq_len": 4096, "global_batch": 32, "precision": "bf16", "framework": "megatron"},
    }

    def ends(training=None, plan=None):
        document = {
            **mixtral,
            "training": mixtral["training"] | (training or {}),
            "plan": mixtral["plan"] | (plan or {}),
        }
        one = estimate(scenario_from_json(document))
        peaks = [end / one.memory.peak_bytes for end in one.memory.interval_bytes]
        return [end / one.step_time_s for end in one.interval_s], peaks

    for unstated, stated in zip(ends(), ends({"expert_imbalance": 1.0000001}), strict=True):  # of time, of memory
        assert unstated[0] == pytest.approx(stated[0], abs=1e-4)
        assert unstated[1] > 1.01 * stated[1]
    assert uneven(scenario_from_json({**mixtral, "plan": {"dp": 8}})) is None, "every rank has all experts"
