"""Megatron's column and row linears, with the sequence split: multiplied for real, words counted."""

import numpy as np
import pytest

from estimator.communication.grid import latency_steps, linear_moves, received, share
from tests.simulation.machine import Machine

M, K, N = 12, 24, 36


def operands():
    random = np.random.default_rng(1)
    return random.standard_normal((M, K)), random.standard_normal((K, N)), random.standard_normal((M, N))


def check(machine, kind, p, *, keep=True):
    moves = linear_moves(kind, M, K, N, side=p, keep=keep)
    for phase in ("forward", "backward"):
        assert machine.received(phase) == pytest.approx(received(moves, phase), rel=1e-12)
        own = share(kind, M, K, N, side=p)
        expected = own.flops_forward if phase == "forward" else own.flops_backward
        for r in range(p):
            assert machine.flops[phase, r] == pytest.approx(expected, rel=1e-12)
    assert machine.steps() == latency_steps(moves)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_a_column_linear_gathers_its_input_and_scatters_its_gradient(p, keep):
    x, w, dy = operands()
    machine, ranks = Machine(), list(range(p))
    xs, ws, dys = np.split(x, p), np.split(w, p, axis=1), np.split(dy, p, axis=1)
    whole = {r: np.concatenate(found) for r, found in machine.all_gather("row", [ranks], dict(enumerate(xs))).items()}
    y = [machine.multiply(r, whole[r], ws[r]) for r in ranks]
    np.testing.assert_allclose(np.concatenate(y, axis=1), x @ w)

    machine.phase = "backward"
    if not keep:
        again = machine.all_gather("row", [ranks], dict(enumerate(xs)))
        whole = {r: np.concatenate(found) for r, found in again.items()}
    partial = {r: np.split(machine.multiply(r, dys[r], ws[r].T), p) for r in ranks}
    dx = machine.reduce_scatter("row", [ranks], partial)
    dw = [machine.multiply(r, whole[r].T, dys[r]) for r in ranks]
    np.testing.assert_allclose(np.concatenate([dx[r] for r in ranks]), dy @ w.T)
    np.testing.assert_allclose(np.concatenate(dw, axis=1), x.T @ dy)
    check(machine, "1d-column", p, keep=keep)
    own = share("1d-column", M, K, N, side=p, keep=keep)
    assert own.weights == ws[0].size
    assert own.saved_input == (whole[0] if keep else xs[0]).size
    assert own.work_buffer == whole[0].size


@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_a_row_linear_scatters_its_output_and_gathers_its_gradient(p):
    x, w, dy = operands()
    machine, ranks = Machine(), list(range(p))
    xs, ws, dys = np.split(x, p, axis=1), np.split(w, p), np.split(dy, p)
    partial = {r: np.split(machine.multiply(r, xs[r], ws[r]), p) for r in ranks}
    y = machine.reduce_scatter("row", [ranks], partial)
    np.testing.assert_allclose(np.concatenate([y[r] for r in ranks]), x @ w)

    machine.phase = "backward"
    whole = {r: np.concatenate(f) for r, f in machine.all_gather("row", [ranks], dict(enumerate(dys))).items()}
    dx = [machine.multiply(r, whole[r], ws[r].T) for r in ranks]
    dw = [machine.multiply(r, xs[r].T, whole[r]) for r in ranks]
    np.testing.assert_allclose(np.concatenate(dx, axis=1), dy @ w.T)
    np.testing.assert_allclose(np.concatenate(dw), x.T @ dy)
    check(machine, "1d-row", p)
    own = share("1d-row", M, K, N, side=p)
    assert (own.weights, own.saved_input, own.work_buffer) == (ws[0].size, xs[0].size, M * N)


@pytest.mark.parametrize("p", [2, 3, 4])
def test_an_all_reduce_moves_what_a_reduce_scatter_and_an_all_gather_move(p):
    machine, ranks = Machine(), list(range(p))
    own = {r: np.full(M * K, float(r + 1)) for r in ranks}
    summed = machine.all_reduce("row", [ranks], own)
    np.testing.assert_allclose(summed[0], np.full(M * K, p * (p + 1) / 2))
    assert machine.received("forward") == 2 * (p - 1) * M * K // p
