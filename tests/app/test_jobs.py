"""A job as asked for becomes a job that needs no catalogue, or problems that name its fields."""

from __future__ import annotations

import pytest

from app.disk import DataFolder
from app.jobs import job_from_json
from app.this_cpu import ThisCpu
from estimator.problems import InputProblems
from estimator.scenario import scenario_from_json
from tests.app.examples import LLAMA as SHARDED
from tests.app.examples import SCENARIO, scenario

LLAMA = {**SHARDED, "plan": {**SHARDED["plan"], "sharding": "ddp"}}


@pytest.fixture
def cpu(tmp_path):
    return ThisCpu(DataFolder(tmp_path), 1.0, enabled=False)


def test_names_are_replaced_by_what_they_name(cpu):
    job = job_from_json({"scenario": LLAMA, "device": "cuda"}, cpu)
    assert job.scenario["model"]["layers"] == 32
    assert job.scenario["cluster"]["chip"]["name"] == "h200-sxm"
    assert scenario_from_json(job.scenario) == scenario_from_json(LLAMA)
    assert job_from_json({"scenario": job.scenario, "device": "cuda", "world_size": 8}, cpu) == job, (
        "what was stored can be retried"
    )


def test_one_process_for_each_chip(cpu):
    assert job_from_json({"scenario": SCENARIO}, cpu).world_size == 1
    assert job_from_json({"scenario": LLAMA, "device": "cuda"}, cpu).world_size == 8
    with pytest.raises(InputProblems, match="world_size: 4 processes for a scenario of 8 chips"):
        job_from_json({"scenario": LLAMA, "device": "cuda", "world_size": 4}, cpu)
    many = scenario(plan__dp=2048, cluster__nodes=256, cluster__chips_per_node=8, training__global_batch=2048)
    with pytest.raises(InputProblems, match="world_size: 2048 processes are too many"):
        job_from_json({"scenario": many}, cpu)


def test_what_the_runner_cannot_measure_is_refused_before_anything_starts(cpu):
    with pytest.raises(InputProblems, match=r"scenario.plan.sharding: 'fsdp' is not measured yet. Set"):
        job_from_json({"scenario": SHARDED}, cpu)


def test_a_run_that_needs_more_than_the_machines_memory_is_refused_on_a_cpu(cpu):
    with pytest.raises(InputProblems, match=r"scenario.plan.micro_batch: 8 processes need about \d+ \w+, this machine"):
        job_from_json({"scenario": LLAMA, "device": "cpu"}, cpu)


def test_problems_of_the_scenario_name_its_fields_inside_the_job(cpu):
    with pytest.raises(InputProblems) as caught:
        job_from_json({"scenario": scenario(plan__tp=3, plan__dp=5)}, cpu)
    assert {problem.field for problem in caught.value.problems} >= {"scenario.plan.tp", "scenario.plan.dp"}
    with pytest.raises(InputProblems, match="backend: 'cloud' is not known"):
        job_from_json({"scenario": SCENARIO, "backend": "cloud"}, cpu)
