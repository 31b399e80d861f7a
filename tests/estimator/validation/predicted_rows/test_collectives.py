"""Rows of collectives: the formula that prices them in a step, on the node that the row names."""

from __future__ import annotations

import pytest

from estimator.cost.collectives import Group, collective_s
from estimator.cost.efficiency import efficiencies
from estimator.scenario import catalog
from estimator.scenario.scenario import cluster_from_json
from estimator.validation.predicted_rows.collectives import run_row, text_row
from estimator.validation.predicted_rows.device import TableDevice

RUN = {"kind": "all-gather", "library": "nccl", "ranks": 4, "bytes": 1e8}
TEXT = {"kind": "all-gather", "backend": "nccl", "world_size": 4, "size_bytes": 1e8}


def place(ranks: int = 1) -> TableDevice:
    return TableDevice(chip="h100-sxm", ranks=ranks)


def test_a_run_and_a_text_are_priced_alike():
    cluster = cluster_from_json({"chip": "h100-sxm", "chips_per_node": 4, "nodes": 1})
    e = efficiencies(catalog.chip("h100-sxm").efficiency)
    each = collective_s("all-gather", 1e8, Group(ranks=4.0, ranks_per_node=4.0), cluster, e)
    assert run_row(RUN, place()) == {"slowest_median_s": pytest.approx(each)}
    assert text_row(TEXT, place()) == {"mean_s": pytest.approx(each)}
    assert text_row({**TEXT, "world_size": None} | {"world_size": 4}, place()) == text_row(TEXT, place())


def test_ranks_are_those_of_the_run_where_a_line_names_none():
    line = {name: value for name, value in TEXT.items() if name != "world_size"}
    assert text_row(line, place(4)) == text_row(TEXT, place())


def test_gloo_is_a_ring_through_the_host_s_memory():
    row = {"kind": "all-reduce", "backend": "gloo", "world_size": 4, "size_bytes": 3e9}
    # six steps of latency, and 2 · 3/4 of the payload at 3 GB/s
    assert text_row(row, place())["mean_s"] == pytest.approx(6 * 5e-5 + 1.5)


@pytest.mark.parametrize("changes", [{"backend": "mpi"}, {"kind": "broadcast"}, {"size_bytes": None}])
def test_what_is_not_priced_is_empty(changes):
    assert text_row({name: value for name, value in {**TEXT, **changes}.items() if value}, place()) == {}
