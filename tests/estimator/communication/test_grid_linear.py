"""Linears on grids: the volumes of the first reference tables, published identities, and laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.communication.grid import (
    latency_steps,
    linear_moves,
    ranks_of,
    received,
    share,
    summa_moves,
)

LINEAR_KINDS = ("1d-column", "1d-row", "2d", "2.5d", "3d")

E = 12_288
BLOCK = [("1d-column", E, 3 * E), ("1d-row", E, E), ("1d-column", E, 4 * E), ("1d-row", 4 * E, E)]
"""Linears of a block of hidden size e: q, k, v; output; feed-forward in and out."""

PER_LAYER_GB = [
    # sequences of 2048, ranks, kind, side, depth, forward, backward
    (1, 4, "1d", 4, 1, 0.151, 0.151),
    (1, 4, "2d", 2, 1, 0.994, 1.988),
    (1, 64, "1d", 64, 1, 0.198, 0.198),
    (1, 64, "2d", 8, 1, 0.435, 0.870),
    (1, 64, "2.5d", 4, 4, 0.696, 1.732),
    (1, 64, "3d", 4, 1, 0.208, 0.208),
    (64, 16, "1d", 16, 1, 12.08, 12.08),
    (64, 16, "2d", 4, 1, 4.91, 9.81),
    (64, 16, "2.5d", 2, 4, 2.32, 5.99),
    (64, 64, "1d", 64, 1, 12.68, 12.68),
    (64, 64, "2d", 8, 1, 2.86, 5.73),
    (64, 64, "2.5d", 4, 4, 1.74, 3.81),
    (64, 64, "3d", 4, 1, 2.59, 2.59),
]

sizes = st.integers(1, 1 << 20)
sides = st.integers(1, 64)


@pytest.mark.parametrize(("batch", "ranks", "kind", "side", "depth", "forward", "backward"), PER_LAYER_GB)
def test_gigabytes_per_layer(batch, ranks, kind, side, depth, forward, backward):
    assert ranks_of(kind, side, depth) == ranks
    for phase, expected in (("forward", forward), ("backward", backward)):
        elements = sum(
            received(linear_moves(name if kind == "1d" else kind, batch * 2048, k, n, side=side, depth=depth), phase)
            for name, k, n in BLOCK
        )
        digits = 2 if expected >= 2 or batch == 64 else 3
        assert 2e-9 * elements == pytest.approx(expected, abs=0.5 * 10**-digits * 1.0001)


@pytest.mark.parametrize("q", [1, 2, 4, 8])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_costs_that_colossal_ai_documents_for_unit_matrices(q, d):
    """“1D/2D/2.5D/3D tensor parallelism” in its documentation; broadcasts take q times what a gather does."""

    def unit(kind, **rest):
        moves = linear_moves(kind, 1, 1, 1, **rest)
        return received([move for move in moves if move.axis != "depth"] if kind == "2.5d" else moves)

    p = q * q
    assert unit("1d-column", side=p) == pytest.approx(2 * (p - 1) / p)
    assert unit("1d-row", side=p) == pytest.approx(2 * (p - 1) / p)
    assert q * unit("2d", side=q) == pytest.approx(6 * (q - 1) / q)
    assert q * unit("2.5d", side=q, depth=d) == pytest.approx(3 * (q - 1) * (d + 1) / (d * q))
    assert unit("3d", side=q) == pytest.approx(6 * (q - 1) / q**3)


@given(sides, st.integers(1, 8))
def test_latency_steps(q, d):
    for kind in ("1d-column", "1d-row"):
        assert latency_steps(linear_moves(kind, 8, 8, 8, side=q)) == 2 * (q - 1)
    assert latency_steps(linear_moves("2d", 8, 8, 8, side=q)) == 6 * (q - 1)
    assert latency_steps(linear_moves("2.5d", 8, 8, 8, side=q, depth=d)) == 6 * (q - 1) + 2 * (d - 1)
    assert latency_steps(linear_moves("3d", 8, 8, 8, side=q)) == 6 * (q - 1)


@given(st.sampled_from(LINEAR_KINDS), sizes, sizes, sizes, st.booleans())
def test_one_rank_moves_nothing(kind, m, k, n, keep):
    assert received(linear_moves(kind, m, k, n, side=1, keep=keep)) == 0
    assert latency_steps(linear_moves(kind, m, k, n, side=1, keep=keep)) == 0


@given(st.sampled_from(LINEAR_KINDS), sizes, sizes, sizes, sides, st.integers(1, 8))
def test_flops_of_all_ranks_are_those_of_the_product(kind, m, k, n, side, depth):
    own, ranks = share(kind, m, k, n, side=side, depth=depth), ranks_of(kind, side, depth)
    assert own.flops_forward * ranks == pytest.approx(2 * m * k * n)
    assert own.flops_backward * ranks == pytest.approx(4 * m * k * n)
    copies = depth if kind == "2.5d" else 1
    assert own.weights * ranks == pytest.approx(copies * k * n)
    dropped = share(kind, m, k, n, side=side, depth=depth, keep=False)
    assert dropped.saved_input * ranks == pytest.approx(m * k)
    assert dropped.saved_input <= own.saved_input * (1 + 1e-12)


@given(sizes, sizes, sizes, sides)
def test_dropping_what_was_gathered_costs_another_gather(m, k, n, q):
    def extra(kind):
        kept, dropped = (received(linear_moves(kind, m, k, n, side=q, keep=keep)) for keep in (True, False))
        return dropped - kept

    assert extra("1d-column") == pytest.approx(m * k * (q - 1) / q, rel=1e-6)
    assert extra("3d") == pytest.approx((q - 1) / q**3 * (m * k + k * n), rel=1e-6)


@given(sizes, sizes, sizes, sides)
def test_tesseract_of_depth_one_is_summa_and_summa_takes_rectangles(m, k, n, q):
    assert received(linear_moves("2.5d", m, k, n, side=q, depth=1)) == received(linear_moves("2d", m, k, n, side=q))
    forward = received(summa_moves(m, k, n, columns=q, rows=2), "forward")
    assert forward == pytest.approx(m * k / 2 * (q - 1) / q + k * n / q / 2)


@pytest.mark.parametrize("kind", LINEAR_KINDS)
def test_arrays_give_what_scalars_give(kind):
    m, k, n, side, depth = (np.array(values, float) for values in ([64, 96], [32, 8], [16, 48], [2, 4], [3, 1]))
    together = received(linear_moves(kind, m, k, n, side=side, depth=depth))
    own = share(kind, m, k, n, side=side, depth=depth)
    for i in range(2):
        one = {"side": side[i], "depth": depth[i]}
        assert together[i] == received(linear_moves(kind, m[i], k[i], n[i], **one))
        assert own.work_buffer[i] == share(kind, m[i], k[i], n[i], **one).work_buffer
