"""The table against a profile of H200: as many kernels for each op, and about as long."""

from __future__ import annotations

import math
import statistics

import pytest

from estimator.cost.efficiency import efficiencies
from estimator.cost.price import price
from estimator.operations.aten import is_known, kernels_of
from estimator.scenario import catalog
from tests.estimator.operations.aten.profiled import MOST_BYTES, ops

FOUND = ops()


def _predicted(signature):
    kernels = kernels_of(signature)
    chip, e = catalog.chip("h200-sxm"), efficiencies("hopper")
    return sum(op.launches * op.count for op in kernels), sum(price(op, chip, e).seconds for op in kernels)


def test_the_profile_has_a_whole_step():
    assert len(FOUND) > 300
    assert all(is_known(signature.op) for signature, _, _ in FOUND)


@pytest.mark.parametrize("name", sorted({signature.op for signature, _, _ in FOUND}))
def test_every_op_launches_as_many_kernels_as_it_did(name):
    for signature, kernels, _ in FOUND:
        if signature.op != name:
            continue
        largest = max((math.prod(one.shape) * 4 for one in signature.inputs), default=0)
        # An output's fill is known where the output is.
        lacking = 1 if name == "aten::embedding_dense_backward" else 0
        expected = _predicted(signature)[0] + lacking
        if largest <= MOST_BYTES:
            assert kernels == expected, signature
        else:
            assert expected <= kernels <= 2 * expected, signature


def test_all_together_take_as_long_as_they_did():
    measured = sum(seconds for _, _, seconds in FOUND)
    assert sum(_predicted(signature)[1] for signature, _, _ in FOUND) == pytest.approx(measured, rel=0.05)


def test_what_takes_long_is_right_one_by_one():
    errors = [
        abs(_predicted(signature)[1] / seconds - 1) for signature, _, seconds in FOUND if seconds > 20e-6
    ]  # fmt: skip
    assert len(errors) > 200
    assert statistics.median(errors) < 0.12
    assert sorted(errors)[int(0.9 * len(errors))] < 0.45
