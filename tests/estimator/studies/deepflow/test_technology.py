"""Machine from technology: the reference's peaks, linear in power, arrays as numbers, and refusals."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from estimator.scenario.problems import InputProblems
from estimator.scenario.units import GIB, MIB
from estimator.studies.deepflow.technology import SHARES, Technology, machine, ring_links, share_sum

REFERENCE = Technology()


def test_the_reference_machine_has_its_published_peaks():
    built = machine(REFERENCE)
    assert built.flops_per_s / 0.7 == pytest.approx(0.2592 * 300 / 11.9e-12)
    assert built.memory_bytes_per_s == pytest.approx(1.134e12)
    assert built.memory_bytes / GIB == pytest.approx(26.8, abs=0.05)
    assert built.l2_bytes / MIB == pytest.approx(9.2, abs=0.05)
    assert built.shared_bytes / MIB == pytest.approx(55.3, abs=0.05)
    assert built.flops_per_s / built.memory_bytes_per_s == pytest.approx(4.03, abs=0.005), "where both roofs meet"
    assert built.link_bytes_per_s == 0
    assert share_sum(REFERENCE) == pytest.approx(1.09, abs=0.001)


def test_rates_follow_power_and_capacities_follow_bandwidth():
    once, twice = machine(REFERENCE, links=2), machine(replace(REFERENCE, power_w=600.0), links=2)
    for name in ("flops_per_s", "memory_bytes_per_s", "memory_bytes", "l2_bytes", "shared_bytes", "link_bytes_per_s"):
        assert getattr(twice, name) == pytest.approx(2 * getattr(once, name)), name
    assert machine(REFERENCE, links=4).link_bytes_per_s == pytest.approx(once.link_bytes_per_s / 2)


def test_utilisation_derates_compute_and_memory_bandwidth_alone():
    half = machine(replace(REFERENCE, utilisation_frac=0.35))
    whole = machine(REFERENCE)
    assert half.flops_per_s == pytest.approx(whole.flops_per_s / 2)
    assert half.memory_bytes_per_s == pytest.approx(whole.memory_bytes_per_s / 2)
    assert half.memory_bytes == pytest.approx(whole.memory_bytes)
    assert half.l2_bytes_per_s == whole.l2_bytes_per_s


def test_arrays_give_what_numbers_give():
    shares = np.array([0.1, 0.2592, 0.5])
    together = asdict(machine(replace(REFERENCE, dram_power_frac=shares, power_w=np.array([100.0, 300.0, 700.0]))))
    for at, (share, power) in enumerate(zip(shares, (100.0, 300.0, 700.0), strict=True)):
        alone = asdict(machine(replace(REFERENCE, dram_power_frac=float(share), power_w=power)))
        for name, value in alone.items():
            assert np.broadcast_to(together[name], (3,))[at] == value, name


def test_a_ring_has_two_links_at_each_processor_and_a_pair_has_one():
    assert ring_links(1, 1) == 0
    assert ring_links(2) == 1
    assert ring_links(4, 8, 1) == 4


@pytest.mark.parametrize("name", SHARES)
def test_a_negative_share_is_refused_by_name(name):
    with pytest.raises(InputProblems) as caught:
        machine(replace(REFERENCE, **{name: -0.1}))
    assert [problem.field for problem in caught.value.problems] == [name]


@pytest.mark.parametrize(
    "values",
    [{"power_w": 0}, {"core_j_per_flop": 0}, {"hbm_stack_bytes": 0}, {"core_power_frac": 0}, {"launch_s": -1},
     {"dram_power_frac": np.array([0.2, -0.2])}, {"utilisation_frac": float("nan")}],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_built_is_refused_by_name(values):
    with pytest.raises(InputProblems) as caught:
        machine(replace(REFERENCE, **values))
    assert [problem.field for problem in caught.value.problems] == list(values)
    assert all(problem.remedy for problem in caught.value.problems)
