"""Efficiencies from a table of operators: the constants that made the table are found again."""

from __future__ import annotations

import dataclasses
import tomllib
from itertools import product

import pytest

from benchmarks import operators
from benchmarks.operators import BASES, TILES, calibration
from estimator.calibration.fit import predicted_s, with_constants
from estimator.cost.efficiency import efficiencies, tiles
from estimator.scenario import catalog

CHIP = catalog.chip("l4")
TRUE = dataclasses.replace(
    with_constants(efficiencies(BASES["l4"]), {"memory_frac": 0.8, "gemm_vector_frac": 0.6}),
    gemm_vector_tiles=tiles(tuple((r, c, 0.5 if (r, c) == (256, 128) else rate) for r, c, rate in TILES), ""),
)


def rows() -> list[dict[str, str]]:
    products = []
    for m, n, k in product((2048, 4096, 5000), (1024, 3072), (1024, 8192)):
        seconds = predicted_s(operators.product(1.0, m, n, k, 1.0), CHIP, TRUE)
        products.append({"op_class": "linear", "op": "", "batch": "1", "m": str(m), "n": str(n), "k": str(k),
                         "measured_s": str(seconds)})  # fmt: skip
    kernels = [
        {"op_class": kind, "op": op, "rows": str(count), "columns": "2048",
         "measured_s": str(accesses * 4 * count * 2048 / (CHIP.memory_bytes_per_s * share)
                           + (operators.rows_s(CHIP, count, 2048) if kind == "ln" else 0.0))}
        for kind, op, accesses, share in (("elem", "add", 3, 0.8), ("ln", "ln", 2, 0.4), ("softmax", "softmax", 2, 0.6))
        for count in (30_000, 40_000, 60_000, 80_000)
    ]  # fmt: skip
    # Short rows are a warp's and odd ones another kernel's: neither is what long rows of attention take.
    others = [
        {"op_class": "softmax", "op": "softmax", "rows": "90000", "columns": str(columns),
         "measured_s": str(2 * 4 * 90_000 * columns / (CHIP.memory_bytes_per_s * share))}
        for columns, share in ((512, 0.8), (768, 0.8), (1024, 0.8), (2046, 0.3), (3333, 0.3))
    ]  # fmt: skip
    return products + kernels + others


def test_one_softmax_of_long_rows_is_told_with_as_wide_a_range_as_its_family():
    family = efficiencies(BASES["l4"]).ranges["softmax_frac"]
    long = [row for row in rows() if row["op_class"] == "softmax" and row["columns"] == "2048"]
    few = [row for row in rows() if row not in long[1:]]
    found = tomllib.loads(calibration("a chip", CHIP, few, "a table"))["ranges"]["softmax_frac"]
    assert found["value"] == pytest.approx(0.75)
    assert found["low"] / found["value"] == pytest.approx(family.low / family.value, rel=0.01)
    assert found["source"].endswith("1 kernel")


def test_the_constants_behind_a_table_are_found_again():
    found = tomllib.loads(calibration("a chip", CHIP, rows(), "a table"))
    ranges = found["ranges"]
    assert ranges["gemm_vector_frac"]["value"] == pytest.approx(0.6 * 0.95, rel=0.05), (
        "the best tile of a table is the measure"
    )
    assert ranges["memory_frac"]["value"] == pytest.approx(0.8)
    assert ranges["norm_frac"]["value"] == pytest.approx(0.5)
    assert ranges["softmax_frac"]["value"] == pytest.approx(0.75)
    table = found["tables"]["gemm_vector_tiles"]
    assert (max(table["rate"]), table["columns"]) == (1.0, [128, 128, 64, 64, 32])
    assert table["rate"][0] < 0.75, "the slow tile is found"
    assert all(one["low"] <= one["value"] <= one["high"] for one in ranges.values())
