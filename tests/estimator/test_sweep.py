"""Sweep: it tries exactly the legal plans, and its best and front are those of a comparison of all."""

from __future__ import annotations

import itertools

import pytest

from estimator.estimate import estimate
from estimator.plan import RECOMPUTES
from estimator.problems import InputProblems
from estimator.scenario import scenario_from_json
from estimator.sweep import Found, pareto, plans, sweep
from tests.estimator.examples import GPT, LLAMA, document

SPEC = {
    "model": {**LLAMA, "layers": 4},
    "cluster": {**document(LLAMA)["cluster"], "chips_per_node": 4},
    "training": {"seq_len": 256, "global_batch": 8, "precision": "bf16"},
}


@pytest.fixture(scope="module")
def found():
    return sweep(SPEC)


def brute_force() -> list[tuple[dict, float, float]]:
    """Every plan of the same axes, legal or not, by plain loops."""
    kept = []
    degrees = [1, 2, 4]
    for dp, tp, pp, size, sharding, recompute, split in itertools.product(
        degrees, degrees, degrees, (1, 2, 4, 8), ("ddp", "zero1", "fsdp"), RECOMPUTES, (False, True)
    ):
        if dp * tp * pp != 4 or 8 % (dp * size) or (dp == 1 and sharding != "ddp") or (tp == 1 and split):
            continue
        plan = {"dp": dp, "tp": tp, "pp": pp, "micro_batch": size, "sharding": sharding, "recompute": recompute,
                "sequence_parallel": split}  # fmt: skip
        try:
            result = estimate(scenario_from_json({**SPEC, "plan": plan}))
        except InputProblems:
            continue
        kept.append((plan, result.step_time_s, result.memory.peak_bytes))
    return kept


def test_it_tries_every_legal_plan_once_and_finds_the_best(found):
    every = brute_force()
    assert found.plans_tried == found.plans_fitting == len(every)
    assert found.best[0].step_time_s == min(seconds for _, seconds, _ in every)
    assert [item.step_time_s for item in found.best] == sorted(seconds for _, seconds, _ in every)[: len(found.best)]
    front = {
        (seconds, peak) for _, seconds, peak in every
        if not any(s <= seconds and p <= peak and (s, p) != (seconds, peak) for _, s, p in every)
    }  # fmt: skip
    assert {(item.step_time_s, item.peak_bytes) for item in found.pareto} == front


def test_each_plan_found_is_a_scenario_of_its_own(found):
    for item in (found.best[0], found.pareto[-1]):
        result = estimate(scenario_from_json(item.scenario))
        assert (result.step_time_s, result.memory.peak_bytes) == (item.step_time_s, item.peak_bytes)
        assert item.cost_chip_s == 4 * item.step_time_s
        assert item.mfu == result.mfu


def test_the_front_trades_time_for_memory(found):
    times = [item.step_time_s for item in found.pareto]
    peaks = [item.peak_bytes for item in found.pareto]
    assert times == sorted(times)
    assert peaks == sorted(peaks, reverse=True)


def test_speed_is_plans_over_seconds(found):
    assert found.plans_per_s == pytest.approx(found.plans_tried / found.seconds)


def test_objectives_choose_their_own_best():
    memory = sweep({**SPEC, "objective": "memory"})
    assert memory.best[0].peak_bytes == min(item.peak_bytes for item in memory.pareto)
    cost = sweep({**SPEC, "objective": "cost"})
    assert cost.best[0].cost_chip_s == min(item.cost_chip_s for item in cost.pareto)


def test_limits_leave_out_what_is_beyond_them(found):
    middle = sorted(item.reserved_bytes for item in found.best)[len(found.best) // 2]
    limited = sweep({**SPEC, "limits": {"memory_bytes": middle}})
    assert limited.plans_tried == found.plans_tried
    assert 0 < limited.plans_fitting < found.plans_fitting
    assert all(item.reserved_bytes <= middle for item in limited.best)
    hurried = sweep({**SPEC, "limits": {"max_step_time_s": found.best[2].step_time_s}})
    assert hurried.plans_fitting == 3
    assert sweep({**SPEC, "limits": {"max_step_time_s": 1e-12}}).best == ()


def test_locked_axes_keep_their_value():
    locked = sweep({**SPEC, "locked": {"tp": 2, "sharding": "zero1", "micro_batch": 2}})
    assert locked.plans_tried > 0
    for item in locked.best:
        assert (item.scenario["plan"]["tp"], item.scenario["plan"]["sharding"]) == (2, "zero1")
        assert item.scenario["plan"]["micro_batch"] == 2


def test_a_lock_that_no_plan_meets_finds_nothing():
    assert sweep({**SPEC, "locked": {"dp": 3}}).plans_tried == 0


def test_plans_multiply_to_the_chips_and_divide_the_batch():
    given = list(plans({**SPEC, "model": GPT}, {}))
    assert given
    for plan in given:
        assert plan["dp"] * plan["tp"] * plan["pp"] == 4
        assert 8 % (plan["dp"] * plan["micro_batch"]) == 0
        assert plan["tp"] > 1 or not plan["sequence_parallel"]
        assert plan["dp"] > 1 or plan["sharding"] == "ddp"
    assert len({tuple(plan.items()) for plan in given}) == len(given)


def item(step_time_s: float, peak_bytes: float) -> Found:
    return Found(scenario={}, step_time_s=step_time_s, peak_bytes=peak_bytes, reserved_bytes=peak_bytes,
                 cost_chip_s=step_time_s, tokens_per_s=1.0, mfu=0.5)  # fmt: skip


def test_the_front_by_hand():
    corner, dominated, small, twin = item(1, 9), item(2, 9), item(3, 1), item(1, 9)
    assert pareto([small, dominated, corner, twin]) == [corner, small]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"objective": "speed"}, "objective"),
        ({"limits": {"memory": 1}}, "limits.memory"),
        ({"limits": {"memory_bytes": 0}}, "limits.memory_bytes"),
        ({"limits": {"memory_bytes": "80 GB"}}, "limits.memory_bytes"),
        ({"limits": 1}, "limits"),
        ({"locked": {"tp": 0}}, "locked.tp"),
        ({"locked": {"tp": "a"}}, "locked.tp"),
        ({"locked": {"sharding": "zero4"}}, "locked.sharding"),
        ({"locked": {"experts": 1}}, "locked.experts"),
        ({"locked": []}, "locked"),
        ({"plan": {}}, "plan"),
        ({"model": "gpt-2000"}, "model"),
        ({"training": {"seq_len": 0, "global_batch": 1}}, "training.seq_len"),
    ],
)
def test_a_bad_specification_names_its_field(change, field):
    with pytest.raises(InputProblems) as caught:
        sweep({**SPEC, **change})
    assert field in {problem.field for problem in caught.value.problems}


@pytest.mark.parametrize("document", [None, [], "x", {}])
def test_what_is_no_specification_is_refused(document):
    with pytest.raises(InputProblems):
        sweep(document)
