"""Efficiencies from a table of operators: the constants that made the table are found again."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from benchmarks.operators import START, Operators, calibration, product_s
from estimator.scenario import catalog

CHIP = catalog.chip("l4")
TRUE = {**START, "frac": 0.6, "128x64": 0.7}


def rows() -> list[dict[str, str]]:
    sizes = np.array([(1.0, m, n, k) for m in (2048, 4096, 5000) for n in (1024, 3072) for k in (1024, 8192)]).T
    batch, m, n, k = sizes
    moved = 4 * batch * (m * k + k * n + m * n)
    ops = Operators(batch=batch, m=m, n=n, k=k, bytes=moved, measured_s=batch)
    seconds = product_s(CHIP, ops, TRUE, 0.8)
    products = [
        {"op_class": "linear", "op": "", "batch": "1", "m": str(a), "n": str(b), "k": str(c), "measured_s": str(s)}
        for a, b, c, s in zip(m, n, k, seconds, strict=True)
    ]  # fmt: skip
    kernels = [
        {"op_class": kind, "op": op, "rows": str(count), "columns": "2048",
         "measured_s": str(accesses * 4 * count * 2048 / (CHIP.memory_bytes_per_s * share))}
        for kind, op, accesses, share in (("elem", "add", 3, 0.8), ("ln", "ln", 2, 0.4), ("softmax", "softmax", 2, 0.6))
        for count in (30_000, 40_000, 60_000, 80_000)
    ]  # fmt: skip
    return products + kernels


def test_the_constants_behind_a_table_are_found_again():
    found = tomllib.loads(calibration("a chip", CHIP, rows(), "a table"))
    ranges = found["ranges"]
    assert ranges["gemm_vector_frac"]["value"] == pytest.approx(0.6, rel=0.05)
    assert ranges["memory_frac"]["value"] == pytest.approx(0.8)
    assert ranges["norm_frac"]["value"] == pytest.approx(0.5)
    assert ranges["softmax_frac"]["value"] == pytest.approx(0.75)
    assert max(found["tables"]["gemm_vector_tiles"]["rate"]) == 1.0
    assert all(one["low"] <= one["value"] <= one["high"] for one in ranges.values())
