"""Kernel parallelism on simulated processors: the right results, and the volumes and FLOPs of the formulas."""

from __future__ import annotations

import numpy as np
import pytest

from estimator.studies.deepflow.kernel_split import KernelSplit, backward_activations, backward_weights, forward
from estimator.studies.deepflow.lstm import Product
from tests.simulation.machine import Machine, block, groups_along

RANDOM = np.random.default_rng(0)
SHAPES = [(8, 24, 48), (24, 48, 24)]


def operands(a, b, c):
    return RANDOM.normal(size=(a, b)), RANDOM.normal(size=(b, c)), RANDOM.normal(size=(a, c))


def words_of(cut):
    return sum(move.sent_words for move in cut.collectives)


def flops_of(cut):
    return sum(2 * p.a * p.b * p.c for p in cut.products)


def columns_of(matrix, place, pieces):
    return block(matrix, 0, 1, place, pieces)


def rows_of(matrix, place, pieces):
    return block(matrix, place, pieces, 0, 1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("d", [1, 2, 4, 8])
def test_column_row(shape, d):
    a_matrix, b_matrix, gradient = operands(*shape)
    group = [(i,) for i in range(d)]
    machine = Machine()
    partial = {r: machine.multiply(r, columns_of(a_matrix, r[0], d), rows_of(b_matrix, r[0], d)) for r in group}
    parts = {r: [columns_of(partial[r], place, d) for place in range(d)] for r in group}
    result = machine.reduce_scatter("sums", [group], parts)
    for r in group:
        np.testing.assert_allclose(result[r], columns_of(a_matrix @ b_matrix, r[0], d))
    split, product = KernelSplit(kind="column-row", first=d), Product(name="C", a=shape[0], b=shape[1], c=shape[2])
    check(machine, "forward", [forward(product, split)], group)

    machine = Machine()
    machine.phase = "backward"
    gathered = machine.all_gather("gradient", [group], {r: columns_of(gradient, r[0], d) for r in group})
    for r in group:
        whole = np.concatenate(gathered[r], axis=1)
        weights = machine.multiply(r, columns_of(a_matrix, r[0], d).T, whole)
        activations = machine.multiply(r, whole, rows_of(b_matrix, r[0], d).T)
        np.testing.assert_allclose(weights, rows_of(a_matrix.T @ gradient, r[0], d))
        np.testing.assert_allclose(activations, columns_of(gradient @ b_matrix.T, r[0], d))
    cuts = [backward_weights(product, split, "w"), backward_activations(product, split, "a")]
    check(machine, "backward", cuts, group)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("d1", "d2"), [(1, 1), (2, 1), (1, 4), (2, 2), (4, 2), (2, 6)])
def test_row_column(shape, d1, d2):
    a_matrix, b_matrix, gradient = operands(*shape)
    grid = [(i, j) for i in range(d1) for j in range(d2)]
    across, down = groups_along(grid, 1), groups_along(grid, 0)
    split = KernelSplit(kind="row-column", first=d1, second=d2)
    product = Product(name="C", a=shape[0], b=shape[1], c=shape[2])
    machine = Machine()
    own_a = {r: rows_of(a_matrix, r[0], d1) for r in grid}
    own_b = {r: columns_of(b_matrix, r[1], d2) for r in grid}
    own_c = {r: machine.multiply(r, own_a[r], own_b[r]) for r in grid}
    row = machine.all_gather("columns", across, own_c)
    for r in grid:
        np.testing.assert_allclose(np.concatenate(row[r], axis=1), rows_of(a_matrix @ b_matrix, r[0], d1))
    check(machine, "forward", [forward(product, split)], grid)
    assert words_of(forward(product, split, gather=False)) == 0

    # dB: every processor takes the rows of dB at its place in the column, over the whole batch.
    own_gradient = {r: block(gradient, r[0], d1, r[1], d2) for r in grid}
    machine = Machine()
    machine.phase = "backward"
    own_rows = {}
    for group in down:
        exchanged = machine.all_to_all(
            "activations", group, {r: [columns_of(own_a[r], place, d1) for place in range(d1)] for r in group}
        )
        gathered = machine.all_gather("gradient", [group], {r: own_gradient[r] for r in group})
        for r in group:
            own_rows[r] = machine.multiply(r, np.concatenate(exchanged[r]).T, np.concatenate(gathered[r]))
    whole = machine.all_gather("weights", down, own_rows)
    for r in grid:
        np.testing.assert_allclose(np.concatenate(whole[r]), columns_of(a_matrix.T @ gradient, r[1], d2))
    check(machine, "backward", [backward_weights(product, split, "w")], grid)

    # dA: every processor takes the columns of dA at its place in the row, over all columns of C.
    machine = Machine()
    machine.phase = "backward"
    own_columns = {}
    for group in across:
        gathered = machine.all_gather("gradient", [group], {r: own_gradient[r] for r in group})
        exchanged = machine.all_to_all(
            "weights", group, {r: [rows_of(own_b[r], place, d2) for place in range(d2)] for r in group}
        )
        for r in group:
            own_columns[r] = machine.multiply(
                r, np.concatenate(gathered[r], axis=1), np.concatenate(exchanged[r], axis=1).T
            )
    whole = machine.all_gather("result", across, own_columns)
    for r in grid:
        np.testing.assert_allclose(np.concatenate(whole[r], axis=1), rows_of(gradient @ b_matrix.T, r[0], d1))
    check(machine, "backward", [backward_activations(product, split, "a")], grid)


def check(machine, phase, cuts, group):
    """Words that each processor sends, by collective, and its FLOPs, are those of the formulas."""
    if len(group) > 1 and any(cut.collectives for cut in cuts):
        assert machine.received(phase) == sum(words_of(cut) for cut in cuts)
        for cut in cuts:
            for move in cut.collectives:
                axis = move.name.split()[-1]
                alone = [other for other in (m for c in cuts for m in c.collectives) if other.name.split()[-1] == axis]
                assert machine.received(phase, axis) == sum(other.sent_words for other in alone), move.name
    assert {machine.flops[phase, r] for r in group} == {sum(flops_of(cut) for cut in cuts)}
