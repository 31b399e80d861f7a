"""Plan: the product of the degrees, and choices that are refused with a remedy."""

import pytest

from estimator.plan import Plan


def test_the_degrees_multiply_to_the_chips():
    assert Plan(dp=2, tp=3, pp=5, cp=7).chips == 210


def test_the_defaults_are_one_chip_without_problems():
    assert Plan().chips == 1
    assert Plan().problems() == []


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_modelled_schedules_pass(schedule):
    assert Plan(pp=2, schedule=schedule).problems() == []


@pytest.mark.parametrize(
    "change",
    [{"tp_kind": "2d"}, {"schedule": "zero-bubble"}, {"cp": 2}, {"ep": 2}, {"virtual_stages": 2}],
)
def test_what_is_not_modelled_is_refused_by_name_with_a_remedy(change):
    problems = Plan(**change).problems()
    assert [problem.field for problem in problems] == [f"plan.{name}" for name in change]
    assert all("not modelled" in problem.message and problem.remedy for problem in problems)
