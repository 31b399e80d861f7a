"""Rows of a layer split by sequence: products, fused attention and all-to-alls."""

from __future__ import annotations

import pytest

from estimator.validation.predicted_rows.device import TableDevice
from estimator.validation.predicted_rows.sequence import layer_row

ROW = {"core": "eager", "ranks": 4, "seq_len": 16_384, "hidden": 4096, "heads": 32, "precision": "bf16", "bytes": 2**25}


def seconds(step: str, **changes) -> float:
    return layer_row({**ROW, "step": step, **changes}, TableDevice(chip="h200-sxm", ranks=4))["median_s"]


def test_three_projections_take_three_times_the_output():
    assert seconds("q, k, v") == pytest.approx(3 * seconds("output"), rel=0.01)


def test_products_of_the_core_are_split_by_heads():
    assert seconds("A = q·kᵀ", ranks=2) == pytest.approx(2 * seconds("A = q·kᵀ"), rel=0.05)
    # Half of the heads leave as many units idle while the last blocks run
    fused, halved = (seconds("fused attention", core="fused", **ranks) for ranks in ({"ranks": 2}, {}))
    assert 0.9 * 2 * halved < fused < 2 * halved


def test_three_tensors_take_three_all_to_alls():
    assert seconds("all-to-all q, k, v") == pytest.approx(3 * seconds("all-to-all c"))


@pytest.mark.parametrize("step", ["init", "reshape c", "ring attention", "layer"])
def test_copies_and_sums_are_left_out(step):
    assert layer_row({**ROW, "step": step}, TableDevice(chip="h200-sxm", ranks=4)) == {}
