"""What plans take of a host: small models in turns on two H200 (benchmarks/host_plans.py), beside their price."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.host_plans import compared, scenario_of
from estimator.cost.efficiency import efficiencies
from estimator.estimate.estimate import estimate

MEASURED = Path(__file__).parents[2] / "reference" / "h200_host_plans.json"
E = efficiencies("hopper")
ROWS = list(compared(MEASURED, E))


def ratio(phase: str, **chosen: str) -> float:
    """Predicted over measured seconds of all rows chosen together."""
    rows = [(found, made) for row, found, made in ROWS if all(row[key] == value for key, value in chosen.items())]
    assert rows
    return sum(made[phase] for _, made in rows) / sum(found[phase] for found, _ in rows)


@pytest.mark.parametrize("precision", ["bf16", "bf16-amp", "tf32"])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_steps_of_one_rank_take_their_host_what_is_priced(recompute, precision):
    for phase, off in (("step", 0.08), ("forward", 0.08), ("backward", 0.09)):
        assert ratio(phase, plan="alone", recompute=recompute, precision=precision) == pytest.approx(1.0, abs=off)


def test_an_update_keeps_waiting_for_a_host_that_has_slept_through_backward():
    assert ratio("optimizer", plan="alone") == pytest.approx(1.0, abs=0.1)
    awake = list(compared(MEASURED, replace(E, host_optimizer_s=0.0)))
    alone = [(found["optimizer"], made["optimizer"]) for row, found, made in awake if row["plan"] == "alone"]
    assert sum(made for _, made in alone) < 0.5 * sum(found for found, _ in alone)


@pytest.mark.parametrize("plan", ["ddp", "zero1", "zero2", "zero3", "fsdp", "tp", "tp-sequence", "ulysses", "pp-1f1b"])
def test_steps_of_every_plan_are_within_what_hosts_differ_by(plan):
    assert ratio("step", plan=plan) == pytest.approx(1.0, abs=0.16)


@pytest.mark.parametrize("model", ["llama3.2-1b", "mpt-125m"])
def test_zero_bubble_runs_a_recomputed_block_again_for_each_of_its_weights(model):
    chosen = {"plan": "pp-zero-bubble", "model": model}
    assert ratio("step", recompute="full", **chosen) == pytest.approx(1.0, abs=0.1)
    full = [row for row, _, _ in ROWS if row["recompute"] == "full" and all(row[k] == v for k, v in chosen.items())]
    times = [
        estimate(scenario_of(row), E).step_time_s / estimate(scenario_of({**row, "recompute": "none"}), E).step_time_s
        for row in full
    ]
    measured = [
        statistics.fmean(found["step"] for row, found, _ in ROWS
                         if row["recompute"] == one and all(row[k] == v for k, v in chosen.items()))
        for one in ("full", "none")
    ]  # fmt: skip
    assert statistics.fmean(times) == pytest.approx(measured[0] / measured[1], rel=0.2)
    assert min(times) > 3.0, "a recomputed block costs one forward more in other schedules, here ten"


@pytest.mark.parametrize("schedule", ["zero-bubble", "zero-bubble-v"])
def test_what_runs_again_for_each_weight_is_in_the_categories_of_a_step(schedule):
    row = {"plan": "pp-zero-bubble", "model": "llama3.2-1b", "precision": "bf16", "attention": "sdpa",
           "recompute": "full", "layers": 8, "ranks": 2}  # fmt: skip
    one = scenario_of(row)
    chunks = 2 if schedule == "zero-bubble-v" else 1
    found = estimate(replace(one, plan=replace(one.plan, schedule=schedule, virtual_stages=chunks)), E)
    assert sum(found.breakdown_s.values()) == pytest.approx(found.step_time_s)
