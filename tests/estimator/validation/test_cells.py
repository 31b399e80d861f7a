"""Cells: what a table's cell means when it is empty, words, or a number."""

import pytest

from estimator.validation.csv_row import flag, number


@pytest.mark.parametrize(("text", "value"), [("", None), ("nan", None), ("inf", None), ("n/a", None), ("1e3", 1000.0)])
def test_number(text, value):
    assert number(text) == value


@pytest.mark.parametrize(("text", "default", "value"), [("", True, True), ("Yes", False, True), ("0", True, False)])
def test_flag(text, default, value):
    assert flag(text, default) is value
