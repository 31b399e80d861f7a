"""Fused attention: tiles of scores, what rows cost beside them, widths of heads, units that wait for the last block."""

import pytest

from estimator.cost.attention import attention_s

HALF_WIDTH = 60.0
HEADS, LENGTH, WIDTH = 1320, 4096, 128


def seconds(**changes) -> float:
    given = {
        "batch": HEADS, "queries": LENGTH, "keys": LENGTH, "head_dim": float(WIDTH), "visible_frac": 1.0,
        "padded_rows": True, "tile": 128.0, "bytes": 0.0, "flops_per_s": 1e15, "memory_bytes_per_s": 1e12,
        "units_hz": 1e11, "compute_units": 132, "half_length": 0.0, "half_width": HALF_WIDTH, "row_cycles": 0.0,
        "tail_blocks": 0.0,
    }  # fmt: skip
    given |= changes
    scores = given["batch"] * given["queries"] * given["keys"]
    return attention_s(**{"flops": 4.0 * scores * given["head_dim"], **given})


def flops(queries: float, keys: float) -> float:
    return 4.0 * HEADS * queries * keys * WIDTH


def test_whole_squares_reach_the_rate_of_the_heads_width():
    assert seconds() == pytest.approx(flops(LENGTH, LENGTH) / 1e15 * (WIDTH + HALF_WIDTH) / WIDTH)


def test_a_causal_row_meets_half_a_tile_more_than_it_may_see():
    assert seconds(visible_frac=0.5) == pytest.approx(seconds() * (LENGTH / 2 + 127 / 2) / LENGTH)
    one_tile = {"queries": 100, "keys": 100}
    assert seconds(visible_frac=0.5, **one_tile) == pytest.approx(seconds(**one_tile), rel=0.005)


def test_forward_takes_whole_tiles_of_queries_and_backward_only_of_keys():
    def short(**changes) -> float:
        return seconds(queries=200, keys=200, **changes)

    assert short() == pytest.approx(seconds(queries=256, keys=256))
    assert short(padded_rows=False) == pytest.approx(short() * 200 / 256)
    assert short(tile=1.0) == pytest.approx(short() * (200 / 256) ** 2)


@pytest.mark.parametrize(("width", "as_wide"), [(32, 64), (80, 128), (96, 128), (160, 192)])
def test_kernels_are_built_for_multiples_of_64(width, as_wide):
    assert seconds(head_dim=float(width)) == pytest.approx(seconds(head_dim=float(as_wide)))
    assert seconds(head_dim=float(width), tile=1.0) < seconds(head_dim=float(as_wide), tile=1.0)


def test_rows_cost_clocks_beside_their_scores():
    assert seconds(row_cycles=50.0) - seconds() == pytest.approx(HEADS * LENGTH * 50 / 1e11)


def test_units_wait_for_the_last_block_of_a_row_of_tiles():
    # Of 32 blocks a head, one runs on one of 132 units.
    blocks = HEADS * LENGTH / 128
    assert seconds(tail_blocks=0.5) - seconds() == pytest.approx(0.5 * 132 * seconds() / blocks)
    assert seconds(tail_blocks=0.5, batch=0, flops=0.0) == 0.0, "nothing runs, and nothing waits"


def test_half_the_rate_at_the_half_length():
    assert seconds(half_length=float(LENGTH)) == pytest.approx(2 * seconds())


def test_half_the_rate_at_the_half_width():
    assert seconds(half_width=float(WIDTH)) == pytest.approx(2 * seconds(half_width=0.0))


def test_the_slower_of_compute_and_memory_binds():
    assert seconds(bytes=1.0) == seconds(bytes=2.0)
    assert seconds(bytes=2e20) == pytest.approx(2e8)
