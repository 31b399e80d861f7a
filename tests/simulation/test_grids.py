"""SUMMA, Tesseract and 3D linears: blocks multiplied on a grid of ranks, results and words against the formulas."""

from itertools import product

import numpy as np
import pytest

from estimator.communication.grid import (
    bias_moves,
    latency_steps,
    linear_moves,
    norm_moves,
    received,
    share,
    summa_moves,
)
from estimator.communication.message import received_bytes
from tests.simulation.machine import Machine, groups_along, scattered

M, K, N = 36, 72, 108
DEPTH, COLUMN, ROW = 0, 1, 2
"""Coordinates of a rank (depth, place in its column, place in its row)."""


def operands(m=M, k=K, n=N):
    random = np.random.default_rng(2)
    return random.standard_normal((m, k)), random.standard_normal((k, n)), random.standard_normal((m, n))


def joined(blocks, rows, columns, place):
    """Put blocks back together; ``place`` maps a rank to its (row, column)."""
    grid = {place(r): b for r, b in blocks.items()}
    return np.block([[grid[i, j] for j in range(columns)] for i in range(rows)])


class Summa:
    """One linear on d × q × q ranks (or d × rows × columns of them)."""

    def __init__(self, rows, columns, depth):
        self.r, self.c, self.d = rows, columns, depth
        self.ranks = list(product(range(depth), range(rows), range(columns)))
        self.rows, self.columns = groups_along(self.ranks, ROW), groups_along(self.ranks, COLUMN)
        self.copies = groups_along(self.ranks, DEPTH)

    def tokens(self, r):
        return r[DEPTH] * self.r + r[COLUMN], r[ROW]

    def activations(self, matrix):
        return scattered(self.ranks, matrix, self.d * self.r, self.c, self.tokens)

    def weights(self, matrix):
        return scattered(self.ranks, matrix, self.r, self.c, lambda r: (r[COLUMN], r[ROW]))

    def whole(self, blocks):
        return joined(blocks, self.d * self.r, self.c, self.tokens)

    def forward(self, machine, x, w):
        xs = machine.all_gather("row", self.rows, x)
        ws = machine.all_gather("column", self.columns, w)
        return {r: machine.multiply(r, np.hstack(xs[r]), np.vstack(ws[r])) for r in self.ranks}

    def backward(self, machine, x, w, dy):
        ws = machine.all_gather("column", self.columns, w)
        partial = {r: np.split(machine.multiply(r, dy[r], np.vstack(ws[r]).T), self.c, axis=1) for r in self.ranks}
        dx = machine.reduce_scatter("row", self.rows, partial)
        xs = machine.all_gather("row", self.rows, x)
        partial = {r: np.split(machine.multiply(r, np.hstack(xs[r]).T, dy[r]), self.r) for r in self.ranks}
        dw = machine.reduce_scatter("column", self.columns, partial)
        return dx, machine.all_reduce("depth", self.copies, dw)


class Cube:
    """One linear on q × q × q ranks; ``swapped`` exchanges the roles of rows and columns."""

    def __init__(self, q, *, swapped):
        self.q = q
        self.ranks = list(product(range(q), repeat=3))
        # Input is gathered along one axis, which splits the output's features; the other splits the input's.
        self.inner, self.outer = (COLUMN, ROW) if swapped else (ROW, COLUMN)
        self.names = {ROW: "row", COLUMN: "column", DEPTH: "depth"}
        self.along = {index: groups_along(self.ranks, index) for index in (DEPTH, COLUMN, ROW)}

    def inputs(self, r):
        return r[DEPTH] * self.q + r[self.inner], r[self.outer]

    def outputs(self, r):
        return r[DEPTH] * self.q + r[self.outer], r[self.inner]

    def weight_place(self, r):
        return r[self.outer] * self.q + r[DEPTH], r[self.inner]

    def gather(self, machine, index, blocks):
        found = machine.all_gather(self.names[index], self.along[index], blocks)
        return {r: np.vstack(parts) for r, parts in found.items()}

    def scatter(self, machine, index, partial):
        parts = {r: np.split(whole, self.q) for r, whole in partial.items()}
        return machine.reduce_scatter(self.names[index], self.along[index], parts)

    def forward(self, machine, x, w):
        xs, ws = self.gather(machine, self.inner, x), self.gather(machine, DEPTH, w)
        partial = {r: machine.multiply(r, xs[r], ws[r]) for r in self.ranks}
        return self.scatter(machine, self.outer, partial), (xs, ws)

    def backward(self, machine, kept, dy):
        xs, ws = kept
        dys = self.gather(machine, self.outer, dy)
        dx = self.scatter(machine, self.inner, {r: machine.multiply(r, dys[r], ws[r].T) for r in self.ranks})
        dw = self.scatter(machine, DEPTH, {r: machine.multiply(r, xs[r].T, dys[r]) for r in self.ranks})
        return dx, dw


def check(machine, moves, own, ranks):
    for phase in ("forward", "backward"):
        for axis in ("row", "column", "depth"):
            group = f"grid_{axis}"
            counted = sum(received_bytes(m, m.ranks) for m in moves if (m.phase, m.group) == (phase, group))
            assert machine.received(phase, axis) == pytest.approx(counted, rel=1e-12)
        assert machine.received(phase) == pytest.approx(received(moves, phase), rel=1e-12)
        flops = own.flops_forward if phase == "forward" else own.flops_backward
        for r in ranks:
            assert machine.flops[phase, r] == pytest.approx(flops, rel=1e-12)
    assert machine.steps() == latency_steps(moves)


@pytest.mark.parametrize(("q", "d"), [(1, 1), (2, 1), (3, 1), (2, 2), (2, 3), (3, 2), (1, 2)])
def test_summa_and_tesseract(q, d):
    x, w, dy = operands()
    grid, machine = Summa(q, q, d), Machine()
    xs, ws = grid.activations(x), grid.weights(w)
    np.testing.assert_allclose(grid.whole(grid.forward(machine, xs, ws)), x @ w)
    machine.phase = "backward"
    dx, dw = grid.backward(machine, xs, ws, grid.activations(dy))
    np.testing.assert_allclose(grid.whole(dx), dy @ w.T)
    for layer in range(d):
        copy = {r: b for r, b in dw.items() if r[DEPTH] == layer}
        np.testing.assert_allclose(joined(copy, q, q, lambda r: r[1:]), x.T @ dy)
    kind = "2.5d" if d > 1 else "2d"
    own = share(kind, M, K, N, side=q, depth=d)
    check(machine, linear_moves(kind, M, K, N, side=q, depth=d), own, grid.ranks)
    assert own.weights == ws[0, 0, 0].size
    assert own.saved_input == xs[0, 0, 0].size
    assert own.work_buffer == xs[0, 0, 0].size + ws[0, 0, 0].size


@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (3, 2), (1, 3), (4, 2)])
def test_summa_on_a_rectangle(rows, columns):
    x, w, dy = operands(m=24, k=24, n=24)
    grid, machine = Summa(rows, columns, 1), Machine()
    xs, ws = grid.activations(x), grid.weights(w)
    # K is cut by columns in X and by rows in W: whole panels are gathered either way.
    np.testing.assert_allclose(grid.whole(grid.forward(machine, xs, ws)), x @ w)
    machine.phase = "backward"
    dx, dw = grid.backward(machine, xs, ws, grid.activations(dy))
    np.testing.assert_allclose(grid.whole(dx), dy @ w.T)
    np.testing.assert_allclose(joined(dw, rows, columns, lambda r: r[1:]), x.T @ dy)
    moves = summa_moves(24, 24, 24, columns=columns, rows=rows)
    for phase in ("forward", "backward"):
        assert machine.received(phase) == pytest.approx(received(moves, phase), rel=1e-12)


@pytest.mark.parametrize("q", [2, 3])
def test_panels_sent_by_store_and_forward_take_q_times_as_long(q):
    x, w, _ = operands()
    grid, machine = Summa(q, q, 1), Machine()
    xs, ws = grid.activations(x), grid.weights(w)
    y = {r: np.zeros((M // q, N // q)) for r in grid.ranks}
    for panel in range(q):
        row = {r: xs[r] for r in grid.ranks if r[ROW] == panel}
        column = {r: ws[r] for r in grid.ranks if r[COLUMN] == panel}
        for axis, groups, held in (("row", grid.rows, row), ("column", grid.columns, column)):
            for hop in range(q - 1):
                sent = [(g[(panel + hop) % q], g[(panel + hop + 1) % q]) for g in groups]
                held.update(machine.round(axis, [(a, b, held[a]) for a, b in sent]))
        for r in grid.ranks:
            y[r] += machine.multiply(r, row[r], column[r])
    np.testing.assert_allclose(grid.whole(y), x @ w)
    forward = received(linear_moves("2d", M, K, N, side=q), "forward")
    assert machine.received("forward") == pytest.approx(forward, rel=1e-12)
    assert machine.critical_words == pytest.approx(q * forward, rel=1e-12)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("q", [1, 2, 3])
def test_3d(q, swapped, keep):
    x, w, dy = operands()
    cube, machine = Cube(q, swapped=swapped), Machine()
    xs = scattered(cube.ranks, x, q * q, q, cube.inputs)
    ws = scattered(cube.ranks, w, q * q, q, cube.weight_place)
    y, kept = cube.forward(machine, xs, ws)
    np.testing.assert_allclose(joined(y, q * q, q, cube.outputs), x @ w)
    machine.phase = "backward"
    if not keep:
        kept = cube.gather(machine, cube.inner, xs), cube.gather(machine, DEPTH, ws)
    dx, dw = cube.backward(machine, kept, scattered(cube.ranks, dy, q * q, q, cube.outputs))
    np.testing.assert_allclose(joined(dx, q * q, q, cube.inputs), dy @ w.T)
    np.testing.assert_allclose(joined(dw, q * q, q, cube.weight_place), x.T @ dy)
    own = share("3d", M, K, N, side=q, keep=keep)
    check(machine, linear_moves("3d", M, K, N, side=q, keep=keep, swapped=swapped), own, cube.ranks)
    first = cube.ranks[0]
    assert own.weights == ws[first].size
    assert own.saved_input == (kept[0][first].size + kept[1][first].size if keep else xs[first].size)
    assert own.work_buffer == kept[0][first].size + kept[1][first].size + M * N // q**2


def test_two_3d_linears_bring_the_layout_back():
    q = 2
    random = np.random.default_rng(3)
    x, w1, w2 = (random.standard_normal(shape) for shape in ((M, K), (K, N), (N, K)))
    machine, first, second = Machine(), Cube(q, swapped=False), Cube(q, swapped=True)
    hidden, _ = first.forward(
        machine,
        scattered(first.ranks, x, q * q, q, first.inputs),
        scattered(first.ranks, w1, q * q, q, first.weight_place),
    )
    y, _ = second.forward(machine, hidden, scattered(second.ranks, w2, q * q, q, second.weight_place))
    np.testing.assert_allclose(joined(y, q * q, q, first.inputs), x @ w1 @ w2)


@pytest.mark.parametrize(("q", "d"), [(2, 1), (3, 1), (2, 3)])
def test_a_norm_sums_its_statistics_over_the_row(q, d):
    x, _, dy = operands(n=K)
    grid, machine = Summa(q, q, d), Machine()
    xs, dys = grid.activations(x), grid.activations(dy)

    def over_row(*columns):
        return machine.all_reduce("row", grid.rows, {r: np.stack([c[r] for c in columns]) for r in grid.ranks})

    sums = over_row({r: b.sum(1) for r, b in xs.items()}, {r: (b**2).sum(1) for r, b in xs.items()})
    scale = {r: 1 / np.sqrt(s[1] / K - (s[0] / K) ** 2) for r, s in sums.items()}
    normed = {r: (xs[r] - sums[r][0][:, None] / K) * scale[r][:, None] for r in grid.ranks}
    deviation = x.std(1, keepdims=True)
    expected = (x - x.mean(1, keepdims=True)) / deviation
    np.testing.assert_allclose(grid.whole(normed), expected)

    machine.phase = "backward"
    means = over_row(
        {r: b.sum(1) / K for r, b in dys.items()}, {r: (dys[r] * normed[r]).sum(1) / K for r in grid.ranks}
    )
    dx = {r: (dys[r] - m[0][:, None] - normed[r] * m[1][:, None]) * scale[r][:, None] for r, m in means.items()}
    correct = (dy - dy.mean(1, keepdims=True) - expected * (dy * expected).mean(1, keepdims=True)) / deviation
    np.testing.assert_allclose(grid.whole(dx), correct)
    moves = norm_moves("2.5d" if d > 1 else "2d", M, side=q, depth=d)
    for phase in ("forward", "backward"):
        assert machine.received(phase) == pytest.approx(received(moves, phase), rel=1e-12)


@pytest.mark.parametrize(("q", "d"), [(2, 1), (3, 1), (2, 3)])
def test_a_bias_is_gathered_down_columns_and_its_gradient_summed(q, d):
    _, _, dy = operands()
    bias = np.arange(float(N))
    grid, machine = Summa(q, q, d), Machine()
    own = {r: np.split(np.split(bias, q)[r[ROW]], q)[r[COLUMN]] for r in grid.ranks}
    whole = {r: np.concatenate(parts) for r, parts in machine.all_gather("column", grid.columns, own).items()}
    added = {r: b + whole[r] for r, b in grid.activations(dy).items()}
    np.testing.assert_allclose(grid.whole(added), dy + bias)

    machine.phase = "backward"
    partial = {r: np.split(b.sum(0), q) for r, b in grid.activations(dy).items()}
    summed = machine.all_reduce("depth", grid.copies, machine.reduce_scatter("column", grid.columns, partial))
    for r, gradient in summed.items():
        np.testing.assert_allclose(gradient, np.split(np.split(dy.sum(0), q)[r[ROW]], q)[r[COLUMN]])
    moves = bias_moves("2.5d" if d > 1 else "2d", N, side=q, depth=d)
    for phase in ("forward", "backward"):
        assert machine.received(phase) == pytest.approx(received(moves, phase), rel=1e-12)
