"""What must add up adds up, for every scenario: phases, categories, kinds of memory, collectives, operations."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings

from estimator.breakdown import CATEGORIES, MEMORY_KINDS, PHASES
from estimator.codec import encode
from estimator.estimate import estimate
from estimator.model import parameters
from estimator.networks.dims import dims
from estimator.networks.transformer import network
from estimator.scenario import Scenario, scenario_from_json, scenario_to_json
from estimator.stages import stages
from tests.properties.scenarios import scenarios


@given(scenarios())
@settings(max_examples=200, deadline=None)
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
    assert memory.peak_bytes == max(stage["peak_bytes"] for stage in memory.stages)
    assert memory.fits == (memory.reserved_bytes <= memory.capacity_bytes) == (not found.problems)
    assert memory.reserved_bytes >= memory.peak_bytes

    low, high = found.interval_s
    assert 0 <= low <= found.step_time_s <= high
    assert found.tokens_per_s * found.step_time_s == pytest.approx(scenario.tokens)
    assert found.tokens_per_s_per_chip * found.chips == pytest.approx(found.tokens_per_s)
    assert 0 < found.mfu <= found.hfu * (1 + 1e-9)
    json.dumps(encode(found), allow_nan=False)


@given(scenarios())
@settings(max_examples=100, deadline=None)
def test_exposed_communication_is_that_of_the_collectives_and_of_the_copies_into_their_buffers(scenario):
    found = estimate(scenario)
    exposed = sum(c.exposed_s for c in found.collectives)
    assert all(-1e-15 <= c.exposed_s <= c.seconds * (1 + 1e-9) for c in found.collectives)
    if scenario.plan.dp == 1:
        assert found.phases_s["exposed_communication"] == pytest.approx(exposed)
    else:
        assert found.phases_s["exposed_communication"] >= exposed * (1 - 1e-9)
    for one in found.collectives:
        assert one.ranks == getattr(scenario.plan, one.axis) > 1


@given(scenarios(tp=1, dp=1, pp=1))
@settings(max_examples=60, deadline=None)
def test_degrees_of_one_cost_nothing(scenario):
    found = estimate(scenario)
    assert found.collectives == ()
    assert found.phases_s["exposed_communication"] == found.phases_s["bubble"] == 0
    assert found.breakdown_s["communication"] == found.breakdown_s["bubble"] == 0
    assert found.memory.by_kind["communication"] == 0


@given(scenarios())
@settings(max_examples=60, deadline=None)
def test_an_axis_of_one_has_no_collectives(scenario):
    axes = {one.axis for one in estimate(scenario).collectives}
    assert axes == {axis for axis in ("dp", "tp", "pp") if getattr(scenario.plan, axis) > 1}


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
    return sum(stage.parameters for stage in stages(scenario, network(dims(scenario))))


@given(scenarios(tp=1))
@settings(max_examples=60, deadline=None)
def test_stages_hold_every_parameter_once_but_for_a_tied_table_at_both_ends(scenario):
    count = parameters(scenario.model, scenario.training.seq_len)
    tied_twice = scenario.model.tied_embedding and scenario.plan.pp > 1
    assert held(scenario) == count + (scenario.model.vocab * scenario.model.hidden if tied_twice else 0)


@given(scenarios())
@settings(max_examples=60, deadline=None)
def test_a_scenario_survives_json(scenario):
    assert scenario_from_json(json.loads(json.dumps(scenario_to_json(scenario)))) == scenario
