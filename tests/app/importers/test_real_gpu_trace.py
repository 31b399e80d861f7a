"""A Kineto trace of a real step: two blocks, DDP over NCCL on two H200, torch 2.11, rank 0, shapes recorded."""

from pathlib import Path

import pytest

from app.importers import import_file

TRACE = Path(__file__).parents[2] / "reference" / "kineto" / "h200_ddp.json.gz"


@pytest.fixture(scope="module")
def imported():
    return import_file(TRACE, TRACE.name)


def test_device_rank_and_world_size_are_read(imported):
    (measurement,) = imported.measurements
    assert measurement.device["name"] == "NVIDIA H200"
    assert (measurement.world_size, measurement.rank) == (2, 0)


def test_phases_and_categories_add_to_the_step(imported):
    (measurement,) = imported.measurements
    (step_s,) = measurement.steps_s
    assert sum(measurement.breakdown_s.values()) == pytest.approx(step_s, rel=0.02)
    assert sum(measurement.phases_s.values()) == pytest.approx(step_s, rel=0.02)
    # So small a model waits for its host most of the time.
    assert measurement.breakdown_s["host"] > 0.5 * step_s


def test_products_carry_the_flops_of_their_shapes(imported):
    """Tokens N = 2·256; per block q, k, v, o, gate, up, down; head; backward twice forward."""
    (measurement,) = imported.measurements
    tokens, hidden, kv_width, ffn, vocab, blocks = 512, 512, 256, 1536, 8000, 2
    matrices = blocks * (2 * hidden * hidden + 2 * hidden * kv_width + 3 * hidden * ffn) + hidden * vocab
    flops = sum(kernel.flops or 0 for kernel in measurement.kernels if kernel.category == "matmul")
    assert flops == 6 * tokens * matrices


def test_collectives_are_the_gradient_buckets(imported):
    (measurement,) = imported.measurements
    parameters = 512 * 8000 * 2 + 2 * (2 * 512 * 512 + 2 * 512 * 256 + 3 * 512 * 1536 + 2 * 512) + 512
    assert {collective.kind for collective in measurement.collectives} == {"all-reduce"}
    assert sum(collective.bytes for collective in measurement.collectives) == 2 * parameters
    assert {collective.ranks for collective in measurement.collectives} == {2}
