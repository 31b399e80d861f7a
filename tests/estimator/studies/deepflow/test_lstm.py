"""LSTM: shapes against a cell written out in NumPy, parameters against a written-out stack, memory's parts."""

from __future__ import annotations

import numpy as np
import pytest

from estimator.studies.deepflow import lstm
from estimator.studies.deepflow.lstm import Lstm
from estimator.studies.deepflow.lstm_memory import PARTS, parameters, requirement, total

SMALL = Lstm(batch=3, vocab=11, layers=2, hidden=5, projection=4, sequence=7)


def test_the_cells_product_is_the_one_of_a_written_out_cell():
    random = np.random.default_rng(0)
    x, h, c = (random.normal(size=(SMALL.batch, SMALL.hidden)) for _ in range(3))
    weights = random.normal(size=(2 * SMALL.hidden, SMALL.gates * SMALL.hidden))
    gates = np.concatenate([x, h], axis=1) @ weights
    product = lstm.forward_product(SMALL, "hidden", SMALL.hidden)
    assert (product.a, product.b, product.c) == (SMALL.batch, 2 * SMALL.hidden, gates.shape[1])
    assert weights.shape == lstm.weight_shape(SMALL, "hidden", SMALL.hidden)
    i, f, o, g = np.split(gates, SMALL.gates, axis=1)
    assert (np.tanh(f * c + i * g) * o).shape == (product.a, SMALL.hidden)


def test_softmax_and_projection_work_on_every_position():
    positions = SMALL.batch * SMALL.sequence
    softmax = lstm.forward_product(SMALL, "softmax", SMALL.projection)
    assert (softmax.a, softmax.b, softmax.c) == (positions, SMALL.projection, SMALL.vocab)
    projection = lstm.forward_product(SMALL, "projection", SMALL.hidden)
    assert (projection.a, projection.b, projection.c) == (positions, SMALL.hidden, SMALL.projection)
    assert lstm.embedding_bytes(SMALL) == 2 * 4 * positions * SMALL.hidden


def test_backward_pointwise_work_is_one_gates_in_the_reference_and_all_gates_corrected():
    one, every = lstm.cell_backward(SMALL), lstm.cell_backward(SMALL, corrected=True)
    accumulated = 2 * SMALL.hidden * SMALL.gates * SMALL.hidden
    assert (every.flops - accumulated) == SMALL.gates * (one.flops - accumulated)
    assert every.flops - accumulated == lstm.cell_forward(SMALL).flops
    assert every.bytes == 4 * one.bytes


def test_parameters_are_those_of_a_written_out_stack():
    embedding = np.zeros((SMALL.vocab, SMALL.hidden)).size
    cells = SMALL.layers * (np.zeros((2 * SMALL.hidden, 4 * SMALL.hidden)).size + 4 * SMALL.hidden)
    projection = np.zeros((SMALL.hidden, SMALL.projection)).size + SMALL.projection
    head = np.zeros((SMALL.projection, SMALL.vocab)).size + SMALL.vocab
    found = parameters(SMALL, softmax_width=SMALL.projection, projection_bias=True)
    assert found == embedding + cells + projection + head
    without = parameters(SMALL, softmax_width=SMALL.hidden, projected=False)
    assert without == embedding + cells + (SMALL.hidden + 1) * SMALL.vocab


def test_memory_holds_the_weights_of_those_parameters():
    held = requirement(SMALL)
    assert tuple(held) == PARTS
    weights = parameters(SMALL, softmax_width=SMALL.projection, projection_bias=True)
    assert total(held).weights_bytes == 4 * weights
    assert total(held).bytes == sum(part.bytes for part in held.values())
    bare = requirement(SMALL, projected=False, softmax_width=SMALL.hidden)
    assert bare["projection"].bytes == 0
    assert total(bare).weights_bytes == 4 * parameters(SMALL, softmax_width=SMALL.hidden, projected=False)


@pytest.mark.parametrize("name", ["gradclip", "applyGrad"])
def test_updates_are_linear_in_the_weights(name):
    of = {"gradclip": lstm.clipping, "applyGrad": lstm.update}[name]
    one, ten = of("Hidden", 10, 4), of("Hidden", 100, 4)
    assert (ten.flops, ten.bytes) == (10 * one.flops, 10 * one.bytes)
    assert one.launches == 0
