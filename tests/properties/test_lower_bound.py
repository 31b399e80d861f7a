"""The ideal framework is a lower bound: no framework's step is shorter, and no op undercuts its roofs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.estimate.estimate import estimate
from estimator.scenario.framework import FRAMEWORKS
from estimator.scenario.hardware import peak_flops_per_s
from estimator.scenario.scenario import Scenario, scenario_from_json
from tests.properties.scenarios import scenarios

ROUNDING = 1 + 1e-9
OTHERS = tuple(framework for framework in FRAMEWORKS if framework != "ideal")


def under(scenario: Scenario, framework: str) -> Scenario:
    return replace(scenario, training=replace(scenario.training, framework=framework))


@given(scenarios(), st.sampled_from(OTHERS))
@settings(max_examples=120, deadline=None)
def test_no_framework_is_faster_than_the_ideal_one(scenario, framework):
    ideal = estimate(under(scenario, "ideal"))
    assert ideal.interval_s == pytest.approx((ideal.step_time_s, ideal.step_time_s), rel=1e-12)
    assert ideal.phases_s["host_wait"] == 0
    assert ideal.step_time_s <= estimate(under(scenario, framework), interval=False).step_time_s * ROUNDING


@given(scenarios(framework="ideal"))
@settings(max_examples=60, deadline=None)
def test_an_ideal_op_takes_as_long_as_the_roof_that_binds_it(scenario):
    chip = scenario.cluster.chip
    for op in estimate(scenario, interval=False).ops:
        roofs = [op.bytes / chip.memory_bytes_per_s]
        roofs += [op.flops / peak_flops_per_s(chip, op.precision)] if op.precision else []
        assert op.seconds == pytest.approx(max(roofs), rel=1e-9), op.name


@given(scenarios(framework="ideal", pp=1, dp=1))
@settings(max_examples=60, deadline=None)
def test_what_an_ideal_step_sends_shows_only_beyond_its_compute(scenario):
    found = estimate(scenario, interval=False)
    device = found.phases_s["forward"] + found.phases_s["backward"]
    sent = sum(c.seconds for c in found.collectives if c.axis not in ("dp", "edp"))
    assert found.phases_s["exposed_communication"] <= sum(c.seconds for c in found.collectives) * ROUNDING
    if scenario.plan.overlap and sent == 0:
        assert found.step_time_s == pytest.approx(device + found.phases_s["optimizer"] + sum(
            c.exposed_s for c in found.collectives))  # fmt: skip


def test_waves_narrow_heads_and_latencies_cost_the_ideal_framework_nothing():
    def step_s(heads: int, framework: str) -> float:
        return estimate(
            scenario_from_json(
                {
                    "model": {"layers": 8, "hidden": 2048, "heads": heads, "ffn": 8192, "vocab": 32_000},
                    "cluster": {"chip": "h100-sxm", "chips_per_node": 1},
                    "training": {"seq_len": 8192, "global_batch": 1, "precision": "bf16", "framework": framework},
                }
            )
        ).step_time_s

    # Twice as many heads of half the width are the same FLOPs; their statistics alone are twice as many.
    assert step_s(32, "ideal") == pytest.approx(step_s(16, "ideal"), rel=1e-3)
    assert step_s(32, "megatron") > 1.02 * step_s(16, "megatron")
