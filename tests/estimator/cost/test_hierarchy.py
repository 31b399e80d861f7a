"""Tiles, reloads and rooflines by level: hand-worked cases, a counted tiled product, laws, and arrays as numbers."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.cost.cache_roofline import Level, chosen_tile, loop_flops, product, roofline_s, tile_edge, traffic
from estimator.scenario.problems import InputProblems

MEMORY = Level(name="memory", bytes_per_s=1e12, tile=64.0, latency_s=1e-6)
CACHE = Level(name="L2", bytes_per_s=4e12, tile=256.0)
SIZES = st.integers(1, 3000)


@pytest.mark.parametrize(
    ("capacity", "edge"), [(12, 1), (3 * 4 * 64**2, 64), (3 * 4 * 64**2 - 1, 32), (0, 0), (11, 0.5)]
)
def test_the_tile_is_the_largest_power_of_two_of_which_three_fit(capacity, edge):
    assert tile_edge(float(capacity), 4) == edge
    assert tile_edge(np.array([float(capacity)]), 4)[0] == edge


def test_reference_tiles():
    assert tile_edge(9_667_968.75, 4) == 512
    assert tile_edge(58_007_812.5, 4) == 2048


def test_a_chosen_tile_must_fit_and_zero_takes_the_largest():
    assert chosen_tile(0, 9_667_968.75, 4, "l2_tile") == 512
    assert chosen_tile(897, 9_667_968.75, 4, "l2_tile") == 897
    with pytest.raises(InputProblems) as caught:
        chosen_tile(898, 9_667_968.75, 4, "l2_tile")
    assert caught.value.problems[0].field == "l2_tile"
    assert "897" in caught.value.problems[0].remedy


def counted(a, b, c, x):
    """Words that a product over square tiles reads and writes: C's tile stays, a panel of A stays where b fits."""
    words = a * c
    for row in range(0, a, x):
        height = min(x, a - row)
        panel_there = False
        for column in range(0, c, x):
            width = min(x, c - column)
            if not (b <= x and panel_there):
                words += height * b
                panel_there = True
            words += b * width
    return words


@pytest.mark.parametrize(
    ("a", "b", "c", "x"), [(512, 4000, 3000, 512), (100, 50, 999, 64), (70, 64, 640, 64), (1, 1, 1, 8)]
)
def test_reloads_are_those_of_a_tiled_product(a, b, c, x):
    assert traffic("L2", a, b, c, float(x), 4).bytes == 4 * counted(a, b, c, x)


def test_reloads_of_the_reference():
    moved = traffic("memory", 512, 39_936, 79_872, 512.0, 4)
    assert (moved.reload_ab, moved.reload_ac, moved.reload_bc) == (156, 1, 1)
    assert moved.bytes == 25_681_723_392
    assert loop_flops(512, 39_936, 79_872, 2048.0) == 3_271_025_491_968


def test_the_compatible_branch_adds_l2_below_the_ridge_and_ignores_memory_above():
    levels = (MEMORY, CACHE)
    below = roofline_s(1e6, (1e6, 8e6), levels, 10e12, "compatible")
    assert below == pytest.approx(1e-6 + 1e-6 + 2e-6)
    above = roofline_s(1e9, (1e6, 8e9), levels, 10e12, "compatible")
    assert above == pytest.approx(1e-4)
    assert roofline_s(1e9, (1e6, 8e9), levels, 10e12, "bound") == pytest.approx(2e-3)


def test_a_level_without_bandwidth_is_left_out():
    levels = (MEMORY, Level(name="L2", bytes_per_s=0.0, tile=0.0))
    cost = product(64, 64, 64, levels=levels, flops_per_s=1e15, element_bytes=4, mode="bound")
    assert cost.level_s[1] == 0.0
    assert cost.traffic[1].bytes == 4 * 3 * 64 * 64


@given(a=SIZES, b=SIZES, c=SIZES)
def test_traffic_is_never_below_each_matrix_once_and_falls_with_the_tile(a, b, c):
    once = 4 * (a * b + b * c + a * c)
    moved = [traffic("", a, b, c, float(2**power), 4).bytes for power in range(13)]
    assert min(moved) >= once
    assert moved[-1] == once
    assert all(left >= right for left, right in pairwise(moved))


@given(a=SIZES, b=SIZES, c=SIZES, mode=st.sampled_from(["compatible", "bound"]))
def test_arrays_give_what_numbers_give(a, b, c, mode):
    kept = {"levels": (MEMORY, CACHE), "flops_per_s": 2e13, "element_bytes": 2, "mode": mode}
    alone = product(a, b, c, **kept)
    many = product(np.array([1.0, a]), np.array([1.0, b]), np.array([1.0, c]), **kept)
    assert many.seconds[1] == alone.seconds
    assert [float(level.bytes[1]) for level in many.traffic] == [level.bytes for level in alone.traffic]


@given(a=SIZES, b=SIZES, c=SIZES)
def test_bound_is_at_least_every_part(a, b, c):
    cost = product(a, b, c, levels=(MEMORY, CACHE), flops_per_s=2e13, element_bytes=2, mode="bound")
    assert cost.seconds == max(cost.compute_s, *cost.level_s)
    assert cost.flops == 2 * a * b * c
    assert math.isfinite(cost.seconds)
