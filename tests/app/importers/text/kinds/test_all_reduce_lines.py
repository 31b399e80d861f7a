from __future__ import annotations

import pytest

from tests.app.importers.reading import codes, one, read


def lines(values, unit, backend="NCCL", sizes=(1, 10, 100, 1024)):
    found = []
    for ranks, row in values.items():
        for size, value in zip(sizes, row, strict=True):
            measured = f"min {value * 0.9:.3f} mean {value:.3f} max {value * 1.1:.3f} {unit}"
            found.append(f"{backend} | cuda | {ranks} proc | {size:4d} MB -> {measured}")
    return "# all reduce\n" + "\n".join(found)


TIMES_MS = {2: (0.18, 1.36, 13.07, 131.3), 4: (0.3, 2.0, 19.5, 198.0)}
RATES_MB = {2: (900.0, 5000.0, 7800.0, 8100.0), 4: (500.0, 3000.0, 5200.0, 5300.0)}


def test_milliseconds_under_a_wrong_label(tmp_path):
    imported = read(tmp_path, lines(TIMES_MS, "MB/s"))
    assert "unit-mislabelled" in codes(imported)
    assert one(imported).rows[3]["mean_s"] == pytest.approx(0.1313)
    assert one(imported).collectives[3].bytes == 1024 * 1024**2


def test_a_true_bandwidth_is_believed(tmp_path):
    imported = read(tmp_path, lines(RATES_MB, "MB/s"))
    assert "unit-mislabelled" not in codes(imported)
    row = one(imported).rows[3]
    assert row["algorithm_bytes_per_s"] == 8100e6
    assert row["mean_s"] == pytest.approx(1024 * 1024**2 / 8100e6)


def test_a_true_time_is_believed(tmp_path):
    imported = read(tmp_path, lines(TIMES_MS, "ms"))
    assert "unit-mislabelled" not in codes(imported)
    assert one(imported).rows[0] == {
        "kind": "all-reduce",
        "backend": "nccl",
        "device": "cuda",
        "world_size": 2,
        "size_bytes": 1024.0**2,
        "min_s": 0.000162,
        "mean_s": 0.00018,
        "max_s": 0.000198,
        "bus_bytes_per_s": 1024.0**2 / 0.00018,
    }


def test_a_number_without_end_is_none(tmp_path):
    damaged = lines(TIMES_MS, "MB/s").replace("mean 0.18", "mean 1e999", 1)
    assert damaged != lines(TIMES_MS, "MB/s")
    assert "mean_s" not in one(read(tmp_path, damaged)).rows[0]


def test_a_size_with_two_points_is_none(tmp_path):
    damaged = lines(TIMES_MS, "ms").replace("   1 MB", ".0.0 MB", 1)
    assert damaged != lines(TIMES_MS, "ms")
    rows = one(read(tmp_path, damaged)).rows
    assert len(rows) in (7, 8)
    assert rows[-1]["mean_s"] == pytest.approx(0.198)


def test_values_without_a_unit(tmp_path):
    assert one(read(tmp_path, lines(TIMES_MS, ""))).rows[0]["mean_s"] == pytest.approx(0.00018)
    few = read(tmp_path, lines({2: (1.0,)}, "", sizes=(1,)))
    assert one(few).rows[0].get("mean_s") is None or "mb-ambiguous" in codes(few)


def test_decimal_sizes_stay_decimal(tmp_path):
    imported = read(tmp_path, lines({2: (0.2, 1.4, 13.0)}, "ms", sizes=(1, 10, 100)))
    assert one(imported).rows[0]["size_bytes"] == 1e6
    assert "mb-ambiguous" in codes(imported)


def test_other_collectives_by_the_heading(tmp_path):
    imported = read(tmp_path, lines(TIMES_MS, "ms").replace("all reduce", "all-gather"))
    (first, *_) = one(imported).collectives
    assert first.kind == "all-gather"
    assert first.bus_bytes_per_s == pytest.approx(first.algorithm_bytes_per_s / 2)


def test_zeros_do_no_harm(tmp_path):
    assert one(read(tmp_path, lines({2: (0.0, 0.0, 0.0, 0.0)}, "MB/s"))).rows
