"""Op cost: totals over a step, from what one execution of each op is and does."""

import pytest

from estimator.efficiency import efficiencies
from estimator.networks.dims import dims
from estimator.networks.transformer import network
from estimator.op_cost import op_costs
from estimator.scenario import scenario_from_json
from estimator.stages import stages

SCENARIO = scenario_from_json(
    {
        "model": "cs336-small",
        "cluster": {"chip": "h100-sxm", "chips_per_node": 1},
        "plan": {"micro_batch": 2},
        "training": {"seq_len": 256, "global_batch": 6, "precision": "bf16", "attention": "eager"},
    }
)
(STAGE,) = stages(SCENARIO, network(dims(SCENARIO)))
COSTS = {cost.name: cost for cost in op_costs(SCENARIO, STAGE, efficiencies("hopper"))}


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
