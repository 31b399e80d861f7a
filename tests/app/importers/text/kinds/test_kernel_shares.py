from __future__ import annotations

from tests.app.importers.reading import codes, one, read


def test_shares_that_are_whole_say_nothing(tmp_path):
    imported = read(tmp_path, "Backward\n60% ampere_sgemm_a\n40% softmax_warp_forward\n")
    rows = one(imported, "kernel-shares").rows
    assert [(row["category"], row["time_frac"], row["scope"]) for row in rows] == [
        ("matmul", 0.6, "Backward"),
        ("attention", 0.4, "Backward"),
    ]
    assert codes(imported) == set()
