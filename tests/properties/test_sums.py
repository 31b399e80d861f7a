"""What must add up adds up, for every scenario: phases, categories, kinds of memory, collectives, operations."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings

from estimator.cost.collectives import TRAFFIC
from estimator.cost.efficiency import efficiencies
from estimator.estimate.assemble import rank_of, setting_of
from estimator.estimate.estimate import estimate
from estimator.memory.stage_parameters import stage_parameters
from estimator.scenario.breakdown import CATEGORIES, MEMORY_KINDS, PHASES
from estimator.scenario.codec import encode
from estimator.scenario.parameters import model_flops_per_token, parameters
from estimator.scenario.scenario import Scenario, scenario_from_json, scenario_to_json
from tests.properties.scenarios import scenarios


@given(scenarios())
@settings(max_examples=80, deadline=None)
def test_every_legal_scenario_has_a_whole_estimate(scenario):
    found = estimate(scenario)
    assert tuple(found.phases_s) == PHASES
    assert tuple(found.breakdown_s) == CATEGORIES
    assert math.isfinite(found.step_time_s)
    assert found.step_time_s > 0
    assert min(*found.phases_s.values(), *found.breakdown_s.values()) >= 0
    assert sum(found.phases_s.values()) == pytest.approx(found.step_time_s)
    assert sum(found.breakdown_s.values()) == pytest.approx(found.step_time_s)
    assert sum(found.host_wait_by_phase_s.values()) == pytest.approx(found.phases_s["host_wait"])

    memory = found.memory
    assert tuple(memory.by_kind) == MEMORY_KINDS
    assert min(memory.by_kind.values()) >= 0
    assert sum(memory.by_kind.values()) == pytest.approx(memory.peak_bytes)
    assert memory.peak_bytes == max(stage.peak_bytes for stage in memory.stages)
    assert memory.fits == (memory.reserved_bytes <= memory.capacity_bytes) == (not found.problems)
    assert memory.reserved_bytes >= memory.peak_bytes

    low, high = found.interval_s
    assert 0 <= low <= found.step_time_s <= high
    assert found.tokens_per_s * found.step_time_s == pytest.approx(scenario.tokens)
    assert found.tokens_per_s_per_chip * found.chips == pytest.approx(found.tokens_per_s)
    # The chips execute every product of the model; of the attention square only what kernels do not mask.
    products = model_flops_per_token(scenario.model, 0) / model_flops_per_token(
        scenario.model, scenario.training.seq_len
    )
    assert 0 < found.mfu * products <= found.hfu * (1 + 1e-9)
    json.dumps(encode(found), allow_nan=False)


@given(scenarios())
@settings(max_examples=80, deadline=None)
def test_exposed_communication_is_that_of_the_listed_rows(scenario):
    found = estimate(scenario, interval=False)
    exposed = sum(c.exposed_s for c in found.collectives)
    assert found.phases_s["exposed_communication"] == pytest.approx(exposed, rel=1e-9, abs=1e-15)
    assert all(-1e-15 <= c.exposed_s <= c.seconds * (1 + 1e-9) for c in found.collectives)
    assert all(c.ranks > 1 for c in found.collectives if c.kind != "copy")
    # Messages between stages may all hide.
    assert all(c.count > 0 for c in found.collectives if c.kind != "p2p")


@given(scenarios(tp=1, dp=1, pp=1, cp=1))
@settings(max_examples=60, deadline=None)
def test_degrees_of_one_cost_nothing(scenario):
    found = estimate(scenario, interval=False)
    assert found.collectives == ()
    assert found.phases_s["exposed_communication"] == found.phases_s["bubble"] == 0
    assert found.breakdown_s["communication"] == found.breakdown_s["bubble"] == 0
    assert found.memory.by_kind["communication"] == 0


@given(scenarios())
@settings(max_examples=100, deadline=None)
def test_an_axis_of_one_has_no_collectives(scenario):
    plan = scenario.plan
    sizes = {
        "tp": plan.tp,
        "cp": plan.cp,
        "pp": plan.pp,
        "dp": plan.dp * plan.cp,
        "ep": plan.ep,
        "edp": plan.dp * plan.cp * plan.tp // (plan.ep * plan.expert_tp) if scenario.model.experts else 1,
    }
    rows = estimate(scenario, interval=False).collectives
    for one in rows:
        assert 1 < one.ranks <= sizes[one.axis] or one.kind == "copy", one
    axes = {one.axis for one in rows if one.kind != "copy"}
    always = {axis for axis in ("tp", "cp") if sizes[axis] > 1}
    # A shard of one rank, and pipelines whose messages hide, leave nothing to list.
    assert always <= axes


@given(scenarios(tp_kind="1d", experts=False, pp=1))
@settings(max_examples=60, deadline=None)
def test_an_all_reduce_sends_what_a_scatter_and_a_gather_send(scenario):
    assert TRAFFIC["all-reduce"] == TRAFFIC["reduce-scatter"] + TRAFFIC["all-gather"]
    # Sequence parallelism changes sums into scatters and gathers; forward the bytes on the wire stay, but for latent
    # attention, which gathers the latents, and for parallel attention, whose inputs are two and whose output is one.
    assume(not scenario.model.kv_lora_rank and not scenario.model.parallel_residual)
    # A replicated head needs the whole stream and sums nothing.
    apart = {"head input gather"} if not scenario.training.traits.vocab_parallel else set()

    def sent(split: bool) -> float:
        plan = replace(scenario.plan, sequence_parallel=split)
        rows = estimate(replace(scenario, plan=plan), interval=False).collectives
        rows = [row for row in rows if row.axis == "tp" and row.phase == "forward" and row.name not in apart]
        return sum(row.bytes * row.count * TRAFFIC[row.kind] for row in rows)

    assert sent(True) == pytest.approx(sent(False))


@given(scenarios())
@settings(max_examples=60, deadline=None)
def test_operations_of_the_slowest_stage_add_to_its_passes(scenario):
    found = estimate(scenario)
    by_phase = {phase: sum(op.seconds for op in found.ops if op.phase == phase) for phase in PHASES[:3]}
    assert by_phase["forward"] == pytest.approx(found.phases_s["forward"])
    assert by_phase["optimizer"] == pytest.approx(found.phases_s["optimizer"])
    # Adding up gradients of several micro-batches is part of backward and of no operation.
    assert by_phase["backward"] <= found.phases_s["backward"] * (1 + 1e-9)
    if scenario.micro_batches == 1:
        assert by_phase["backward"] == pytest.approx(found.phases_s["backward"])


def held(scenario: Scenario) -> float:
    """Parameters of all stages, middle ones as often as they come; two stages have none between them."""
    e = efficiencies(scenario.cluster.chip.efficiency)
    setting = setting_of(scenario, rank_of(scenario, e))
    counts = {"only": 1, "first": 1, "middle": scenario.plan.pp - 2, "last": 1}
    return sum(sum(stage_parameters(setting.shard, kind)[:2]) * counts[kind.name] for kind in setting.kinds)


@given(scenarios(tp=1, experts=False))
@settings(max_examples=60, deadline=None)
def test_stages_hold_every_parameter_once_but_for_a_tied_table_at_both_ends(scenario):
    count = parameters(scenario.model, scenario.training.seq_len)
    apart = scenario.plan.pp > 1 and scenario.plan.schedule != "zero-bubble-v"
    tied_twice = scenario.model.tied_embedding and apart
    expected = count + (scenario.model.vocab * scenario.model.hidden if tied_twice else 0)
    assert held(scenario) == pytest.approx(expected, rel=1e-12)


@given(scenarios())
@settings(max_examples=60, deadline=None)
def test_a_scenario_survives_json(scenario):
    assert scenario_from_json(json.loads(json.dumps(scenario_to_json(scenario)))) == scenario
