"""Sums in low precision, bit for bit those of the fourth reference report, and autocast's types."""

from __future__ import annotations

import pytest

from runners.benchmarks.precision import run
from runners.job import Job

# Accumulator, addend, value, count, and what the reference report printed
PRINTED = [
    ("fp32", "fp32", 0.01, 1000, 10.000133514404297),
    ("fp16", "fp16", 0.01, 1000, 9.953125),
    ("fp32", "fp16", 0.01, 1000, 10.00213623046875),
    ("fp32", "fp16", 0.01, 1000, 10.00213623046875),
    ("bf16", "bf16", 0.01, 1000, 4.0),
    ("fp32", "bf16", 0.01, 1000, 10.009765625),
    ("fp32", "fp32", 0.001, 10_000, 10.000411033630371),
    ("fp16", "fp16", 0.001, 10_000, 4.0),
    ("bf16", "bf16", 0.001, 10_000, 0.5),
]


@pytest.fixture(scope="module")
def rows():
    return run(Job(benchmark="precision", device="cpu"), lambda event: None).rows


def test_the_sums_are_those_of_the_reference_report(rows):
    found = [row for row in rows if row["experiment"] == "accumulation"]
    names = ("accumulator", "addend", "value", "count", "result")
    assert [tuple(row[name] for name in names) for row in found] == PRINTED
    assert [row["explicit_cast"] for row in found].index(True) == 3
    assert found[8]["relative_error"] == pytest.approx(0.95)
    assert found[6]["relative_error"] == pytest.approx(4.1e-5, rel=0.01)


def test_autocast_computes_products_in_its_type_and_keeps_parameters_and_gradients(rows):
    table = {(row["autocast"], row["part"]): row["dtype"] for row in rows if row["experiment"] == "autocast"}
    for name in ("fp16", "bf16"):
        assert table[name, "parameters"] == table[name, "gradients"] == "fp32"
        assert table[name, "fc1 output"] == table[name, "logits"] == name
        assert table[name, "loss"] == "fp32"
    # A GPU's autocast gives fp32 here; a CPU's has no rule for layer norm's output beyond its input
    assert table["bf16", "layer norm output"] in ("fp32", "bf16")
