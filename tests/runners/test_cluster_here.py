"""Here: a chip that the catalogue knows, and one that it does not."""

from __future__ import annotations

import dataclasses

import pytest

from estimator.scenario import catalog
from runners.cluster_here import cluster_here
from runners.processor import cpu_memory_bytes
from runners.ranks import Ranks


@pytest.fixture
def added(monkeypatch):
    """The catalogue as its files have it, whatever another test has put beside them."""
    found = {}
    monkeypatch.setattr(catalog, "_added", found)
    for kept in (catalog.entries, catalog._by_alias):
        kept.cache_clear()
    yield found
    for kept in (catalog.entries, catalog._by_alias):
        kept.cache_clear()


@pytest.mark.usefixtures("added")
def test_a_device_without_an_entry_has_its_memory_and_no_peaks():
    cluster, known = cluster_here(Ranks(world_size=2))
    assert not known
    assert (cluster.chips, cluster.chip.kind, cluster.chip.memory_bytes) == (2, "cpu", cpu_memory_bytes())


@pytest.mark.usefixtures("added")
def test_a_device_of_the_catalogue_is_that_chip():
    chip = dataclasses.replace(catalog.chip("h200-sxm"), name="cpu", kind="cpu")
    catalog.add("chips", catalog.CatalogEntry(key="cpu", label="CPU", value=chip))
    cluster, known = cluster_here(Ranks(world_size=2))
    assert known
    assert cluster.chip == chip
