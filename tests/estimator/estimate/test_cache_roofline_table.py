"""Cache-level roofline of scenarios: every product once, laws against the plain roofline, and the speed of many."""

from __future__ import annotations

import time

import pytest

from estimator.cost.cache_roofline import levels, names, product
from estimator.estimate.cache_roofline_table import hierarchy, price, products
from estimator.scenario import catalog
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json

LLAMA = {
    "model": "llama3-8b",
    "cluster": {"chip": "h200-sxm", "chips_per_node": 1},
    "training": {"seq_len": 4096, "global_batch": 1, "precision": "bf16"},
}


def scenario(**changes):
    return scenario_from_json({**LLAMA, **changes})


def test_every_product_of_a_llama_layer_is_there_and_large_ones_are_bound_by_compute():
    found = hierarchy(scenario())
    assert [roof.name for roof in found.roofs] == ["memory", "L2", "shared memory", "registers"]
    down = next(row for row in found.rows if row.name.startswith("down") and row.phase == "forward")
    assert (down.m, down.n, down.k, down.count) == (4096, 4096, 14_336, 32)
    assert down.binds == "compute"
    assert down.seconds == pytest.approx(2 * 4096 * 4096 * 14_336 / 9.894e14)
    flops = sum(row.flops * row.count for row in found.rows)
    assert flops == pytest.approx(6 * 4096 * (8_030_261_248 - 128_256 * 4096), rel=1e-3)


def test_few_tokens_are_bound_by_memory():
    found = hierarchy(scenario(training={"seq_len": 16, "global_batch": 1, "precision": "bf16"}))
    assert {row.binds for row in found.rows if row.phase == "forward"} == {"memory"}


@pytest.mark.parametrize("chip", names())
@pytest.mark.parametrize(("precision", "element_bytes"), [("bf16", 2), ("fp32", 4)])
def test_rows_agree_with_one_product_at_a_time(chip, precision, element_bytes):
    found = hierarchy(
        scenario(cluster={"chip": chip, "chips_per_node": 1}, training={**LLAMA["training"], "precision": precision})
    )
    own = levels(catalog.chip(chip), element_bytes).levels
    for row in found.rows:
        kept = {
            "levels": own,
            "flops_per_s": found.flops_per_s,
            "element_bytes": element_bytes,
            "mode": "bound",
        }
        alone = [product(row.m, row.k, row.n, **kept), product(row.n, row.k, row.m, **kept)]
        assert row.seconds == pytest.approx(row.batch * min(one.seconds for one in alone), rel=1e-12)
        assert [level.bytes for level in row.levels] == [
            row.batch * level.bytes for level in alone[int(row.transposed)].traffic
        ]
        times = {"compute": row.compute_s} | {level.name: level.seconds for level in row.levels}
        assert times[row.binds] == max(times.values()) == pytest.approx(row.seconds)


def test_products_cover_the_scores_of_eager_attention_and_all_micro_batches():
    one = scenario(training={**LLAMA["training"], "attention": "eager"})
    four = scenario(training={**LLAMA["training"], "attention": "eager", "global_batch": 4})
    assert len(products(one)) > len(products(scenario()))
    assert sum(count for _, count in products(four)) == 4 * sum(count for _, count in products(one))


def test_modes_and_chips_that_are_not_known_are_refused_by_name():
    with pytest.raises(InputProblems, match="mode"):
        hierarchy(scenario(), "fast")
    with pytest.raises(InputProblems, match=r"cluster\.chip"):
        hierarchy(scenario(cluster={"chip": "rtx-4090", "chips_per_node": 1}))


def test_compatible_mode_ignores_memory_above_the_ridge():
    bound, compatible = hierarchy(scenario()), hierarchy(scenario(), "compatible")
    assert all(
        after.seconds <= before.seconds + 1e-12
        for before, after in zip(bound.rows, compatible.rows, strict=True)
        if before.binds == "compute"
    )
    assert compatible.mode == "compatible"


def test_all_products_of_a_hundred_different_layers_take_milliseconds():
    own = levels(catalog.chip("h200-sxm"), 2).levels
    shapes = tuple(
        (1.0, float(m), float(n), float(k))
        for layer in range(100)
        for m, n, k in [(4096 + layer, 4096, 4096)] * 15 + [(4096, 14_336 + layer, 4096)] * 9
    )
    price(shapes[:1], own, 1e15, 2, "bound")
    best = min(_seconds(shapes[i:], own) for i in range(5))
    # the promise is 5 ms on an idle core; tests share theirs
    assert best < 0.05


def _seconds(shapes, own):
    begin = time.process_time()
    priced = price(shapes, own, 1e15, 2, "bound")
    taken = time.process_time() - begin
    assert len(priced.seconds) == len(shapes)
    return taken


def test_a_tensor_parallel_rank_multiplies_its_share_of_every_layer():
    shards = scenario(cluster={"chip": "h200-sxm", "chips_per_node": 8}, plan={"tp": 8})

    def layer_flops(of):
        return sum(float(op.flops) * count for op, count in products(of) if op.layer == "layer")

    assert layer_flops(scenario()) == pytest.approx(8 * layer_flops(shards))
