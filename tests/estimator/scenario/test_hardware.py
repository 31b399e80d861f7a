"""Hardware: peaks by precision, and what a chip cannot do."""

from dataclasses import fields, replace

import pytest

from estimator.scenario.hardware import PEAK_FIELD, Chip, peak_flops_per_s
from estimator.scenario.training import PRECISIONS
from tests.estimator.examples import CHIP, cluster


@pytest.mark.parametrize(
    ("precision", "peak"), [("fp32", 1e12), ("tf32", 4e12), ("fp16-amp", 8e12), ("bf16-amp", 8e12), ("bf16", 8e12)]
)
def test_each_precision_runs_at_the_peak_of_its_unit(precision, peak):
    assert peak_flops_per_s(Chip(**CHIP), precision) == peak


def test_every_precision_of_the_contract_has_a_peak_of_chips():
    assert {"fp32", "tf32", "fp16-amp", "bf16-amp", "bf16", "fp8"} <= set(PRECISIONS)
    assert {PEAK_FIELD[precision] for precision in PRECISIONS} <= {field.name for field in fields(Chip)}


def test_nodes_multiply_chips():
    assert cluster(8, 4).chips == 32


@pytest.mark.parametrize(
    ("kind", "ranks", "cpus", "share"), [("cpu", 4, 1, 4), ("cpu", 1, 1, 1), ("cpu", 4, 2, 2), ("gpu", 4, 1, 1)]
)
def test_ranks_of_one_cpu_share_all_of_it_but_its_clock(kind, ranks, cpus, share):
    made = cluster(ranks, kind=kind, compute_units=3)
    made = replace(made, chip=replace(made.chip, chips_per_node=cpus))
    whole, one = made.chip, made.rank_chip
    assert made.ranks_of_a_cpu == share
    for name in ("fp32_flops_per_s", "bf16_flops_per_s", "memory_bytes", "memory_bytes_per_s", "l2_bytes"):
        assert getattr(one, name) == getattr(whole, name) / share
    assert (one.compute_units, one.clock_hz, one.name) == (max(3 // share, 1), whole.clock_hz, whole.name)


def test_a_missing_unit_is_a_problem_of_the_precision():
    old = cluster(bf16_flops_per_s=0.0)
    assert [problem.field for problem in old.problems("bf16")] == ["training.precision"]
    assert "bf16" in old.problems("bf16")[0].message
    assert old.problems("fp16-amp") == []
    assert old.problems("fp32") == []
