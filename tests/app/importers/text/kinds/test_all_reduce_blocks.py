from __future__ import annotations

import pytest

from estimator.scenario.units import GIB, MIB
from tests.app.importers.reading import codes, one, read


def block(ranks, mib, seconds, bandwidth, head=True):
    top = f"====\nAll-Reduce Benchmark Results\n====\nBackend: NCCL\nDevice: GPU (CUDA)\nWorld size: {ranks}\n"
    top += (
        f"Tensor size: {mib} MB ({mib * 262144} float32 elements)\n\n  Overall average time: {seconds * 1e3:.3f} ms\n"
    )
    top += f"  Overall min time: {seconds * 1e3:.3f} ms\n"
    rest = f"  Overall max time: {seconds * 1e3:.3f} ms\n\nPer-rank average times:\n"
    rest += "".join(f"  Rank {i}: {seconds * 1e3:.3f} ms\n" for i in range(ranks))
    rest += f"\nEffective bandwidth: {bandwidth:.2f} GB/s\n====\n"
    return top + rest if head else rest.replace("  Overall max", "rall max", 1)


READINGS = {
    "bandwidth-is-bus-gib": lambda rate, n: rate * 2 * (n - 1) / n / GIB,
    "bandwidth-is-bus-gb": lambda rate, n: rate * 2 * (n - 1) / n / 1e9,
    "bandwidth-is-algorithm-gib": lambda rate, n: rate / GIB,
    "bandwidth-is-algorithm-gb": lambda rate, n: rate / 1e9,
}


@pytest.mark.parametrize("code", READINGS)
def test_what_the_bandwidth_is(tmp_path, code):
    cases = [(4, 64, 0.004), (8, 512, 0.02)]
    text = "".join(block(n, mib, s, READINGS[code](mib * MIB / s, n)) for n, mib, s in cases)
    imported = read(tmp_path, text)
    assert {code, "mb-is-mib"} == codes(imported)
    key = "bus_bytes_per_s" if "bus" in code else "algorithm_bytes_per_s"
    factor = 2 * 7 / 8 if "bus" in code else 1.0
    assert one(imported).rows[1][key] == pytest.approx(512 * MIB / 0.02 * factor, rel=2e-3)


def test_a_bandwidth_that_fits_nothing_is_left_out(tmp_path):
    imported = read(tmp_path, block(4, 64, 0.004, 1.0))
    assert "bandwidth-unclear" in codes(imported)
    assert "bus_bytes_per_s" not in one(imported).rows[0]
    assert one(imported).collectives[0].seconds == pytest.approx(0.004)


@pytest.mark.parametrize(
    "size", ["Tensor size: , MB", "Tensor size: 64 MB (, float32", "Tensor size: 1.2.3 MB", "Tensor size: 0 MB"]
)
def test_a_size_that_is_no_number(tmp_path, size):
    assert read(tmp_path, block(4, 64, 0.004, 20.0).replace("Tensor size: 64 MB", size)).measurements


def test_a_block_that_lost_its_head(tmp_path):
    whole = block(4, 64, 0.004, READINGS["bandwidth-is-bus-gib"](64 * MIB / 0.004, 4))
    cut = block(6, 512, 0.03, READINGS["bandwidth-is-bus-gib"](512 * MIB / 0.03, 6), head=False)
    row = one(read(tmp_path, whole + cut)).rows[1]
    assert (row["world_size"], row["backend"], row["reconstructed"]) == (6, "nccl", True)
    assert row["mean_s"] == pytest.approx(0.03)
    assert row["max_s"] == pytest.approx(0.03)
    assert row["size_bytes"] == pytest.approx(512 * MIB, rel=1e-3)


def test_nothing_to_reconstruct_from(tmp_path):
    imported = read(tmp_path, block(6, 512, 0.03, 5.0, head=False))
    row = one(imported).rows[0]
    assert row["size_bytes"] is None
    assert {"truncated-block", "bandwidth-unclear"} <= codes(imported)
    assert imported.skipped == 1
