"""Sweep: it tries exactly the legal plans, and its best and front are those of a comparison of all."""

from __future__ import annotations

import itertools
import math

import pytest

from estimator.estimate.estimate import estimate
from estimator.scenario.plan import CP_KINDS, DDP_MODES, OFFLOADS, RECOMPUTES, SHARDINGS
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json
from estimator.search.sweep import sweep
from tests.estimator.examples import LLAMA, MIXTRAL, document

SPEC = {
    "model": {**LLAMA, "layers": 4},
    "cluster": {**document(LLAMA)["cluster"], "chips_per_node": 4},
    "training": {"seq_len": 256, "global_batch": 8, "precision": "bf16"},
}
LOCKED = {"tp_kind": "1d", "schedule": "1f1b", "placement": "tp-cp-dp-pp"}


@pytest.fixture(scope="module")
def found():
    return sweep({**SPEC, "locked": LOCKED})


def brute_force() -> list[tuple[dict, float, float]]:
    """Every plan of the same axes, legal or not, by plain loops."""
    kept = []
    degrees = [1, 2, 4]
    for dp, tp, pp, cp, size, sharding, recompute, split, kind in itertools.product(
        degrees, degrees, degrees, degrees, (1, 2, 4, 8), SHARDINGS, RECOMPUTES, (False, True), CP_KINDS
    ):
        if dp * tp * pp * cp != 4 or 8 % (dp * size):
            continue
        if (dp * cp == 1 and sharding != "ddp") or (tp == 1 and split) or (cp == 1 and kind != "ring"):
            continue
        plan = {"dp": dp, "tp": tp, "pp": pp, "cp": cp, "micro_batch": size, "sharding": sharding, "cp_kind": kind,
                "recompute": recompute, "sequence_parallel": split, **LOCKED}  # fmt: skip
        try:
            result = estimate(scenario_from_json({**SPEC, "plan": plan}), interval=False)
        except InputProblems:
            continue
        kept.append((plan, result.step_time_s, result.memory.peak_bytes))
    return kept


def alike(pair: tuple[float, float], other: tuple[float, float]) -> bool:
    """As pytest.approx, for many."""
    return all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(pair, other, strict=True))


def assert_best(best, every: list) -> None:
    """The best are the fastest, those that tie in time and memory once and counted."""
    groups: list[list[tuple[float, float]]] = []
    for pair in sorted((seconds, peak) for _, seconds, peak in every):
        group = next((group for group in groups if alike(group[0], pair)), None)
        if group:
            group.append(pair)
        else:
            groups.append([pair])
    groups = sorted(groups)[: len(best)]
    assert [item.step_time_s for item in best] == pytest.approx([group[0][0] for group in groups], rel=1e-9)
    assert sorted(item.ties for item in best) == sorted(len(group) - 1 for group in groups)


def test_it_tries_every_legal_plan_once_and_finds_the_best(found):
    every = brute_force()
    assert found.plans_tried == found.plans_fitting == len(every)
    assert_best(found.best, every)
    pairs = [(seconds, peak) for _, seconds, peak in every]
    for item in found.pareto:
        assert any(alike((item.step_time_s, item.peak_bytes), pair) for pair in pairs)
        # Nothing is better in one respect and no worse in the other, rounding aside.
        time, peak = item.step_time_s * (1 - 1e-9), item.peak_bytes * (1 - 1e-9)
        assert not [pair for pair in pairs if pair[0] < time and pair[1] < peak]
    assert found.pareto[0].step_time_s == pytest.approx(min(seconds for seconds, _ in pairs), rel=1e-9)
    assert found.pareto[-1].peak_bytes == pytest.approx(min(peak for _, peak in pairs), rel=1e-9)


def test_each_plan_found_is_a_scenario_of_its_own(found):
    for item in (found.best[0], found.pareto[-1]):
        result = estimate(scenario_from_json(item.scenario))
        assert result.step_time_s == pytest.approx(item.step_time_s, rel=1e-9)
        assert result.memory.peak_bytes == pytest.approx(item.peak_bytes, rel=1e-9)
        assert result.memory.reserved_bytes == pytest.approx(item.reserved_bytes, rel=1e-9)
        assert result.memory.capacity_bytes == item.capacity_bytes
        assert item.cost_chip_s == 4 * item.step_time_s
        assert item.mfu == pytest.approx(result.mfu, rel=1e-9)


def test_the_front_trades_time_for_memory(found):
    times = [item.step_time_s for item in found.pareto]
    peaks = [item.peak_bytes for item in found.pareto]
    assert times == sorted(times)
    assert peaks == sorted(peaks, reverse=True)


def test_plans_that_tie_on_the_front_are_one_with_their_number(found):
    every = [(seconds, peak) for _, seconds, peak in brute_force()]
    for item in found.pareto:
        same = [pair for pair in every if pair == pytest.approx((item.step_time_s, item.peak_bytes), rel=1e-9)]
        assert item.ties == len(same) - 1
    numbers = [(item.step_time_s, item.peak_bytes) for item in found.pareto]
    for one, other in itertools.pairwise(numbers):
        assert one[0] * (1 + 1e-9) < other[0]
        assert other[1] * (1 + 1e-9) < one[1]


HOST = {**SPEC["cluster"]["chip"], "host_bytes_per_s": 5e10}
FURTHER = {"recompute_every": [1, 2], "offload": "all", "ddp_mode": "all", "overlap": "all"}
NARROW = {**LOCKED, "cp": 1, "sequence_parallel": False, "micro_batch": 1}


def wider() -> list[tuple[dict, float, float]]:
    """Every plan of the narrow space and of what is searched on request, by plain loops."""
    kept = []
    for dp, tp, pp, sharding, recompute, every, offload, mode, overlap in itertools.product(
        (1, 2, 4), (1, 2, 4), (1, 2, 4), SHARDINGS, RECOMPUTES, (1, 2), OFFLOADS, DDP_MODES, (True, False)
    ):
        if dp * tp * pp != 4 or (every > 1 and recompute != "full") or (mode != "bucketed" and sharding != "ddp"):
            continue
        if (mode != "bucketed" and not overlap) or (dp == 1 and (sharding, mode, overlap) != ("ddp", "bucketed", True)):
            continue
        plan = {**NARROW, "dp": dp, "tp": tp, "pp": pp, "sharding": sharding, "recompute": recompute,
                "recompute_every": every, "offload": offload, "ddp_mode": mode, "overlap": overlap}  # fmt: skip
        document = {**SPEC, "cluster": {**SPEC["cluster"], "chip": HOST}, "plan": plan}
        result = estimate(scenario_from_json(document), interval=False)
        kept.append((plan, result.step_time_s, result.memory.peak_bytes))
    return kept


def test_what_is_searched_on_request_is_tried_in_every_legal_way_once():
    specification = {**SPEC, "cluster": {**SPEC["cluster"], "chip": HOST}, "locked": NARROW}
    alone, found = sweep(specification), sweep({**specification, "search": FURTHER})
    every = wider()
    assert found.plans_tried == found.plans_fitting == len(every) > 3 * alone.plans_tried
    assert_best(found.best, every)
    assert found.pareto[-1].peak_bytes == pytest.approx(min(peak for _, _, peak in every), rel=1e-9)
    for item in found.pareto:
        result = estimate(scenario_from_json(item.scenario), interval=False)
        assert result.step_time_s == pytest.approx(item.step_time_s, rel=1e-9)
        assert result.memory.peak_bytes == pytest.approx(item.peak_bytes, rel=1e-9)
    # Offload buys memory that nothing else does.
    assert found.pareto[-1].scenario["plan"]["offload"] in ("optimizer", "both")
    assert found.pareto[-1].peak_bytes < alone.pareto[-1].peak_bytes


def test_a_search_of_defaults_is_the_search_without():
    same = {"recompute_every": [1], "offload": ["none"], "ddp_mode": ["bucketed"], "overlap": [True]}
    alone, found = (sweep({**SPEC, "locked": LOCKED, "search": further}) for further in ({}, same))
    assert (found.plans_tried, found.best, found.pareto) == (alone.plans_tried, alone.best, alone.pareto)


def test_speed_is_plans_over_seconds(found):
    assert found.plans_per_s == pytest.approx(found.plans_tried / found.seconds)


def test_objectives_choose_their_own_best():
    memory = sweep({**SPEC, "locked": LOCKED, "objective": "memory"})
    assert memory.best[0].peak_bytes == min(item.peak_bytes for item in memory.pareto)
    cost = sweep({**SPEC, "locked": LOCKED, "objective": "cost"})
    assert cost.best[0].cost_chip_s == min(item.cost_chip_s for item in cost.pareto)


def test_limits_leave_out_what_is_beyond_them(found):
    middle = sorted(item.reserved_bytes for item in found.best)[len(found.best) // 2]
    limited = sweep({**SPEC, "locked": LOCKED, "limits": {"memory_bytes": middle}})
    assert limited.plans_tried == found.plans_tried
    assert 0 < limited.plans_fitting < found.plans_fitting
    assert all(item.reserved_bytes <= middle for item in limited.best)
    hurried = sweep({**SPEC, "locked": LOCKED, "limits": {"max_step_time_s": found.best[2].step_time_s}})
    assert hurried.plans_fitting >= 3
    assert {item.step_time_s for item in hurried.best} <= {item.step_time_s for item in found.best}
    assert sweep({**SPEC, "locked": LOCKED, "limits": {"max_step_time_s": 1e-12}}).best == ()


def test_locked_axes_keep_their_value():
    locked = sweep({**SPEC, "locked": {"tp": 2, "sharding": "zero1", "micro_batch": 2}})
    assert locked.plans_tried > 0
    for item in locked.best:
        assert (item.scenario["plan"]["tp"], item.scenario["plan"]["sharding"]) == (2, "zero1")
        assert item.scenario["plan"]["micro_batch"] == 2


def test_a_lock_that_no_plan_meets_is_refused_with_its_reason():
    with pytest.raises(InputProblems, match=r"locked.dp: dp = 3 does not divide 4 chips"):
        sweep({**SPEC, "locked": {"dp": 3}})


def test_every_field_of_a_plan_may_be_locked():
    locked = {"offload": "none", "bucket_bytes": 1000, "overlap": False, "ddp_mode": "flat", "schedule": "gpipe",
              "recompute": "full", "recompute_every": 2, "cp": 1, "tp_kind": "1d"}  # fmt: skip
    found = sweep({**SPEC, "locked": locked})
    assert found.plans_tried > 0
    for item in found.best:
        plan = scenario_from_json(item.scenario).plan
        assert {name: getattr(plan, name) for name in locked} == locked


def test_all_axes_are_searched():
    found = sweep({**SPEC, "model": {**LLAMA, "layers": 8}})
    assert found.plans_tried > sweep({**SPEC, "model": {**LLAMA, "layers": 8}, "locked": LOCKED}).plans_tried
    assert found.best[0].step_time_s > 0


def test_what_recomputation_keeps_of_products_that_run_in_steps_is_searched():
    training = {**SPEC["training"], "framework": "torchtitan"}
    locked = {"tp": 4, "tp_kind": "2d", "recompute": "selective"}
    best = sweep({**SPEC, "training": training, "locked": locked}).best
    assert best
    for item in best:
        alone = estimate(scenario_from_json(item.scenario), interval=False)
        assert alike((item.step_time_s, item.peak_bytes), (alone.step_time_s, alone.memory.peak_bytes))


def test_experts_are_searched():
    found = sweep({**SPEC, "model": MIXTRAL, "locked": {"ep": 4, "dp": 4}})
    assert found.plans_tried > 0
    assert {item.scenario["plan"]["ep"] for item in found.best} == {4}


def test_best_is_at_most_ten_and_in_order(found):
    assert len(found.best) == 10
    assert len({str(item.scenario["plan"]) for item in found.best}) == 10


def test_a_space_too_large_names_what_to_lock(monkeypatch):
    monkeypatch.setattr("estimator.search.sweep.MAX_PLANS", 100)
    with pytest.raises(InputProblems) as caught:
        sweep(SPEC)
    (problem,) = caught.value.problems
    assert problem.field == "locked"
    assert "100" in problem.message
    assert "Lock" in problem.remedy


def test_shapes_too_many_to_price_name_what_to_lock(monkeypatch):
    monkeypatch.setattr("estimator.search.space.MAX_SHAPES", 20)
    with pytest.raises(InputProblems, match=r"more than 20 .* Lock a field") as caught:
        sweep(SPEC)
    assert caught.value.problems[0].field == "locked"


def test_progress_is_heard_while_plans_are_still_listed_and_ends_the_search():
    heard = []

    def listen(tried: int, fitting: int) -> None:
        heard.append(tried)
        if len(heard) == 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(SPEC, None, listen)
    assert heard == [0] * 50


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
        ({"locked": {"offload": "optimizer"}}, "locked.offload"),
        ({"cluster": {"chip": "v100-32gb"}}, "training.precision"),
        ({"model": {**LLAMA, "kv_heads": 3}}, "model.kv_heads"),
        ({"locked": {"placement": "tp-dp"}}, "locked.placement"),
        ({"locked": {"overlap": 1}}, "locked.overlap"),
        ({"locked": []}, "locked"),
        ({"search": {"overlap": [1]}}, "search.overlap"),
        ({"search": {"recompute_every": [33]}}, "search.recompute_every"),
        ({"search": {"offload": ["both"]}}, "search.offload"),
        ({"locked": {"ddp_mode": "flat"}, "search": {"ddp_mode": "all"}}, "search.ddp_mode"),
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


def test_cells_of_a_grid_hold_the_best_of_their_values_and_plans_their_intervals():
    axes = ["sharding", "tp"]
    here = sweep({**SPEC, "locked": LOCKED, "grid": axes})
    cells = {cell.values: cell.found for cell in here.grid}
    every = brute_force()
    for values in {tuple(plan[name] for name in axes) for plan, _, _ in every}:
        own = [seconds for plan, seconds, _ in every if tuple(plan[name] for name in axes) == values]
        assert cells[values].step_time_s == pytest.approx(min(own))
        assert all(getattr(scenario_from_json(cells[values].scenario).plan, name) == value
                   for name, value in zip(axes, values, strict=True))  # fmt: skip
    assert min(cell.step_time_s for cell in cells.values()) == pytest.approx(here.best[0].step_time_s)
    for one in here.best[:2]:
        assert one.interval_s == estimate(scenario_from_json(one.scenario)).interval_s
        assert one.interval_s[0] < one.step_time_s < one.interval_s[1]
    with pytest.raises(InputProblems, match="grid"):
        sweep({**SPEC, "grid": ["tp", "no_such_field"]})
