"""Cache levels of catalogue chips: every number has a source, and capacities and rates fall and rise as they must."""

from __future__ import annotations

import tomllib

import pytest

from estimator.cost.cache_roofline import caches, levels, names
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
