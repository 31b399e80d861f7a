"""Communication: payloads and exposure of a step's collectives on one rank."""

import pytest

from estimator.communication import data_parallel, send_s_of, sends_listed, tensor_collectives
from estimator.efficiency import efficiencies
from estimator.networks.dims import dims
from estimator.networks.transformer import network
from estimator.scenario import scenario_from_json
from estimator.stage_pass import stage_pass
from estimator.stages import stages

E = efficiencies("hopper")


def first_stage(**plan):
    chips = plan.get("dp", 1) * plan.get("tp", 1) * plan.get("pp", 1)
    scenario = scenario_from_json(
        {
            "model": "llama3-8b",
            "cluster": {"chip": "h200-sxm", "chips_per_node": chips},
            "plan": plan,
            "training": {"seq_len": 1024, "global_batch": 8, "precision": "bf16"},
        }
    )
    return scenario, stages(scenario, network(dims(scenario)))[0]


def test_one_replica_exchanges_nothing():
    scenario, stage = first_stage()
    assert data_parallel(scenario, stage, stage_pass(scenario, stage, E), E) == ([], 0.0)


def test_ddp_sums_every_gradient_once_in_buckets():
    scenario, stage = first_stage(dp=4)
    (found,), copies_s = data_parallel(scenario, stage, stage_pass(scenario, stage, E), E)
    assert (found.kind, found.axis, found.ranks) == ("all-reduce", "dp", 4)
    assert found.bytes * found.count == pytest.approx(2 * 8_030_261_248)
    assert 0 < found.exposed_s < found.seconds
    assert copies_s > 0


def test_without_overlap_all_of_it_is_exposed():
    scenario, stage = first_stage(dp=4, overlap=False)
    (found,), _ = data_parallel(scenario, stage, stage_pass(scenario, stage, E), E)
    assert found.exposed_s == found.seconds


def test_fsdp_gathers_twice_and_scatters_once_per_micro_batch():
    scenario, stage = first_stage(dp=4, sharding="fsdp", micro_batch=1)
    found, _ = data_parallel(scenario, stage, stage_pass(scenario, stage, E), E)
    assert [(c.kind, c.phase) for c in found] == [
        ("all-gather", "forward"),
        ("all-gather", "backward"),
        ("reduce-scatter", "backward"),
    ]
    assert all(c.count == 32 * 2 for c in found), "32 blocks, two micro-batches"


def test_tensor_parallel_collectives_are_not_hidden():
    scenario, stage = first_stage(tp=8)
    found = tensor_collectives(scenario, stage, E)
    assert found
    assert all(c.exposed_s == c.seconds for c in found)
    assert {c.bytes for c in found} == {1024 * 4096 * 2}


def test_stages_send_the_residual_stream():
    scenario, stage = first_stage(pp=4)
    send_s = send_s_of(scenario, stage, E)
    (found,) = sends_listed(scenario, send_s, stage)
    assert found.bytes == 1024 * 4096 * 2
    assert found.seconds == pytest.approx(found.count * send_s)
    assert sends_listed(*[first_stage()[0], 0.0, first_stage()[1]]) == []
