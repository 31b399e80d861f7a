"""Training: every precision and framework has numbers of its own; words that are none are refused with the choices."""

import pytest

from estimator.scenario.codec import decode
from estimator.scenario.framework import FRAMEWORKS
from estimator.scenario.plan import Plan
from estimator.scenario.precision import QUANTISED, byte_widths
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import training_from_json
from estimator.scenario.training import PRECISIONS, Training


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_precision_is_modelled(precision, framework):
    found = byte_widths(Training(seq_len=1, global_batch=1, precision=precision, framework=framework), Plan())
    assert found.linear <= found.compute <= found.residual
    assert found.quantised == (precision in QUANTISED)
    assert found.linear_peak == precision
    assert found.operand_bytes == {found.peak: found.compute, precision: QUANTISED.get(precision, found.compute)}


def test_a_precision_that_is_none_names_the_field_and_the_choices():
    with pytest.raises(InputProblems) as caught:
        decode(Training, {"seq_len": 1, "global_batch": 1, "precision": "int3"}, "training")
    (problem,) = caught.value.problems
    assert problem.field == "training.precision"
    assert all(name in problem.remedy for name in PRECISIONS)


@pytest.mark.parametrize(
    ("optimizer", "remedy"),
    [("adamw-fused", '"optimizer": "adamw", "optimizer_kernel": "fused"'), ("adamw-turbo", "One of: adamw, ")],
)
def test_an_optimizer_named_with_its_kernels_is_told_where_they_belong(optimizer, remedy):
    with pytest.raises(InputProblems) as caught:
        training_from_json({"seq_len": 8, "global_batch": 8, "optimizer": optimizer})
    (problem,) = caught.value.problems
    assert problem.field == "training.optimizer"
    assert remedy in problem.remedy
