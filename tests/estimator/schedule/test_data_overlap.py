"""Data overlap: payloads and exposure of what data parallel ranks exchange in a step."""

import pytest

from estimator.communication.message import PricedMessage
from estimator.cost.efficiency import Efficiencies, efficiencies
from estimator.estimate.host_pace import at_pace
from estimator.scenario import catalog
from estimator.scenario.scenario import scenario_from_json
from estimator.schedule.data_overlap import data_parallel
from tests.estimator.examples import MIXTRAL, Built, built, scenario

E = efficiencies("hopper")


def first_stage(e: Efficiencies = E, model: str = "llama3-8b", precision: str = "bf16", **plan) -> list[PricedMessage]:
    chips = plan.get("dp", 1) * plan.get("tp", 1) * plan.get("pp", 1) * plan.get("cp", 1)
    scenario = scenario_from_json(
        {
            "model": model,
            "cluster": {"chip": "h200-sxm", "chips_per_node": chips},
            "plan": plan,
            "training": {"seq_len": 1024, "global_batch": 8, "precision": precision},
        }
    )
    found: Built = built(scenario, e)
    setting = found.setting
    return data_parallel(setting.shard, setting.kinds[0], found.passes[0], setting.plan, setting.groups,
                         setting.micro_batches, setting.cluster, e)  # fmt: skip


def total_bytes(found: PricedMessage) -> float:
    return found.message.payload_bytes * found.message.count


def test_one_replica_exchanges_nothing():
    assert first_stage() == []
    assert first_stage(tp=2, pp=2) == []


def test_ddp_sums_every_gradient_once_in_buckets():
    (found,) = first_stage(dp=4)
    assert (found.message.kind, found.message.axis, found.ranks) == ("all-reduce", "dp", 4)
    assert total_bytes(found) == pytest.approx(2 * 8_030_261_248)
    assert 0 < found.exposed_s < found.seconds
    assert found.copies_exposed_s > 0


def test_copies_show_however_much_of_the_exchange_is_hidden():
    (found,) = first_stage(dp=4)
    (whole,) = first_stage(dp=4, overlap=False)
    assert whole.exposed_s == whole.seconds == found.seconds
    assert found.copies_exposed_s == whole.copies_exposed_s


def test_parameters_gathered_behind_a_router_that_the_host_waits_for_are_not_hidden():
    def gathers(experts: str) -> dict[str, PricedMessage]:
        model = {**MIXTRAL, "hidden": 1024, "ffn": 4096, "moe_ffn": 4096}
        one = built(scenario(model, plan={"dp": 2, "sharding": "fsdp"}, experts=experts, seq_len=4096), E)
        setting = one.setting
        found = data_parallel(setting.shard, setting.kinds[0], one.passes[0], setting.plan, setting.groups, 1.0,
                              setting.cluster, E)  # fmt: skip
        return {each.message.name: each for each in found if each.message.axis == "dp"}

    loop, grouped = gathers("loop"), gathers("grouped")
    first, again = (f"parameter gather ({phase})" for phase in ("forward", "backward"))
    assert loop[first].exposed_s == loop[first].seconds > grouped[first].exposed_s
    assert loop[again].exposed_s < loop[again].seconds, "its parameters are known in backward"


def test_gradients_that_change_their_type_are_copied_by_elements():
    chip = catalog.chip("h200-sxm")
    scatter, same = (first_stage(dp=4, sharding="fsdp", precision=name)[-1] for name in ("bf16-amp", "fp32"))
    rate = chip.compute_units * chip.clock_hz * E.strided_elements_per_unit_cycle
    assert scatter.copies_exposed_s == pytest.approx(scatter.message.cast_elements / rate)
    assert same.message.cast_elements == 0
    assert same.copies_exposed_s == pytest.approx(same.message.copies_bytes / (chip.memory_bytes_per_s * E.memory_frac))


def test_fsdp_gathers_twice_and_scatters_once_per_micro_batch():
    found = first_stage(dp=4, sharding="fsdp", micro_batch=1)
    assert [(f.message.kind, f.message.phase) for f in found] == [
        ("all-gather", "forward"),
        ("all-gather", "backward"),
        ("reduce-scatter", "backward"),
    ]
    assert all(f.message.count == 32 * 2 for f in found), "32 blocks, two micro-batches"


def test_experts_are_exchanged_apart_among_their_own_copies():
    found = first_stage(model="mixtral-8x7b", dp=8, ep=4)
    assert [(f.message.axis, f.ranks) for f in found] == [("dp", 8), ("edp", 2)]
    experts = 32 * 8 * 3 * 4096 * 14336
    assert total_bytes(found[1]) == pytest.approx(2 * experts / 4)
    assert total_bytes(found[0]) == pytest.approx(2 * (46_702_792_704 - experts))


def test_experts_that_no_other_rank_has_are_not_exchanged():
    assert [f.message.axis for f in first_stage(model="mixtral-8x7b", dp=8, ep=8)] == ["dp"]


def test_context_ranks_hold_the_same_parameters():
    (found,) = first_stage(dp=2, cp=4)
    assert found.ranks == 8


def test_what_one_exchange_has_hidden_behind_another_cannot():
    e = at_pace(E, 1e-3)  # a host that never keeps the device waiting leaves both as much to hide behind
    alone = [f for f in first_stage(e, dp=4, sharding="zero3") if f.message.phase == "backward"]
    both = [f for f in first_stage(e, dp=4, sharding="fsdp") if f.message.phase == "backward"]
    assert (len(alone), len(both)) == (1, 2)
    scatter, later_scatter = alone[0], both[1]
    assert scatter.seconds == later_scatter.seconds
    assert later_scatter.exposed_s >= scatter.exposed_s
