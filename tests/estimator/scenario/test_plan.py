"""Plan: the product of the degrees, and defaults that any model allows."""

from itertools import permutations

import pytest

from estimator.scenario import catalog
from estimator.scenario.codec import decode
from estimator.scenario.legality import legality
from estimator.scenario.plan import AXES, PLACEMENTS, Plan
from estimator.scenario.problems import InputProblems
from estimator.scenario.training import Training


def test_the_degrees_multiply_to_the_chips():
    assert Plan(dp=2, tp=3, pp=5, cp=7).chips == 210


@pytest.mark.parametrize("name", ["gpt2", "llama3-8b", "mixtral-8x7b", "deepseek-v3"])
def test_the_defaults_are_one_chip_without_problems(name):
    assert Plan().chips == 1
    assert legality(catalog.model(name), Plan(), Training(seq_len=128, global_batch=1)) == []


def test_experts_share_the_ranks_of_the_other_axes():
    assert Plan(dp=8, ep=8, expert_tp=2).chips == 8


def test_placements_are_all_orders_of_the_axes_and_the_default_is_tensor_parallel_first():
    assert sorted(PLACEMENTS) == sorted("-".join(order) for order in permutations(AXES))
    assert Plan().placement == PLACEMENTS[0] == "tp-cp-dp-pp"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tp_kind", "4d"),
        ("cp_kind", "star"),
        ("schedule", "2f2b"),
        ("sharding", "zero4"),
        ("offload", "disk"),
        ("ddp_mode", "lazy"),
        ("placement", "tp-dp-pp"),
        ("recompute", "some"),
    ],
)
def test_a_word_that_is_no_choice_is_refused_with_the_choices(field, value):
    with pytest.raises(InputProblems) as caught:
        decode(Plan, {field: value}, "plan")
    (problem,) = caught.value.problems
    assert problem.field == f"plan.{field}"
    assert str(getattr(Plan(), field)) in problem.remedy
