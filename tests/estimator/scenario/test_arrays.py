"""Arrays: the functions beyond + - * / give for each element what they give for a number; tables are joined and cut."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.scenario.arrays import (
    _WHOLE,
    ceil_div,
    joined,
    largest,
    maximum,
    minimum,
    picked,
    taken,
    where,
)
from estimator.scenario.hardware import Cluster
from estimator.scenario.plan import Plan
from estimator.scenario.precision import ByteWidths
from estimator.scenario.training import Training
from estimator.scenario.units import Number

numbers = st.floats(0, 1e12)
several = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8)


@given(several)
def test_extremes_element_by_element(pairs):
    left, right = (np.array(side) for side in zip(*pairs, strict=True))
    assert maximum(left, right).tolist() == [maximum(a, b) for a, b in pairs] == [max(a, b) for a, b in pairs]
    assert minimum(left, right).tolist() == [minimum(a, b) for a, b in pairs] == [min(a, b) for a, b in pairs]


@given(st.lists(numbers, min_size=1, max_size=8))
def test_the_largest_of_an_array_and_of_a_number(values):
    assert largest(np.array(values)) == max(values)
    assert largest(values[0]) == values[0]


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Inner:
    value: Number


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    name: str
    size: Number
    inner: tuple[Inner, ...]
    training: Training
    absent: Number | None = None
    split: bool | Number = False


TRAINING = Training(seq_len=1, global_batch=1)


def table(size: Number, value: Number, **rest) -> Table:
    return Table(name="t", size=size, inner=(Inner(value=value),), training=TRAINING, **rest)


def test_plain_numbers_choose_whole():
    one, other = table(1.0, 2.0), table(3.0, 4.0)
    assert picked(True, one, other) is one
    assert picked(False, one, other) is other


def test_arrays_choose_row_by_row_and_plain_numbers_stand_for_columns():
    one, other = table(np.array([1.0, 2.0]), 5.0), table(np.array([3.0, 4.0]), 6.0)
    found = picked(np.array([True, False]), one, other)
    assert list(found.size) == [1.0, 4.0]
    assert list(found.inner[0].value) == [5.0, 6.0]
    assert (found.name, found.training, found.absent) == ("t", TRAINING, None)


def test_what_is_the_same_number_stays_one():
    same = 5.0
    found = picked(np.array([True, False]), table(np.array([1.0, 2.0]), same), table(np.array([3.0, 4.0]), same))
    assert found.inner[0].value == 5.0


def test_tables_are_joined_one_below_another():
    found = joined([table(np.array([1.0, 2.0]), 5.0), table(7.0, np.array([8.0]))], [2, 1])
    assert list(found.size) == [1.0, 2.0, 7.0]
    assert list(found.inner[0].value) == [5.0, 5.0, 8.0]


def test_flags_become_a_column_of_flags():
    found = joined([table(1.0, 1.0, split=True), table(2.0, 1.0, split=False)], [2, 1])
    assert found.split.dtype == bool
    assert list(found.split) == [True, True, False]


def test_rows_are_taken_from_columns_only():
    found = taken(table(np.array([1.0, 2.0, 3.0]), 5.0), np.array([2, 0]))
    assert list(found.size) == [3.0, 1.0]
    assert found.inner[0].value == 5.0


def test_lengths_that_disagree_are_an_error():
    with pytest.raises(ValueError, match="zip"):
        joined([table(1.0, 1.0), table(2.0, 2.0)], [1])


def test_what_all_plans_share_is_named_as_it_is_called():
    assert set(_WHOLE) == {one.__name__ for one in (Training, ByteWidths, Cluster, Plan)}
