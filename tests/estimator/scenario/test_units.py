"""Texts for people: three digits, the right prefix, no exponents."""

import pytest

from estimator.scenario.units import GIB, KIB, MIB, bytes_text, counted, engineering, seconds


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 FLOP/s"),
        (1, "1 FLOP/s"),
        (999, "999 FLOP/s"),
        (1000, "1 kFLOP/s"),
        (12_345, "12.3 kFLOP/s"),
        (1.5e6, "1.5 MFLOP/s"),
        (989.4e12, "989 TFLOP/s"),
        (1.9789e15, "1.98 PFLOP/s"),
        (4.2e18, "4200 PFLOP/s"),
        (0.25, "0.25 FLOP/s"),
        (-3.35e12, "-3.35 TFLOP/s"),
    ],
)
def test_engineering_takes_the_largest_prefix_that_leaves_at_least_one(value, text):
    assert engineering(value, "FLOP/s") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (90, "90 s"),
        (0.4123, "412 ms"),
        (0.01, "10 ms"),
        (7.25e-6, "7.25 µs"),
        (3e-9, "3 ns"),
        (-2e-3, "-2 ms"),
    ],
)
def test_seconds_take_the_unit_that_leaves_at_least_one(value, text):
    assert seconds(value) == text


def test_sizes_are_decimal_as_chip_makers_print_them():
    assert bytes_text(141e9) == "141 GB"
    assert bytes_text(80 * GIB) == "85.9 GB"
    assert bytes_text(26_214_400) == "26.2 MB"


def test_counts_take_the_plural_but_for_one():
    assert [counted(number, "row") for number in (0, 1, 2, 5000)] == ["0 rows", "1 row", "2 rows", "5,000 rows"]
    assert [counted(number, "process", "processes") for number in (1, 2)] == ["1 process", "2 processes"]


def test_binary_scales():
    assert (KIB, MIB, GIB) == (2**10, 2**20, 2**30)


def test_more_digits_where_asked():
    assert engineering(123_456_789, "B", digits=5) == "123.46 MB"
