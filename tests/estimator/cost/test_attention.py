"""Fused attention: tiles of scores, what rows cost beside them, widths of heads, units that wait for the last block."""

import json
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from estimator.cost.attention import attention_s
from estimator.cost.efficiency import efficiencies_for
from estimator.cost.price import price
from estimator.operations.aten import kernels_of
from estimator.scenario import catalog
from estimator.scenario.op_list import Operand, Signature

REFERENCE = Path(__file__).parents[2] / "reference"
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


def test_flash_attention_is_built_for_multiples_of_32():
    """40 images, 8 heads of 24, 4,096 positions, five times these and five times 77 keys: 19.25 ms on an H100."""
    chip = catalog.chip("h100-sxm")
    whole_s = 0.0
    for keys in (4096, 77):
        q, k = (Operand(shape=(40, 8, length, 24), dtype="bfloat16") for length in (4096, keys))
        named = {"backend": "flash"}
        flash = Signature(
            op="aten::_scaled_dot_product_flash_attention", inputs=(q, k, k), outputs=(q,), arguments=named
        )
        (op,) = kernels_of(flash)
        whole_s += 5 * price(op, chip, efficiencies_for(chip, None)).seconds
    assert whole_s == pytest.approx(19.25e-3, rel=0.06)
    assert seconds(head_dim=24.0, built_for=32.0) < seconds(head_dim=32.0) == pytest.approx(seconds(head_dim=64.0))


def test_flash_attention_takes_what_it_took_alone():
    ladder = json.loads((REFERENCE / "h200_attention_ladder.json").read_text())["rows"]
    chip, off = catalog.chip("h200-sxm"), []
    for row in ladder:
        if row["backend"] != "flash" or row["seq_len"] < 1024 or row["head_dim"] > 128:
            continue
        shape = (row["batch"], row["heads"], row["seq_len"], row["head_dim"])
        q = Operand(shape=shape, dtype="bfloat16")
        arguments = {"backend": "flash", "is_causal": row["causal"]}
        (forward,) = kernels_of(
            Signature(op="aten::_scaled_dot_product_flash_attention", inputs=(q, q, q), outputs=(q,),
                      arguments=arguments)
        )  # fmt: skip
        backward = replace(forward, phase="backward", flops=2.5 * forward.flops)
        for op, column in ((forward, "forward_s"), (backward, "backward_s")):
            off.append(price(op, chip, efficiencies_for(chip, None)).seconds / row[column] - 1)
    assert len(off) == 24
    assert max(map(abs, off)) < 0.095
    assert statistics.mean(map(abs, off)) < 0.025


def test_fp32_attention_takes_what_it_took_alone():
    """Heads of 64, 96 and 128, causal or not, few and many: the last blocks of causal ones leave most units idle."""
    columns, rows = json.loads((REFERENCE / "h100_fp32_attention.json").read_text()).values()
    chip = catalog.chip("h100-sxm")
    off = {"forward_s": [], "backward_s": []}
    for row in rows:
        one = dict(zip(columns, row, strict=True))
        q = Operand(shape=(1, one["heads"], one["tokens"], one["head_dim"]), dtype="float32")
        arguments = {"backend": "efficient", "is_causal": one["causal"]}
        for direction, op in (("forward", ""), ("backward", "_backward")):
            signature = Signature(
                op=f"aten::_scaled_dot_product_efficient_attention{op}", arguments=arguments,
                inputs=(q, q, q) if not op else (q, q, q, q), outputs=(q,) if not op else (q, q, q),
            )  # fmt: skip
            measured_s = one[f"{direction}_s"]
            if one["heads"] * one["tokens"] < 8192:  # fewer blocks than units
                continue
            made = kernels_of(signature)
            found_s = sum(price(x, chip, efficiencies_for(chip, None)).seconds * x.count for x in made)
            off[f"{direction}_s"].append(abs(found_s / measured_s - 1))
    for each in off.values():
        assert len(each) > 200
        assert statistics.median(each) < 0.08
        assert sorted(each)[int(0.9 * len(each))] < 0.3


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
