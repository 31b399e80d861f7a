"""From how many rows on a grid moves less than 1D."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.search.splits import Layout, crossover_rows, stack_elements

E = 12_288
MLP = [(E, 4 * E), (4 * E, E)]


def test_2d_beats_1d_in_an_mlp_from_114_percent_of_the_width_at_q_8_and_never_at_q_2():
    one, two = Layout(kind="1d", side=64), Layout(kind="2d", side=8)
    assert crossover_rows(one, two, MLP) / E == pytest.approx(168 / 147)
    assert crossover_rows(one, two, MLP) / E == pytest.approx(1.14, abs=0.005)
    assert crossover_rows(Layout(kind="1d", side=4), Layout(kind="2d", side=2), MLP) == math.inf
    m = 20_000
    assert stack_elements(two, MLP, m) == pytest.approx(3 * 7 / 64 * (5 * m * E + 8 * E * E))
    assert stack_elements(one, MLP, m) == pytest.approx(4 * m * E * 63 / 64)


@given(st.sampled_from([Layout(kind="2d", side=8), Layout(kind="2.5d", side=4, depth=4), Layout(kind="3d", side=4)]))
def test_volumes_are_equal_where_they_cross(grid):
    one = Layout(kind="1d", side=64)
    rows = crossover_rows(one, grid, MLP)
    assert stack_elements(one, MLP, rows) == pytest.approx(stack_elements(grid, MLP, rows))
    assert stack_elements(one, MLP, 0.9 * rows) < stack_elements(grid, MLP, 0.9 * rows)
    assert stack_elements(one, MLP, 1.1 * rows) > stack_elements(grid, MLP, 1.1 * rows)


def test_what_is_smaller_from_the_start_crosses_at_zero():
    slow, fast = Layout(kind="1d", side=64), Layout(kind="1d", side=1)
    assert crossover_rows(slow, fast, MLP) == 0.0
