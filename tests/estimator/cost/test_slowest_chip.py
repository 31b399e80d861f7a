"""Slowest chip: what the slowest of many takes, and what of it stays as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.cost.efficiency import efficiencies
from estimator.cost.slowest_chip import COMPUTE, of_slowest
from estimator.estimate.estimate import estimate
from tests.estimator.examples import LLAMA, scenario

E = efficiencies("default")


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
    hopper = efficiencies("hopper")
    even = replace(hopper, chip_spread=0.0)
    rates = [of_slowest(even, chips, 8).gemm_matrix_frac / hopper.gemm_matrix_frac for chips in (1, 4, 8, 512)]
    assert rates == pytest.approx([1.0, 1 - 3 / 7 * (1 - hopper.whole_node_factor), *[hopper.whole_node_factor] * 2])
    assert of_slowest(even, 8, 1) is even, "eight nodes of one chip are no whole node"
    assert of_slowest(even, 64, 4).gemm_matrix_frac == of_slowest(even, 4, 8).gemm_matrix_frac
    assert E.whole_node_factor == 1.0, "rates that are read off whole nodes have it in them"


def test_a_larger_cluster_has_longer_steps_where_nothing_else_grows():
    def compute_s(nodes: int) -> float:
        plan = {"dp": 8 * nodes, "micro_batch": 4}
        return estimate(scenario(LLAMA, plan=plan, seq_len=4096, precision="bf16")).breakdown_s["matmul"]

    assert compute_s(1) < compute_s(4) < compute_s(64) < 1.05 * compute_s(1)
