"""The few functions beyond + - * /: the same for a number and for each element of an array."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.scenario.arrays import ceil_div, maximum, minimum, where

numbers = st.floats(0, 1e12)
several = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8)


@given(several)
def test_extremes_element_by_element(pairs):
    left, right = (np.array(side) for side in zip(*pairs, strict=True))
    assert maximum(left, right).tolist() == [maximum(a, b) for a, b in pairs] == [max(a, b) for a, b in pairs]
    assert minimum(left, right).tolist() == [minimum(a, b) for a, b in pairs] == [min(a, b) for a, b in pairs]


@given(several)
def test_where_element_by_element(pairs):
    left, right = (np.array(side) for side in zip(*pairs, strict=True))
    assert where(left > right, left, 0.0).tolist() == [where(a > b, a, 0.0) for a, b in pairs]


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_ceil_div_covers_and_no_more(numerator, denominator):
    found = ceil_div(numerator, denominator)
    assert found * denominator >= numerator > (found - 1) * denominator
    assert ceil_div(np.array([float(numerator)]), denominator).tolist() == [found]


@pytest.mark.parametrize(("condition", "expected"), [(True, 1.0), (False, 2.0)])
def test_where_of_a_plain_condition_stays_plain(condition, expected):
    assert where(condition, 1.0, 2.0) == expected
    assert isinstance(where(condition, 1.0, 2.0), float)
