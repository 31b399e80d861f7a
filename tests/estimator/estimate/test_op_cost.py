"""Op cost: totals over a step, from what one execution of each op is and does."""

import pytest

from estimator.cost.efficiency import efficiencies
from estimator.estimate.report import OpCost, op_costs
from estimator.scenario.scenario import scenario_from_json
from tests.estimator.examples import LLAMA, MIXTRAL, built, document, scenario

E = efficiencies("hopper")
SCENARIO = scenario_from_json(
    {
        "model": "cs336-small",
        "cluster": {"chip": "h100-sxm", "chips_per_node": 1},
        "plan": {"micro_batch": 2},
        "training": {"seq_len": 256, "global_batch": 6, "precision": "bf16", "attention": "eager"},
    }
)


def costs_of(one, kind: int = 0) -> tuple[OpCost, ...]:
    found = built(one, E)
    return op_costs(found.rank, found.setting, found.setting.kinds[kind], E)


COSTS = {cost.name: cost for cost in costs_of(SCENARIO)}


def test_counts_and_flops_are_totals_over_layers_and_micro_batches():
    down = COSTS["down projection"]
    assert down.shape == "512 × 768 × 3072"
    assert down.count == 12 * 3
    assert down.flops == 2 * 512 * 768 * 3072 * 12 * 3


def test_batched_products_show_their_batch():
    assert COSTS["scores"].shape == "24 × (256 × 256 × 64)"


def test_intensity_is_flops_over_bytes():
    up = COSTS["gate, up projections"]
    assert up.intensity_flops_per_byte == pytest.approx(up.flops / up.bytes)


def test_small_kernels_are_bound_by_their_launch():
    assert COSTS["attention residual"].bound == "launch"
    assert COSTS["adamw"].bound == "memory"


def test_the_optimizer_runs_once():
    assert COSTS["adamw"].count == 1


def test_an_optimizer_in_host_memory_is_no_op_of_the_device():
    data = document(LLAMA, plan={"offload": "optimizer"})
    data["cluster"]["chip"] = {**data["cluster"]["chip"], "host_bytes_per_s": 1e10}
    assert "adamw" not in {cost.name for cost in costs_of(scenario_from_json(data))}


def test_each_kind_of_stage_lists_its_own_ops():
    one = scenario({**LLAMA, "layers": 6}, plan={"pp": 3})
    listed = [{cost.name: cost.count for cost in costs_of(one, kind)} for kind in (0, 1, 2)]
    assert all(found["output projection"] == 2.0 for found in listed)
    assert ["embedding" in found for found in listed] == [True, False, False]
    assert ["logits" in found for found in listed] == [False, False, True]


def test_kinds_of_blocks_stand_apart():
    layers = {cost.layer: cost.count for cost in costs_of(scenario({**MIXTRAL, "dense_layers": 1}))
              if cost.name == "output projection"}  # fmt: skip
    assert layers == {"dense layer": 1.0, "expert layer": 3.0}
