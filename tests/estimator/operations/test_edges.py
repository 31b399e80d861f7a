"""Edges: the embedding's table, aligned and odd vocabularies, and none around bare stacks."""

from __future__ import annotations

import pytest

from estimator.operations.rank_sizes import dims
from estimator.operations.transformer import network
from tests.estimator.examples import GPT, LLAMA, scenario
from tests.estimator.operations.shapes import ATTENTION, FFN, dims_of, named


def test_the_embedding_gradient_touches_the_whole_table():
    ops = {op.name: op for op in network(dims(scenario(LLAMA))).embedding}
    assert ops["embedding gradient table"].bytes == 1024 * 256 * 2
    assert ops["embedding"].bytes == 2 * 128 * 256 * 2
    learned = {op.name: op for op in network(dims(scenario(GPT))).embedding}
    assert learned["embedding gradient table"].bytes == (1024 + 128) * 256 * 2


@pytest.mark.parametrize(("vocab", "aligned"), [(50_257, False), (50_264, True), (1024, True)])
def test_odd_vocabularies_are_not_aligned(vocab, aligned):
    ops = network(dims(scenario({**LLAMA, "vocab": vocab}))).head
    assert {op.aligned for op in ops if op.kind == "gemm"} == {aligned}


def test_the_head_stays_in_16_bit_under_fp8():
    ops = network(dims_of(LLAMA, precision="fp8"))
    assert {op.precision for op in ops.head if op.kind == "gemm"} == {"bf16"}
    assert "fp8" in {op.precision for op in ops.blocks[0].ops}


def test_bare_stacks_have_no_edges():
    for model in (FFN, ATTENTION):
        assert network(dims_of(model)).embedding == network(dims_of(model)).head == ()


def test_a_grid_divides_table_look_ups_and_logits_over_all_its_ranks():
    whole, grid = (network(dims_of(LLAMA, plan)) for plan in ({}, {"tp": 4, "tp_kind": "2d"}))
    for one, part in zip((*whole.embedding, *whole.head), (*grid.embedding, *grid.head), strict=True):
        assert part.flops * part.count == one.flops / 4, one.name
        if one.kind == "kernels":
            assert part.bytes == one.bytes / 4, one.name
    table = named(network(dims_of(LLAMA, {"tp": 8, "tp_kind": "3d"})).embedding)["embedding gradient table"]
    assert table.bytes == 1024 * 256 * 2 / 8
