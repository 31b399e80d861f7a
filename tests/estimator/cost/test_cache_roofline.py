"""Cache roofline: sourced levels, tiles, reloads and rooflines: hand-worked cases, a counted product, laws."""

from __future__ import annotations

import math
import tomllib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.cost.cache_roofline import (
    Level,
    caches,
    chosen_tile,
    levels,
    loop_flops,
    names,
    product,
    roofline_s,
    tile_edge,
    traffic,
)
from estimator.scenario import catalog
from estimator.scenario.hardware import Chip
from estimator.scenario.problems import InputProblems


def test_the_chips_of_the_pathfinding_page_are_there():
    assert {"a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200", "mi300x"} <= set(names())


@pytest.mark.parametrize("chip", names())
def test_every_level_has_a_source_and_the_chip_is_in_the_catalogue(chip):
    document = tomllib.loads((catalog.ROOT / "caches" / f"{chip}.toml").read_text(encoding="utf-8"))
    assert document["chip"] == chip == catalog.chip(chip).name
    assert {"matrix_tile", *(level["name"] for level in document["levels"])} == set(document["sources"])
    assert all(len(text) > 20 for text in document["sources"].values())


@pytest.mark.parametrize("chip", names())
@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_outer_levels_are_larger_and_slower(chip, element_bytes):
    own = catalog.chip(chip)
    found = levels(own, element_bytes)
    assert found.levels[0].name == "memory"
    assert found.levels[0].bytes_per_s == own.memory_bytes_per_s
    rates = [level.bytes_per_s for level in found.levels]
    tiles = [level.tile for level in found.levels]
    assert rates == sorted(rates)
    assert tiles == sorted(tiles, reverse=True)
    assert found.levels[-1].name == "registers"


@pytest.mark.parametrize("chip", [name for name in names() if name != "mi300x"])
def test_the_last_level_cache_is_the_catalogues(chip):
    found = caches(chip)
    assert found is not None
    l2 = found[0].levels[-1]
    assert l2.name == "L2"
    assert l2.capacity_bytes == catalog.chip(chip).l2_bytes


def test_published_rates():
    a100 = {level.name: level.bytes_per_s for level in levels(catalog.chip("a100-80gb-sxm"), 2).levels}
    assert a100["L2"] == pytest.approx(7.219e12, rel=0.001)
    assert a100["shared memory"] == pytest.approx(19.5e12, rel=0.01)
    mi300x = {level.name: level.bytes_per_s for level in levels(catalog.chip("mi300x"), 2).levels}
    assert mi300x["Infinity Cache"] == 17.2e12
    assert mi300x["L2"] == pytest.approx(34.4e12, rel=0.001)


def test_a_chip_without_levels_names_those_that_have_them():
    with pytest.raises(InputProblems) as caught:
        levels(Chip(fp32_flops_per_s=1e12, memory_bytes=1e9, memory_bytes_per_s=1e11), 4)
    assert caught.value.problems[0].field == "cluster.chip"
    assert "h200-sxm" in caught.value.problems[0].remedy


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
