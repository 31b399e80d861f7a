"""Problems: one line for people, and all of them in the exception."""

from estimator.scenario.problems import InputProblems, Problem


def test_a_problem_reads_as_field_mistake_remedy():
    assert str(Problem(field="plan.tp", message="is 3", remedy="Choose 4.")) == "plan.tp: is 3. Choose 4."


def test_the_exception_carries_all_problems_in_order():
    first = Problem(field="a", message="is bad", remedy="Mend it.")
    second = Problem(field="b", message="is worse", remedy="Leave it.")
    error = InputProblems([first, second])
    assert error.problems == (first, second)
    assert str(error) == "a: is bad. Mend it.; b: is worse. Leave it."
    assert isinstance(error, ValueError)
