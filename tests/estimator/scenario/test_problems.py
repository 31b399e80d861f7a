"""Problems: one line for people, and all of them in the exception."""

from estimator.scenario.problems import InputProblems, Problem, divisors_near


def test_a_problem_reads_as_field_mistake_remedy():
    assert str(Problem(field="plan.tp", message="is 3", remedy="Choose 4.")) == "plan.tp: is 3. Choose 4."


def test_divisors_are_named_below_and_above():
    assert [divisors_near(*one) for one in ((5, 12), (7, 12), (16, 8))] == ["4 or 6", "6 or 12", "8"]


def test_the_exception_carries_all_problems_in_order():
    first = Problem(field="a", message="is bad", remedy="Mend it.")
    second = Problem(field="b", message="is worse", remedy="Leave it.")
    error = InputProblems([first, second])
    assert error.problems == (first, second)
    assert str(error) == "a: is bad. Mend it.; b: is worse. Leave it."
    assert isinstance(error, ValueError)
