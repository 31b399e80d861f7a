"""A step laid out: it ends with the step, lanes do not overlap themselves, memory peaks where the estimate says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from estimator.estimate.estimate import estimate
from estimator.estimate.timeline import MOST_BLOCKS, timeline
from estimator.scenario.breakdown import SHOWN_PASSES
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json
from estimator.scenario.timeline import LEFT_OUT
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


@pytest.mark.parametrize(
    ("sharding", "recompute", "training", "moment"),
    [
        ("ddp", "none", {"seq_len": 64, "global_batch": 8, "optimizer": "sgd"}, "embedding backward"),
        ("ddp", "full", {"seq_len": 1024, "global_batch": 64, "optimizer": "sgd"}, "end of forward"),
        ("fsdp", "none", {"seq_len": 64, "global_batch": 64}, "embedding backward"),
    ],
)
def test_memory_passes_through_the_fullest_moment_whichever_it_is(sharding, recompute, training, moment):
    plan = {"dp": 8, "micro_batch": 1, "sharding": sharding, "recompute": recompute}
    given = {"precision": "bf16-amp", **training}
    scenario = scenario_from_json({**LLAMA, "model": "llama3.2-1b", "plan": plan, "training": given})
    own = estimate(scenario, interval=False).memory
    assert own.moment == moment
    assert max(held for _, held in timeline(scenario).memory) == pytest.approx(own.peak_bytes, rel=1e-12)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_moments_of_few_blocks_follow_one_another(layers):
    model = {"layers": layers, "hidden": 256, "heads": 8, "ffn": 704, "vocab": 1024}
    plan = {"dp": 8, "micro_batch": 1, "sharding": "fsdp"}
    found = timeline(scenario_from_json({**LLAMA, "model": model, "plan": plan}))
    times = [at_s for at_s, _ in found.memory]
    assert times == pytest.approx(sorted(times), abs=1e-9 * found.total_s, rel=0.0)


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
    assert kinds == {"forward", "backward", "weight_gradients", "accumulation"}
    parted = {phase for kind, phase in zip(found.kind, found.phase, strict=True) if kind == "weight_gradients"}
    assert parted == {"backward"}
    together = timeline(scenario_from_json({**LLAMA, "plan": {**plan, "schedule": "1f1b"}}))
    assert set(together.kind) & set(SHOWN_PASSES) == {"forward", "backward", "accumulation"}


def test_what_is_left_out_of_a_lane_is_no_pass_and_is_said():
    plan = {"pp": 8, "dp": 1, "micro_batch": 1, "schedule": "zero-bubble"}
    document = {**LLAMA, "plan": plan, "training": {**LLAMA["training"], "global_batch": 128}}
    found = timeline(scenario_from_json(document))
    blocks = list(zip(found.lane, found.kind, found.name, found.start_s, found.end_s, strict=True))
    for lane in range(8):
        (gap,) = (one for one in blocks if one[0] == lane and one[1] == LEFT_OUT)
        drawn = sum(kind in SHOWN_PASSES and kind != "accumulation" for at, kind, *_ in blocks if at == lane)
        assert gap[2] == f"{3 * 128 - drawn} passes, forward and backward"
        longest_s = max(end - start for at, kind, _, start, end in blocks if at == lane and kind == "backward")
        assert longest_s < (gap[4] - gap[3]) / 10, "one pass is one block"
    assert found.folded == "middle in one piece"
    few = timeline(scenario_from_json({**document, "training": {**LLAMA["training"], "global_batch": 16}}))
    assert (LEFT_OUT in few.kind, few.folded) == (False, "")
