"""Slowest chip: what the slowest of many takes, and what of it stays as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.cost.efficiency import (
    COMPUTE,
    DRAWN_AT_ANY_CLOCK,
    DRAWN_AT_ITS_CLOCK,
    efficiencies,
    efficiencies_for,
    under_power_limit,
)
from estimator.cost.slowest_chip import of_slowest
from estimator.estimate.estimate import estimate
from estimator.scenario import catalog
from tests.estimator.examples import LLAMA, scenario

E = efficiencies("default")
OF_POWER = (*DRAWN_AT_ANY_CLOCK, *DRAWN_AT_ITS_CLOCK)


def test_one_chip_is_as_it_was_measured():
    assert of_slowest(E, 1, 8) is E


def test_the_slowest_of_many_by_hand():
    # 1.03 standard deviations for four, 2.344 for 64 (David, Nagaraja 2003, section 3.2)
    for chips, deviations in ((4, 1.029), (64, 2.344)):
        found = of_slowest(E, chips, 8)
        for name in COMPUTE:
            assert getattr(found, name) == pytest.approx(getattr(E, name) / (1 + E.chip_spread * deviations))
            assert found.ranges[name].value == getattr(found, name)
        assert (found.memory_frac, found.gemm_vector_frac) == (E.memory_frac, E.gemm_vector_frac)


def test_nodes_that_work_whole_run_slower_up_to_their_eighth_chip():
    hopper = replace(efficiencies("hopper"), power_limit_w=0.0)
    even = replace(hopper, chip_spread=0.0)
    rates = [of_slowest(even, chips, 8).gemm_matrix_frac / hopper.gemm_matrix_frac for chips in (1, 4, 8, 512)]
    assert rates == pytest.approx([1.0, 1 - 3 / 7 * (1 - hopper.whole_node_factor), *[hopper.whole_node_factor] * 2])
    attention = {of_slowest(even, chips, 8).attention_frac for chips in (1, 8)}
    assert attention == {hopper.attention_frac}, "it does not draw what products do"
    assert of_slowest(even, 8, 1) is even, "eight nodes of one chip are no whole node"
    assert of_slowest(even, 64, 4).gemm_matrix_frac == of_slowest(even, 4, 8).gemm_matrix_frac
    assert E.whole_node_factor == 1.0, "rates that are read off whole nodes have it in them"


def test_a_larger_cluster_has_longer_steps_where_nothing_else_grows():
    def compute_s(nodes: int) -> float:
        plan = {"dp": 8 * nodes, "micro_batch": 4}
        return estimate(scenario(LLAMA, plan=plan, seq_len=4096, precision="bf16")).breakdown_s["matmul"]

    assert compute_s(1) < compute_s(4) < compute_s(64) < 1.05 * compute_s(1)


def test_a_power_limit_takes_the_cube_root_of_itself_from_matrix_units_alone():
    hopper = efficiencies("hopper")
    chip = replace(catalog.chip("h100-sxm"), power_limit_frac=0.512)
    limited = efficiencies_for(chip, replace(hopper, device=chip.name))
    for name in COMPUTE:
        whole = hopper.ranges[name]
        assert getattr(limited, name) == pytest.approx(0.8 * whole.value)
        # A third of the power that does not fall leaves the square root, what is not always drawn the fifth.
        assert limited.ranges[name].low == pytest.approx(0.512**0.5 * whole.low)
        assert limited.ranges[name].high == pytest.approx(0.512**0.2 * whole.high)
    drawn = {name: getattr(limited, name) / getattr(hopper, name) for name in OF_POWER}
    assert drawn == pytest.approx({name: 0.64 if name in DRAWN_AT_ITS_CLOCK else 0.512 for name in drawn})
    same = set(hopper.ranges) - set(COMPUTE) - set(OF_POWER)
    assert all(getattr(limited, name) == getattr(hopper, name) for name in same)
    assert under_power_limit(hopper, 1.0) is hopper, "no limit, and the same object for what is kept by it"


def test_under_a_power_limit_products_are_slower_and_what_memory_binds_is_not():
    def found(limit_frac: float):
        one = scenario(LLAMA, plan={"micro_batch": 4}, seq_len=4096, precision="bf16")
        chip = replace(one.cluster.chip, power_limit_frac=limit_frac)
        return estimate(replace(one, cluster=replace(one.cluster, chip=chip)))

    whole, limited, half = found(1.0), found(5 / 7), found(0.5)
    slower = [one.breakdown_s["matmul"] / whole.breakdown_s["matmul"] for one in (limited, half)]
    # What memory binds of a product does not follow its rate.
    assert 1.05 < slower[0] < (7 / 5) ** (1 / 3) + 0.005
    assert slower[0] < slower[1] < 2 ** (1 / 3) + 0.01
    for name in ("elementwise", "optimizer"):
        assert limited.breakdown_s[name] == pytest.approx(whole.breakdown_s[name])
    assert limited.interval_s[1] / limited.step_time_s > whole.interval_s[1] / whole.step_time_s
