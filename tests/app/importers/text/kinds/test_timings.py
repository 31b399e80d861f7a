from __future__ import annotations

from tests.app.importers.reading import one, read


def test_timings_with_their_spread_on_another_line(tmp_path):
    text = "Results:\n  Forward pass mean time: 20.9567 ms\n  Forward pass std dev: 2.2657 ms\n  Backward: 3 s\n"
    rows = one(read(tmp_path, text), "timings").rows
    assert rows[0]["mean_s"] == 0.0209567
    assert rows[0]["std_s"] == 0.0022657
    assert rows[1]["mean_s"] == 3.0
    assert rows[0]["group"] == "Results"
