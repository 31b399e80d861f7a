"""Report: what people read of a step adds up to what was priced."""

import pytest

from estimator.cost.efficiency import efficiencies
from estimator.estimate.estimate import estimate
from estimator.estimate.report import Collective, OpCost, collectives_of, op_costs, phases_and_breakdown, stage_memories
from estimator.scenario.breakdown import CATEGORIES, MEMORY_KINDS, PHASES
from estimator.scenario.scenario import scenario_from_json
from tests.estimator.examples import GPT, LLAMA, MIXTRAL, built, document, flawless, scenario

PLANS = [
    (LLAMA, {}),
    (LLAMA, {"dp": 4, "sharding": "fsdp"}),
    (LLAMA, {"dp": 2, "tp": 2, "pp": 2}),
    (LLAMA, {"cp": 4}),
    (GPT, {"pp": 4, "schedule": "zero-bubble"}),
    (MIXTRAL, {"dp": 4, "tp": 2, "ep": 4, "pp": 2}),
    ({**MIXTRAL, "dense_layers": 1}, {"dp": 2, "ep": 2, "pp": 2}),
]


def listed(model, *, framework="megatron", **plan) -> tuple[Collective, ...]:
    found = built(scenario(model, plan=plan, framework=framework))
    return collectives_of(found.step, found.lines, found.setting)


@pytest.mark.parametrize(("model", "plan"), PLANS)
def test_phases_and_categories_each_add_to_the_step(model, plan):
    e = flawless(host_forward_s=1e-5, host_backward_s=1e-5, host_step_s=1e-4, contention_frac=0.5)
    found = built(scenario(model, plan=plan, global_batch=8), e)
    phases, breakdown = phases_and_breakdown(found.step, found.rank, found.setting)
    assert (tuple(phases), tuple(breakdown)) == (PHASES, CATEGORIES)
    assert sum(phases.values()) == pytest.approx(found.step.seconds)
    assert sum(breakdown.values()) == pytest.approx(found.step.seconds)


@pytest.mark.parametrize(("model", "plan"), PLANS)
def test_rows_add_to_the_exposed_communication(model, plan):
    found = built(scenario(model, plan=plan, global_batch=8))
    rows = collectives_of(found.step, found.lines, found.setting)
    assert sum(row.exposed_s for row in rows) == pytest.approx(found.step.exposed_s)
    assert all(row.count > 0 and row.exposed_s <= row.seconds * (1 + 1e-12) for row in rows)


def test_equal_lines_of_all_blocks_are_one_row():
    rows = listed({**GPT, "layers": 8}, tp=2)
    (forward,) = (row for row in rows if row.name == "tensor parallel all-reduce")
    assert (forward.count, forward.bytes, forward.ranks) == (2 * 8, 128 * 256 * 2, 2)
    assert len({(row.name, row.axis, row.phase) for row in rows}) == len(rows)


def test_axes_are_named():
    rows = listed(MIXTRAL, dp=4, tp=2, ep=4, pp=2)
    assert {row.axis for row in rows} == {"dp", "tp", "ep", "edp", "pp"}


def test_copies_have_a_row_of_their_own():
    rows = [row for row in listed(LLAMA, dp=4, framework="pytorch-eager") if row.kind == "copy"]
    (copies,) = rows
    assert (copies.axis, copies.ranks) == ("dp", 1)
    assert copies.seconds == copies.exposed_s > 0


def test_messages_between_stages_show_what_they_add():
    (row,) = (row for row in listed(LLAMA, pp=2) if row.kind == "p2p")
    assert row.bytes == 128 * 256 * 2
    assert row.seconds == pytest.approx(row.count * (1e-6 + row.bytes / 1e10))


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_every_stage_has_its_memory(stages):
    setting = built(scenario(LLAMA, plan={"pp": stages}, global_batch=8, seq_len=1024)).setting
    found = stage_memories(setting, E)
    assert [one.stage for one in found] == list(range(stages))
    assert [one.in_flight for one in found] == [max(stages - i, 1) for i in range(stages)]
    for one in found:
        assert tuple(one.by_kind) == MEMORY_KINDS
        assert sum(one.by_kind.values()) == pytest.approx(one.peak_bytes)


def test_stages_in_the_middle_differ_by_what_is_in_flight():
    found = stage_memories(built(scenario(LLAMA, plan={"pp": 4}, global_batch=8, seq_len=4096)).setting, E)
    second, third = found[1], found[2]
    assert second.by_kind["activations"] * 2 == pytest.approx(third.by_kind["activations"] * 3)


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
    found = {cost.name: cost for cost in costs_of(scenario_from_json(data))}
    assert "adamw" not in found
    # yet the step waits for it, and its row says for what
    row, told = found["adamw in host memory"], estimate(scenario_from_json(data), interval=False)
    assert (row.layer, row.category, row.bound, row.launches, row.flops) == (
        "optimizer",
        "optimizer",
        "host link",
        0,
        0,
    )
    assert row.seconds > 0
    listed = sum(cost.seconds for cost in told.ops if cost.category == "optimizer")
    assert listed == pytest.approx(told.breakdown_s["optimizer"])


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
