"""A step laid out: it ends with the step, lanes do not overlap themselves, memory peaks where the estimate says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from estimator.estimate.estimate import estimate
from estimator.estimate.timeline import MOST_BLOCKS, timeline
from estimator.scenario.breakdown import SHOWN_PASSES
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json
from tests.app.examples import LLAMA
from tests.properties.scenarios import scenarios


@given(scenarios())
@settings(max_examples=8, deadline=None)
def test_every_step_is_laid_out_whole(scenario):
    found, own = timeline(scenario), estimate(scenario, interval=False)
    assert found.total_s == pytest.approx(own.step_time_s)
    assert max(found.end_s) == pytest.approx(own.step_time_s)
    assert min(found.start_s) >= -1e-9 * own.step_time_s
    assert max(held for _, held in found.memory) == pytest.approx(own.memory.peak_bytes, rel=1e-6)
    assert len(found.lane) < 3 * MOST_BLOCKS
    works = [lane for lane, name in enumerate(found.lanes) if name not in ("communication", "host")]
    ends = dict.fromkeys(works, 0.0)
    for lane, start, end in zip(found.lane, found.start_s, found.end_s, strict=True):
        if lane in ends:
            assert start >= ends[lane] - 1e-9 * own.step_time_s, "one piece of work at a time"
            ends[lane] = end


def test_compute_takes_what_the_categories_say():
    scenario = scenario_from_json(LLAMA)
    found, own = timeline(scenario), estimate(scenario, interval=False)
    by = {}
    for lane, kind, start, end in zip(found.lane, found.kind, found.start_s, found.end_s, strict=True):
        if found.lanes[lane] == "compute":
            by[kind] = by.get(kind, 0.0) + end - start
    assert by == pytest.approx({name: own.breakdown_s[name] for name in by})
    with pytest.raises(InputProblems):
        timeline(scenario_from_json({**LLAMA, "plan": {"dp": 3}}))


def test_a_pipeline_that_parts_weight_gradients_from_backward_draws_them_as_a_pass_of_their_own():
    plan = {"pp": 4, "dp": 2, "micro_batch": 1, "sharding": "ddp", "schedule": "zero-bubble"}
    found = timeline(scenario_from_json({**LLAMA, "plan": plan}))
    kinds = set(found.kind) & set(SHOWN_PASSES)
    assert kinds == {"forward", "backward", "weight_gradients"}
    parted = {phase for kind, phase in zip(found.kind, found.phase, strict=True) if kind == "weight_gradients"}
    assert parted == {"backward"}
    together = timeline(scenario_from_json({**LLAMA, "plan": {**plan, "schedule": "1f1b"}}))
    assert set(together.kind) & set(SHOWN_PASSES) == {"forward", "backward"}
