"""A job as asked for becomes a job that needs no catalogue, or problems that name its fields."""

from __future__ import annotations

import dataclasses

import pytest

from app.disk import DataFolder
from app.runs.jobs import job_from_json, jobs_from_json, named
from app.this_cpu import ThisCpu
from estimator.scenario.codec import encode
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json
from runners.backends import local
from runners.placement import Placement
from tests.app.examples import LLAMA as SHARDED
from tests.app.examples import SCENARIO, scenario

LLAMA = {**SHARDED, "plan": {**SHARDED["plan"], "sharding": "ddp"}}


@pytest.fixture
def cpu(tmp_path):
    return ThisCpu(DataFolder(tmp_path), 1.0, enabled=False)


def test_names_are_replaced_by_what_they_name(cpu):
    job = job_from_json({"scenario": LLAMA, "device": "cuda", "backend": "slurm"}, cpu)
    assert job.scenario["model"]["layers"] == 32
    assert job.scenario["cluster"]["chip"]["name"] == "h200-sxm"
    assert scenario_from_json(job.scenario) == scenario_from_json(LLAMA)
    assert job_from_json(encode(job), cpu) == job, "what was stored can be retried"


def test_one_process_for_each_chip(cpu):
    assert job_from_json({"scenario": SCENARIO}, cpu).world_size == 1
    cluster = {"scenario": LLAMA, "device": "cuda", "backend": "slurm"}
    assert job_from_json(cluster, cpu).world_size == 8
    with pytest.raises(InputProblems, match="world_size: 4 processes for a scenario of 8 chips"):
        job_from_json({**cluster, "world_size": 4}, cpu)
    many = scenario(plan__dp=2048, cluster__nodes=256, cluster__chips_per_node=8, training__global_batch=2048)
    with pytest.raises(InputProblems, match="world_size: 2048 processes are too many"):
        job_from_json({"scenario": many}, cpu)
    assert job_from_json({"scenario": many, "backend": "slurm"}, cpu).placement.nodes == 256


def test_a_gpu_is_asked_for_where_there_is_one(cpu, monkeypatch):
    monkeypatch.setattr(local, "gpu_count", lambda: 0)
    with pytest.raises(InputProblems, match=r"device: this machine has no GPU\. Choose device auto or cpu, or backend"):
        job_from_json({"scenario": SCENARIO, "device": "cuda"}, cpu)
    job = job_from_json({"scenario": SCENARIO, "device": "cuda", "backend": "slurm"}, cpu)
    assert job.placement.gpus_per_node is None, "one for each process, the scheduler's matter"
    on_cpu = job_from_json({"scenario": SCENARIO, "backend": "slurm", "device": "cpu"}, cpu)
    assert on_cpu.placement.gpus_per_node == 0


def test_the_server_says_what_the_job_leaves_open(cpu, settings):
    settings = settings.model_copy(update={"placement": {"partition": "long", "account": "lab"}, "run_limit_s": 90.0})
    asked = {"scenario": SCENARIO, "backend": "slurm", "device": "cpu", "placement": {"partition": "short"}}
    job = job_from_json(asked, cpu, settings)
    assert (job.placement.partition, job.placement.account, job.time_limit_s) == ("short", "lab", 0.0), (
        "the queue has a limit of its own"
    )
    assert job_from_json({**asked, "time_limit_s": 5}, cpu, settings).time_limit_s == 5.0
    local = job_from_json({"scenario": SCENARIO, "device": "cpu"}, cpu, settings)
    assert (local.placement.partition, local.time_limit_s) == ("", 90.0)
    settings = settings.model_copy(update={"placement": {"partition": "long", "cpus_per_process": 3}})
    local = job_from_json({"scenario": SCENARIO}, cpu, settings)
    assert local.placement == Placement(cpus_per_process=3), "threads are shared out without a scheduler too"


def test_benchmarks_of_many_rows_need_no_scenario(cpu):
    job = job_from_json({"benchmark": "collectives", "device": "cpu", "world_size": 2}, cpu)
    assert (job.scenario, job.world_size) == ({}, 2)
    with pytest.raises(InputProblems, match="options"):
        job_from_json({"benchmark": "collectives", "options": {"colour": "red"}}, cpu)


def test_a_grid_beside_a_scenario_is_refused(cpu):
    with pytest.raises(InputProblems, match=r"^options\.models: a grid takes its models"):
        job_from_json({"scenario": SCENARIO, "options": {"models": ["tiny"]}}, cpu)


@pytest.mark.parametrize("benchmark", ["step", "memory", "ddp"])
def test_a_model_among_the_options_that_there_is_none_of_is_refused_before_anything_starts(cpu, benchmark):
    job = {"benchmark": benchmark, "device": "cpu"}
    with pytest.raises(InputProblems) as caught:
        job_from_json({**job, "options": {"models": ["lama3-8b", "gpt2", "tiny", "lama3-8b"]}}, cpu)
    (problem,) = caught.value.problems
    assert problem.field == "options.models"
    assert problem.message.startswith("'lama3-8b' is not in the catalogue")
    assert problem.remedy.startswith("Did you mean llama3-8b")
    assert job_from_json({**job, "options": {"models": ["gpt2", "tiny"]}}, cpu).options == {"models": ["gpt2", "tiny"]}


def test_problems_of_the_options_name_them_beside_a_scenario_too(cpu):
    with pytest.raises(InputProblems, match=r"^options\.colour: unknown key"):
        job_from_json({"scenario": SCENARIO, "options": {"colour": "red"}}, cpu)
    with pytest.raises(InputProblems, match=r"^options\.models: 'foo' is not in the catalogue"):
        job_from_json({"benchmark": "memory", "scenario": SCENARIO, "options": {"models": ["foo"]}}, cpu)


def test_a_list_of_jobs_is_an_array_and_names_the_job_of_each_problem(cpu):
    good = {"scenario": SCENARIO, "backend": "slurm", "device": "cpu"}
    assert len(jobs_from_json([good, good], cpu)) == 2
    with pytest.raises(InputProblems, match=r"\[1\]\.backend: 'cloud' is not known"):
        jobs_from_json([good, {**good, "backend": "cloud"}], cpu)
    with pytest.raises(InputProblems, match="the local backend has no arrays"):
        jobs_from_json([good, {**good, "backend": "local"}], cpu)
    with pytest.raises(InputProblems, match="jobs: 0 jobs"):
        jobs_from_json([], cpu)


def test_a_job_without_a_label_gets_one_and_a_retry_another(cpu):
    job = job_from_json({"scenario": SCENARIO, "device": "cpu"}, cpu)
    first = named(job, "20260101-000000-000-abcdef")
    assert first.label.startswith("step ")
    assert first.label.endswith(" abcdef")
    assert named(first, "20260101-000000-000-123456").label == first.label.replace("abcdef", "123456")
    mine = dataclasses.replace(job, label="mine abcdef")
    assert named(mine, "20260101-000000-000-123456") == mine


def test_what_the_runner_cannot_measure_is_refused_before_anything_starts(cpu):
    with pytest.raises(InputProblems, match=r"scenario.plan.offload: 'optimizer' is not measured by step. Set"):
        job_from_json({"scenario": scenario(plan__offload="optimizer")}, cpu)


def test_a_run_that_needs_more_than_the_machines_memory_is_refused_on_a_cpu(cpu):
    with pytest.raises(InputProblems, match=r"scenario.plan.micro_batch: 8 processes need about \d+ \w+, this machine"):
        job_from_json({"scenario": LLAMA, "device": "cpu"}, cpu)


def test_the_memory_of_a_cpu_is_what_its_control_group_leaves(cpu, monkeypatch):
    monkeypatch.setattr("app.runs.jobs.cpu_memory_bytes", lambda: 1e6)
    with pytest.raises(InputProblems, match=r"the run needs about .+, this machine has 1 MB"):
        job_from_json({"scenario": SCENARIO, "device": "cpu"}, cpu)


def test_problems_of_the_scenario_name_its_fields_inside_the_job(cpu):
    with pytest.raises(InputProblems) as caught:
        job_from_json({"scenario": scenario(plan__tp=3, plan__dp=5)}, cpu)
    assert {problem.field for problem in caught.value.problems} >= {"scenario.plan.tp", "scenario.plan.dp"}
    with pytest.raises(InputProblems, match="backend: 'cloud' is not known"):
        job_from_json({"scenario": SCENARIO, "backend": "cloud"}, cpu)
