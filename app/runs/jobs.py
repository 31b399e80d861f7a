"""Jobs: what a person asks to be measured, checked and written so that it needs no catalogue to run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from app.settings import Settings
from app.this_cpu import ThisCpu
from estimator.estimate.estimate import estimate
from estimator.scenario.codec import decode
from estimator.scenario.hardware import Cluster
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import Scenario, scenario_from_json, scenario_to_json
from estimator.scenario.units import bytes_text, counted
from runners.backends import backend
from runners.backends.local import gpu_count
from runners.job import Job
from runners.options import options_of
from runners.placement import Placement
from runners.processor import cpu_memory_bytes
from runners.refusals import grid_refusals, rank_refusals, refusals

MOST_JOBS = 1000
"""In one array; Slurm's own default limit."""


def job_from_json(document: object, cpu: ThisCpu, settings: Settings | None = None) -> Job:
    """Read a job, its scenario with every name replaced by what it names; raise InputProblems.

    Where ``world_size`` is left out, there is one process for each chip of the scenario; where ``placement.nodes`` is,
    a queue gives as many nodes as the scenario has. Other gaps are the server's to fill: the time limit of a run here
    (a partition has its own), and what a queue is asked for.
    """
    job = _with_defaults(decode(Job, document), document, settings)
    chosen = backend(job.backend)
    options = options_of(job.benchmark, job.options)
    problems = grid_refusals(options, job.scenario)
    if _needs_no_scenario(job):
        problems += rank_refusals(job.benchmark, options, job.world_size) + chosen.problems(job)
        if problems:
            raise InputProblems(problems)
        return job
    try:
        cpu.refuse_unprobed(job.scenario)
        scenario = scenario_from_json(job.scenario)
        job = dataclasses.replace(job, scenario=scenario_to_json(scenario))
        cluster = scenario.cluster
        if isinstance(document, Mapping) and "world_size" not in document:
            job = dataclasses.replace(job, world_size=cluster.chips)
        job = _placed(job, document, cluster)
        if job.benchmark == "step":
            # A GPU may be there for the processes that are not this one; the worker asks again
            cuda = job.device != "cpu" and cluster.chip.kind != "cpu"
            found = refusals(scenario, world_size=scenario.plan.chips, cuda=cuda, options=options)
            found = found or _too_large(scenario, job)
            problems += [dataclasses.replace(problem, field=f"scenario.{problem.field}") for problem in found]
        found = chosen.problems(job)
        problems += found
        if job.world_size != cluster.chips and not any(problem.field == "world_size" for problem in found):
            message = (
                f"{counted(job.world_size, 'process', 'processes')} for a scenario of {counted(cluster.chips, 'chip')}"
            )
            remedy = f"Set world_size to {cluster.chips}, or change the scenario's plan and cluster."
            problems.append(Problem(field="world_size", message=message, remedy=remedy))
    except InputProblems as error:
        problems += [dataclasses.replace(found, field=f"scenario.{found.field}") for found in error.problems]
    if problems:
        raise InputProblems(problems)
    return job


def jobs_from_json(document: object, cpu: ThisCpu, settings: Settings | None = None) -> list[Job]:
    """Read one job, or a list of jobs that make one array; raise InputProblems."""
    if not isinstance(document, list):
        return [job_from_json(document, cpu, settings)]
    if not 1 <= len(document) <= MOST_JOBS:
        message, remedy = f"{len(document)} jobs", f"Give 1 to {MOST_JOBS}."
        raise InputProblems([Problem(field="jobs", message=message, remedy=remedy)])
    jobs, problems = [], []
    for index, one in enumerate(document):
        try:
            jobs.append(job_from_json(one, cpu, settings))
        except InputProblems as error:
            problems += [dataclasses.replace(found, field=f"[{index}].{found.field}") for found in error.problems]
    for name in sorted({job.backend for job in jobs if not backend(job.backend).ARRAYS}):
        remedy = "Choose backend slurm, or launch them one by one."
        problems.append(Problem(field="jobs", message=f"the {name} backend has no arrays", remedy=remedy))
    if problems:
        raise InputProblems(problems)
    return jobs


def named(job: Job, run_id: str) -> Job:
    """Give a job without a label one that is the same wherever the run is shown, and tells it from its retries."""
    model = job.scenario.get("model")
    name = model.get("name") if isinstance(model, Mapping) else model
    start = " ".join(filter(None, (job.benchmark, str(name or ""))))
    if job.label and not re.fullmatch(re.escape(start) + r" [0-9a-f]{6}", job.label):
        return job
    return dataclasses.replace(job, label=f"{start} {run_id[-6:]}")


def _needs_no_scenario(job: Job) -> bool:
    """Benchmarks of many rows take shapes from their options; a step does where these name models."""
    return not job.scenario and (job.benchmark != "step" or bool(job.options.get("models")))


def _with_defaults(job: Job, document: object, settings: Settings | None) -> Job:
    if settings is None:
        return job
    given = document.get("placement", {}) if isinstance(document, Mapping) else {}
    if backend(job.backend).QUEUES:
        return dataclasses.replace(job, placement=decode(Placement, {**settings.placement, **given}, "placement"))
    threads = {"cpus_per_process": settings.placement.get("cpus_per_process", 0)}  # all that holds without a scheduler
    placement = decode(Placement, {**threads, **given}, "placement")
    return dataclasses.replace(job, time_limit_s=job.time_limit_s or settings.run_limit_s, placement=placement)


def _placed(job: Job, document: object, cluster: Cluster) -> Job:
    """Spread a job over the scenario's nodes, with GPUs where its chips are none of a CPU, unless it says otherwise."""
    if not backend(job.backend).QUEUES:
        return job
    asked = document.get("placement", {}) if isinstance(document, Mapping) else {}
    nodes = job.placement.nodes if "nodes" in asked else cluster.nodes
    on_cpu = job.device == "cpu" or (job.device == "auto" and cluster.chip.kind == "cpu")
    gpus = 0 if on_cpu and job.placement.gpus_per_node is None else job.placement.gpus_per_node
    return dataclasses.replace(job, placement=dataclasses.replace(job.placement, nodes=nodes, gpus_per_node=gpus))


def _too_large(scenario: Scenario, job: Job) -> list[Problem]:
    """Refuse a run on the CPU that would take more than the machine's memory: there, nobody stops it in time."""
    if backend(job.backend).QUEUES or job.device == "cuda" or (job.device == "auto" and gpu_count()):
        return []
    needed = estimate(scenario, interval=False, explained=False).memory.peak_bytes * job.world_size
    memory = cpu_memory_bytes()
    if needed <= memory:
        return []
    who = "the run needs" if job.world_size == 1 else f"{job.world_size} processes need"
    message = f"{who} about {bytes_text(needed)}, this machine has {bytes_text(memory)}"
    remedy = "Choose a smaller model, micro_batch or seq_len, or measure on a GPU."
    return [Problem(field="plan.micro_batch", message=message, remedy=remedy)]
