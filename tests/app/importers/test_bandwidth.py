from __future__ import annotations

import pytest

from app.importers.bandwidth import bus_factor, collective_kind, errors


@pytest.mark.parametrize(
    ("kind", "ranks", "factor"),
    [
        ("all-reduce", 2, 1.0),
        ("all-reduce", 4, 1.5),
        ("all-gather", 4, 0.75),
        ("broadcast", 8, 1.0),
        ("p2p", 2, 1.0),
        ("all-reduce", 1, 1.0),
    ],
)
def test_factors(kind, ranks, factor):
    assert bus_factor(kind, ranks) == factor


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("All-Reduce Benchmark Results", "all-reduce"),
        ("_allgather_base", "all-gather"),
        ("reduce_scatter_tensor_coalesced", "reduce-scatter"),
        ("gloo:all_reduce", "all-reduce"),
        ("all_to_all", "all-to-all"),
        ("send", "p2p"),
        ("forward", ""),
    ],
)
def test_kinds(text, kind):
    assert collective_kind(text) == kind


def test_readings_of_a_printed_bandwidth():
    found = errors("all-reduce", 4, 2.0**30, 9.878e-3, 151.85)
    assert found["bandwidth-is-bus-gib"] < 1e-3
    assert all(error > 0.05 for code, error in found.items() if code != "bandwidth-is-bus-gib")
