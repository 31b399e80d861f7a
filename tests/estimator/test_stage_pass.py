"""Stage pass: device and host side by side for one micro-batch of one stage."""

from dataclasses import replace

import pytest

from estimator.efficiency import efficiencies, ideal
from estimator.networks.dims import dims
from estimator.networks.transformer import network
from estimator.scenario import scenario_from_json
from estimator.stage_pass import stage_pass, tensor_exchanges
from estimator.stages import stages

E = efficiencies("hopper")


def layout(**plan):
    chips = plan.get("tp", 1) * plan.get("pp", 1)
    scenario = scenario_from_json(
        {
            "model": "llama3.2-1b",
            "cluster": {"chip": "h200-sxm", "chips_per_node": chips},
            "plan": plan,
            "training": {"seq_len": 2048, "global_batch": 4, "precision": "bf16"},
        }
    )
    return scenario, stages(scenario, network(dims(scenario)))


def test_categories_add_to_the_device_time():
    scenario, (stage,) = layout(micro_batch=4)
    found = stage_pass(scenario, stage, E)
    assert sum(found.by_category.values()) == pytest.approx(sum(found.device_s.values()))
    assert found.seconds == pytest.approx(sum(found.device_s.values()) + sum(found.wait_s.values()))


def test_a_slow_host_sets_the_pace():
    scenario, (stage,) = layout(micro_batch=1)
    slow = replace(E, host_forward_s=1e-3, host_backward_s=1e-3)
    found = stage_pass(scenario, stage, slow)
    assert found.device_s["forward"] + found.wait_s["forward"] == pytest.approx(found.host_s["forward"])


def test_without_overheads_nothing_waits():
    scenario, (stage,) = layout(micro_batch=1)
    found = stage_pass(scenario, stage, ideal(E))
    assert found.wait_s == {"forward": 0.0, "backward": 0.0}


def test_only_tensor_parallel_stages_exchange():
    scenario, (stage,) = layout()
    assert tensor_exchanges(scenario, stage) == []
    scenario, (stage,) = layout(tp=2)
    forward = [
        (exchange.kind, times) for exchange, times in tensor_exchanges(scenario, stage) if exchange.phase == "forward"
    ]
    assert forward == [("all-reduce", 16.0)]


def test_embedding_and_head_run_on_their_stages_only():
    scenario, (first, last) = layout(pp=2)
    one, other = stage_pass(scenario, first, E), stage_pass(scenario, last, E)
    assert other.by_category["matmul"] > one.by_category["matmul"]
