"""What one block exchanges on a grid."""

import numpy as np
import pytest

from estimator.communication.grid import bias_moves, block_grid_exchanges, key_value_moves, norm_moves, received
from estimator.cost.collectives import TRAFFIC

E = 12_288
BLOCK = {
    "hidden": E,
    "qkv_width": 3 * E,
    "query_width": E,
    "ffn_in_width": 4 * E,
    "ffn": 4 * E,
    "element_bytes": 2,
}


def exchanges(kind, q, depth=1, **rest):
    return block_grid_exchanges(
        **{"tp_kind": kind, "q": q, "depth": depth, "rows": 64 * 2048, "micro_batch": 64} | BLOCK | rest
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
    found = exchanges(kind, q, depth, statistics=0)
    assert gigabytes(found, "forward") == pytest.approx(forward, abs=0.006)
    assert gigabytes(found, "backward") == pytest.approx(backward, abs=0.006)
    # Norms and biases hardly add to it.
    with_all = exchanges(kind, q, depth, bias=True)
    for phase in ("forward", "backward"):
        assert 1.0 < gigabytes(with_all, phase) / gigabytes(found, phase) < 1.002


@pytest.mark.parametrize(("kind", "depth"), [("2d", 1), ("2.5d", 2), ("3d", 1)])
def test_groups_are_where_the_grid_has_them(kind, depth):
    q = 4
    for x in exchanges(kind, q, depth, bias=True):
        assert x.inner == {"row": 1, "column": q, "depth": q * q}[x.axis]
        assert x.ranks == (depth if kind == "2.5d" and x.axis == "depth" else q)


@pytest.mark.parametrize("kind", ["2d", "2.5d", "3d"])
def test_one_rank_exchanges_nothing(kind):
    assert exchanges(kind, 1, bias=True, micro_batch=1) == []
    assert received(bias_moves(kind, E, side=1) + norm_moves(kind, E, side=1)) == 0


def test_norm_and_bias_are_small():
    q, m = 4, 2048
    for phase in ("forward", "backward"):
        assert received(norm_moves("2d", m, side=q), phase) == 2 * 2 * m / q * (q - 1) / q
        assert received(norm_moves("2d", m, side=q, statistics=1), phase) == 2 * m / q * (q - 1) / q
        assert received(bias_moves("2d", E, side=q), phase) == E / q * (q - 1) / q
    assert {move.axis for move in norm_moves("3d", m, side=q)} == {"column"}
    assert {move.axis for move in norm_moves("3d", m, side=q, swapped=True)} == {"row"}


def test_parts_can_be_left_out():
    whole = gigabytes(exchanges("2d", 4), "forward")
    parts = [exchanges("2d", 4, attention=False), exchanges("2d", 4, feed_forward=False)]
    assert sum(gigabytes(found, "forward") for found in parts) == pytest.approx(whole)
    assert exchanges("2d", 4, attention=False, feed_forward=False) == []


def test_one_sequence_over_the_rows_gathers_keys_and_values():
    q, tokens = 4, 2048
    moves = key_value_moves("2d", tokens, 2 * E, side=q, depth=1, micro_batch=1)
    for phase in ("forward", "backward"):
        assert received(moves, phase) == pytest.approx(2 * (q - 1) / q**2 * tokens * E)
    dropped = key_value_moves("2d", tokens, 2 * E, side=q, depth=1, micro_batch=1, keep=False)
    assert received(dropped, "backward") == pytest.approx(4 * (q - 1) / q**2 * tokens * E)
    assert received(key_value_moves("2d", tokens, 2 * E, side=q, depth=1, micro_batch=q)) == 0
    names = {x.name for x in exchanges("2d", q, rows=tokens, micro_batch=1)}
    assert "attention key, value gather" in names
    assert not any("key, value" in x.name for x in exchanges("2d", q))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("kind", ["2d", "3d"])
def test_full_recomputation_repeats_forward_up_to_the_last_linears_input(kind, keep):
    once, twice = (exchanges(kind, 4, statistics=0, keep=keep, recompute=again) for again in (False, True))
    extra = gigabytes(twice, "backward") - gigabytes(once, "backward")
    last = [x for x in once if x.phase == "forward" and x.name.startswith("ffn out")]
    if kind == "3d" and keep:
        last = [x for x in last if x.kind == "reduce-scatter"]
    assert extra == pytest.approx(gigabytes(once, "forward") - gigabytes(last, "forward"))
    assert gigabytes(twice, "forward") == gigabytes(once, "forward")


@pytest.mark.parametrize("kind", ["2d", "2.5d", "3d"])
def test_arrays_give_what_scalars_give(kind):
    q, depth, batch = np.array([2.0, 4.0, 1.0]), np.array([2.0, 1.0, 1.0]), np.array([1.0, 8.0, 2.0])
    depth = depth if kind == "2.5d" else np.ones(3)
    together = exchanges(kind, q, depth, rows=batch * 2048, micro_batch=batch)
    for phase in ("forward", "backward"):
        total = gigabytes(together, phase)
        for i in range(3):
            one = exchanges(kind, q[i], depth[i], rows=batch[i] * 2048, micro_batch=batch[i])
            assert total[i] == pytest.approx(gigabytes(one, phase), rel=1e-12)
    for x in together:
        np.testing.assert_array_equal(x.count, np.broadcast_to(x.ranks, 3) > 1)
