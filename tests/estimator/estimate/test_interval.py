"""Interval: wider ranges widen it, exact efficiencies close it, and groups add in quadrature."""

from dataclasses import replace

import pytest

from estimator.cost.efficiency import Efficiencies, efficiencies
from estimator.estimate.estimate import estimate
from estimator.estimate.interval import INTERVAL_GROUPS, SHAPES, interval_s, uneven
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


def narrowed(names):
    exact = {name: replace(E.ranges[name], low=E.ranges[name].value, high=E.ranges[name].value) for name in names}
    return replace(E, ranges={**E.ranges, **exact})


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
    squares = 0.0
    for names in INTERVAL_GROUPS.values():
        others = [name for name in E.ranges if name not in names]
        squares += (interval(narrowed(others))[1] - SECONDS) ** 2
    assert squares > 0
    assert interval(E)[1] - SECONDS == pytest.approx(squares**0.5)


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
