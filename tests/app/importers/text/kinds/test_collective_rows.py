from __future__ import annotations

import pytest

from app.importers.text.kinds.collective_rows import kind_of, measured


def test_all_reduce_where_nothing_else_is_said():
    assert kind_of("Benchmark") == "all-reduce"
    assert kind_of("reduce-scatter sweep") == "reduce-scatter"


def test_bandwidths_follow_from_size_and_time():
    found = measured({"kind": "all-gather", "size_bytes": 8e6, "world_size": 4, "mean_s": 1e-3})
    assert found.algorithm_bytes_per_s == pytest.approx(8e9)
    assert found.bus_bytes_per_s == pytest.approx(6e9)


@pytest.mark.parametrize("missing", ["size_bytes", "world_size", "mean_s"])
def test_rows_that_lack_a_part(missing):
    row = {"kind": "all-reduce", "size_bytes": 8e6, "world_size": 4, "mean_s": 1e-3}
    assert measured({**row, missing: None}) is None
    assert measured({**row, missing: 0}) is None
