"""Columns: tables of many plans are joined, cut and chosen from, field by field."""

from dataclasses import dataclass

import numpy as np
import pytest

from estimator.scenario.arrays import joined, picked, taken
from estimator.scenario.training import Training
from estimator.scenario.units import Number


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
