"""Grids: what 1D, 2D, 2.5D and 3D linears and a whole block move: published volumes and identities, and laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.communication.grid import (
    bias_moves,
    grid_block_messages,
    key_value_moves,
    latency_steps,
    linear_moves,
    norm_moves,
    ranks_of,
    received,
    share,
    summa_moves,
)
from estimator.cost.collectives import TRAFFIC

LINEAR_KINDS = ("1d-column", "1d-row", "2d", "2.5d", "3d")

E = 12_288
LINEARS = [("1d-column", E, 3 * E), ("1d-row", E, E), ("1d-column", E, 4 * E), ("1d-row", 4 * E, E)]
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
            for name, k, n in LINEARS
        )
        digits = 2 if expected >= 2 or batch == 64 else 3
        assert 2e-9 * elements == pytest.approx(expected, abs=0.5 * 10**-digits * 1.0001)


@pytest.mark.parametrize("q", [1, 2, 4, 8])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_costs_that_colossal_ai_documents_for_unit_matrices(q, d):
    """“1D/2D/2.5D/3D tensor parallelism” in its documentation; broadcasts take q times what a gather does."""

    def unit(kind, **rest):
        moves = linear_moves(kind, 1, 1, 1, **rest)
        return received([move for move in moves if move.group != "grid_depth"] if kind == "2.5d" else moves)

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
def test_linears_of_arrays_give_what_scalars_give(kind):
    m, k, n, side, depth = (np.array(values, float) for values in ([64, 96], [32, 8], [16, 48], [2, 4], [3, 1]))
    together = received(linear_moves(kind, m, k, n, side=side, depth=depth))
    own = share(kind, m, k, n, side=side, depth=depth)
    for i in range(2):
        one = {"side": side[i], "depth": depth[i]}
        assert together[i] == received(linear_moves(kind, m[i], k[i], n[i], **one))
        assert own.work_buffer[i] == share(kind, m[i], k[i], n[i], **one).work_buffer


BLOCK_WIDTHS = {
    "hidden": E,
    "qkv_width": 3 * E,
    "query_width": E,
    "ffn_in_width": 4 * E,
    "ffn": 4 * E,
    "element_bytes": 2,
}


def sent(kind, q, depth=1, **rest):
    return grid_block_messages(
        **{"tp_kind": kind, "q": q, "depth": depth, "rows": 64 * 2048, "micro_batch": 64} | BLOCK_WIDTHS | rest
    )


def gigabytes(found, phase):
    return 1e-9 * sum(
        x.payload_bytes * x.count * TRAFFIC[x.kind] * (x.ranks - 1) / x.ranks for x in found if x.phase == phase
    )


@pytest.mark.parametrize(
    ("kind", "q", "depth", "forward", "backward"),
    [("2d", 4, 1, 4.91, 9.81), ("2d", 8, 1, 2.86, 5.73), ("2.5d", 4, 4, 1.74, 3.81), ("3d", 4, 1, 2.59, 2.59)],
)
def test_a_block_moves_what_its_linears_move(kind, q, depth, forward, backward):
    found = sent(kind, q, depth, statistics=0)
    assert gigabytes(found, "forward") == pytest.approx(forward, abs=0.006)
    assert gigabytes(found, "backward") == pytest.approx(backward, abs=0.006)
    # Norms and biases hardly add to it.
    with_all = sent(kind, q, depth, bias=True)
    for phase in ("forward", "backward"):
        assert 1.0 < gigabytes(with_all, phase) / gigabytes(found, phase) < 1.002


@pytest.mark.parametrize(("kind", "depth"), [("2d", 1), ("2.5d", 2), ("3d", 1)])
def test_groups_are_where_the_grid_has_them(kind, depth):
    q = 4
    found = sent(kind, q, depth, bias=True)
    assert {x.group for x in found} == {"grid_row", "grid_column"} | ({"grid_depth"} if kind != "2d" else set())
    for x in found:
        assert x.axis == "tp"
        assert x.ranks == x.host == (depth if kind == "2.5d" and x.group == "grid_depth" else q)


@pytest.mark.parametrize("kind", ["2d", "2.5d", "3d"])
def test_one_rank_exchanges_nothing(kind):
    assert sent(kind, 1, bias=True, micro_batch=1) == []
    assert received(bias_moves(kind, E, side=1) + norm_moves(kind, E, side=1)) == 0


def test_norm_and_bias_are_small():
    q, m = 4, 2048
    for phase in ("forward", "backward"):
        assert received(norm_moves("2d", m, side=q), phase) == 2 * 2 * m / q * (q - 1) / q
        assert received(norm_moves("2d", m, side=q, statistics=1), phase) == 2 * m / q * (q - 1) / q
        assert received(bias_moves("2d", E, side=q), phase) == E / q * (q - 1) / q
    assert {move.group for move in norm_moves("3d", m, side=q)} == {"grid_column"}
    assert {move.group for move in norm_moves("3d", m, side=q, swapped=True)} == {"grid_row"}


def test_parts_can_be_left_out():
    whole = gigabytes(sent("2d", 4), "forward")
    parts = [sent("2d", 4, attention=False), sent("2d", 4, feed_forward=False)]
    assert sum(gigabytes(found, "forward") for found in parts) == pytest.approx(whole)
    assert sent("2d", 4, attention=False, feed_forward=False) == []


def test_one_sequence_over_the_rows_gathers_keys_and_values():
    q, tokens = 4, 2048
    moves = key_value_moves("2d", tokens, 2 * E, side=q, depth=1, micro_batch=1)
    for phase in ("forward", "backward"):
        assert received(moves, phase) == pytest.approx(2 * (q - 1) / q**2 * tokens * E)
    dropped = key_value_moves("2d", tokens, 2 * E, side=q, depth=1, micro_batch=1, keep=False)
    assert received(dropped, "backward") == pytest.approx(4 * (q - 1) / q**2 * tokens * E)
    assert received(key_value_moves("2d", tokens, 2 * E, side=q, depth=1, micro_batch=q)) == 0
    names = {x.name for x in sent("2d", q, rows=tokens, micro_batch=1)}
    assert "attention key, value gather" in names
    assert not any("key, value" in x.name for x in sent("2d", q))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("kind", ["2d", "3d"])
def test_full_recomputation_repeats_forward_up_to_the_last_linears_input(kind, keep):
    once, twice = (sent(kind, 4, statistics=0, keep=keep, recompute=again) for again in (False, True))
    extra = gigabytes(twice, "backward") - gigabytes(once, "backward")
    last = [x for x in once if x.phase == "forward" and x.name.startswith("ffn out")]
    if kind == "3d" and keep:
        last = [x for x in last if x.kind == "reduce-scatter"]
    assert extra == pytest.approx(gigabytes(once, "forward") - gigabytes(last, "forward"))
    assert gigabytes(twice, "forward") == gigabytes(once, "forward")


@pytest.mark.parametrize("kind", ["2d", "2.5d", "3d"])
def test_a_block_of_arrays_gives_what_scalars_give(kind):
    q, depth, batch = np.array([2.0, 4.0, 1.0]), np.array([2.0, 1.0, 1.0]), np.array([1.0, 8.0, 2.0])
    depth = depth if kind == "2.5d" else np.ones(3)
    together = sent(kind, q, depth, rows=batch * 2048, micro_batch=batch)
    for phase in ("forward", "backward"):
        total = gigabytes(together, phase)
        for i in range(3):
            one = sent(kind, q[i], depth[i], rows=batch[i] * 2048, micro_batch=batch[i])
            assert total[i] == pytest.approx(gigabytes(one, phase), rel=1e-12)
    for x in together:
        np.testing.assert_array_equal(x.count, np.broadcast_to(x.ranks, 3) > 1)
