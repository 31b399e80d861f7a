"""Efficiencies: each chip family is complete, each number lies in its own range and says where it comes from."""

import pytest

from estimator.cost.efficiency import NAMES, ROOT, efficiencies, ideal
from estimator.scenario import catalog

FAMILIES = sorted(path.stem for path in ROOT.glob("*.toml"))


@pytest.mark.parametrize("family", FAMILIES)
def test_each_number_lies_in_its_range_and_has_unit_and_source(family):
    found = efficiencies(family)
    assert found.name == family
    assert set(found.ranges) == set(NAMES)
    for name in NAMES:
        one = found.ranges[name]
        assert getattr(found, name) == one.value
        assert 0 <= one.low <= one.value <= one.high, name
        assert one.unit, name
        assert one.source, name


@pytest.mark.parametrize("family", FAMILIES)
def test_no_share_of_the_datasheet_is_beyond_belief(family):
    found = efficiencies(family)
    of_others = {name for name in NAMES if name.startswith("allocator_") or "of forward's" in found.ranges[name].unit}
    shares = [name for name in NAMES if name.endswith("_frac") and name not in of_others]
    assert all(found.ranges[name].low > 0 and found.ranges[name].high <= 1.2 for name in shares)
    assert found.allocator_frac >= found.allocator_scores_frac >= 1


def test_every_chip_of_the_catalogue_names_a_family_that_exists():
    chips = [entry for entry in catalog.entries("chips") if (catalog.ROOT / "chips" / f"{entry.key}.toml").exists()]
    assert {entry.value.efficiency for entry in chips} <= set(FAMILIES)


def test_an_unknown_family_takes_the_default_and_says_so():
    assert efficiencies("no such family") == efficiencies("default")
    assert efficiencies("no such family").name == "default"


@pytest.mark.parametrize("name", ["../chips/h100-sxm", str(ROOT / "hopper"), "x" * 5000, "\0", "", "hopper/../hopper"])
def test_what_a_family_is_called_is_never_a_path(name):
    assert efficiencies(name) is efficiencies("default")


def test_a_family_changes_what_its_file_says_and_nothing_else():
    default, ampere = efficiencies("default"), efficiencies("ampere")
    written = {line.split(" =")[0] for line in (ROOT / "ampere.toml").read_text().splitlines() if " = {" in line}
    assert written
    for name in set(NAMES) - written:
        assert ampere.ranges[name] == default.ranges[name]


def test_ideal_is_the_datasheet_without_spread():
    found = ideal(efficiencies("default"))
    assert (found.gemm_matrix_frac, found.memory_frac, found.link_frac, found.allocator_frac) == (1, 1, 1, 1)
    assert (found.host_forward_s, found.kernel_tail_s, found.workspace_bytes, found.collective_start_s) == (0, 0, 0, 0)
    assert found.contention_frac == 0
    assert all(one.low == one.value == one.high for one in found.ranges.values())
