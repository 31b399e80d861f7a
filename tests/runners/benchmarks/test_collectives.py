"""Collectives over gloo between real processes."""

from __future__ import annotations

import pytest

from estimator.scenario.problems import InputProblems
from runners.benchmarks.collectives import run
from runners.job import Job
from runners.options import COLLECTIVES
from runners.parallel.collectives import traffic
from tests.runners.benchmarks.on_ranks import measure


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    flags = ("--sizes-bytes", "64,64KiB", "--group-sizes", "2,3", "--libraries", "gloo,nccl")
    return measure(tmp_path_factory.mktemp("collectives"), 3, "collectives", *flags, steps=3)


def of(result, **wanted):
    return [row for row in result.rows if all(row.get(key) == value for key, value in wanted.items())]


def test_every_kind_has_a_row_for_each_rank_of_each_group(result):
    for kind in COLLECTIVES:
        for size in (2, 3):
            rows = of(result, kind=kind, ranks=size, library="gloo", requested_bytes=65536)
            expected = size if kind != "p2p" else 2 * (size == 2)
            assert [row["rank"] for row in rows] == list(range(expected)), kind
            for row in rows:
                assert row["status"] == "ok"
                assert 0 < row["minimum_s"] <= row["median_s"] <= row["maximum_s"] < 10
                assert row["samples"] == 3


def test_what_is_not_there_is_a_row_too(result):
    rows = of(result, library="nccl")
    assert rows
    assert {row["status"] for row in rows} == {"unsupported"}


def test_bandwidths_follow_their_definitions(result):
    for row in of(result, status="ok"):
        assert row["bytes"] >= row["requested_bytes"]
        assert row["bytes"] - row["requested_bytes"] < 2 * row["ranks"]
        assert row["algorithm_bytes_per_s"] == pytest.approx(row["bytes"] / row["slowest_median_s"])
        factor = row["bus_bytes_per_s"] / row["algorithm_bytes_per_s"]
        assert factor == pytest.approx(traffic(row["kind"], row["ranks"]))
    assert len(result.collectives) == 2 * (2 * 6 - 1)
    assert all(one.bus_bytes_per_s > 0 for one in result.collectives)
    assert "2(n-1)/n" in result.samples["definitions"]["bus_bytes_per_s"]


def test_the_traffic_of_the_kinds():
    # nccl-tests, doc/PERFORMANCE.md
    assert [traffic(kind, 4) for kind in COLLECTIVES] == [1.5, 0.75, 0.75, 0.75, 1.0, 1.0]
    assert traffic("all-reduce", 2) == 1.0


def test_a_group_larger_than_the_run_is_refused():
    job = Job(benchmark="collectives", device="cpu", world_size=2, options={"group_sizes": [4]})
    with pytest.raises(InputProblems, match="4 ranks, but 2 processes run"):
        run(job, lambda event: None)
