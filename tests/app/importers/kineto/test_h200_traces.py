"""Traces recorded on two H200 (tests/reference/kineto/record.py): what the documented fields look like in the wild."""

from __future__ import annotations

import pytest

from app.importers import import_file
from tests.app.importers.reading import REFERENCE, codes, one

WIDTH, TOKENS, VOCAB, LAYERS, HEADS, LENGTH, BATCH, DIM = 256, 2048, 1000, 2, 4, 512, 4, 64
PRODUCTS = 2.0 * TOKENS * (LAYERS * (3 + 1 + 4 + 4) * WIDTH**2 + WIDTH * VOCAB)
SCORES = 2.0 * BATCH * HEADS * LENGTH**2 * DIM
CAUSAL = 0.5  # what a kernel executes where is_causal is recorded


@pytest.fixture(scope="module", params=["h200_ddp_amp", "h200_ddp_compile"])
def imported(request):
    path = REFERENCE / "kineto" / f"{request.param}.json.gz"
    return import_file(path, path.name)


def test_machine_and_ranks(imported):
    measurement = one(imported)
    assert measurement.device["name"] == "NVIDIA H200"
    assert measurement.device["memory_bytes"] == 150109880320
    assert (measurement.world_size, measurement.rank) == (2, 0)
    assert measurement.environment["backend"] == "nccl"
    assert codes(imported) == {"collective-includes-wait"}
    assert imported.skipped == 0


def test_steps_add_up(imported):
    measurement = one(imported)
    assert len(measurement.steps_s) == 3
    assert sum(measurement.phases_s.values()) == pytest.approx(sorted(measurement.steps_s)[1])
    assert sum(measurement.breakdown_s.values()) == pytest.approx(sorted(measurement.steps_s)[1])
    for phase in ("forward", "backward", "optimizer", "exposed_communication", "host_wait"):
        assert measurement.phases_s[phase] > 0, phase
    assert measurement.breakdown_s["other"] < 0.01 * sum(measurement.breakdown_s.values())


def test_every_product_and_attention_call_is_counted_once(imported):
    by_category: dict[str, float] = {}
    for kernel in one(imported).kernels:
        by_category[kernel.category] = by_category.get(kernel.category, 0.0) + (kernel.flops or 0.0)
    assert by_category["matmul"] == pytest.approx(3 * PRODUCTS)
    assert by_category["attention"] == pytest.approx(CAUSAL * LAYERS * (2 + 5) * SCORES)


def test_no_kernel_is_faster_than_the_chip(imported):
    for kernel in one(imported).kernels:
        if kernel.flops and kernel.bytes:
            assert kernel.flops / kernel.total_s < 989e12
            assert 0 < kernel.flops / kernel.bytes < 10_000


def test_collectives_hold_the_gradients(imported):
    measurement = one(imported)
    assert {collective.kind for collective in measurement.collectives} == {"all-reduce"}
    parameters = VOCAB * WIDTH * 2 + LAYERS * (12 * WIDTH**2 + 4 * WIDTH + 5 * WIDTH)
    assert sum(collective.bytes for collective in measurement.collectives) == pytest.approx(4 * parameters, rel=1e-3)


def test_memory_where_it_was_recorded(imported):
    measurement = one(imported)
    if measurement.label == "h200_ddp_amp":
        assert 0 < measurement.memory.peak_bytes < measurement.memory.reserved_bytes < 1e9
    else:
        assert measurement.memory.peak_bytes is None
