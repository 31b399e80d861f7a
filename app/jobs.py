"""Jobs: what a person asks to be measured, checked and written so that it needs no catalogue to run."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from app.this_cpu import ThisCpu
from estimator.codec import decode
from estimator.estimate import estimate
from estimator.problems import InputProblems, Problem
from estimator.scenario import Scenario, scenario_from_json, scenario_to_json
from estimator.units import bytes_text
from runners.backends import backend
from runners.job import Job
from runners.refusals import refusals

MOST_PROCESSES = {"local": 64}
"""How many processes one run may start; one machine has at most a handful of GPUs."""


def job_from_json(document: object, cpu: ThisCpu) -> Job:
    """Read a job, its scenario with every name replaced by what it names; raise InputProblems.

    Where ``world_size`` is left out, there is one process for each chip of the scenario.
    """
    job = decode(Job, document)
    backend(job.backend)
    problems: list[Problem] = []
    try:
        cpu.refuse_unprobed(job.scenario)
        scenario = scenario_from_json(job.scenario)
        job = dataclasses.replace(job, scenario=scenario_to_json(scenario))
        chips = scenario.cluster.chips
        if isinstance(document, Mapping) and "world_size" not in document:
            job = dataclasses.replace(job, world_size=chips)
        if job.benchmark == "step":
            # A GPU may be there for the processes that are not this one; the worker asks again
            cuda = job.device != "cpu" and scenario.cluster.chip.kind != "cpu"
            found = refusals(scenario, world_size=scenario.plan.dp, cuda=cuda)
            found = found or _too_large(scenario, job)
            problems += [dataclasses.replace(problem, field=f"scenario.{problem.field}") for problem in found]
        most = MOST_PROCESSES.get(job.backend, job.world_size)
        if job.world_size > most:
            message = f"{job.world_size} processes are too many for the {job.backend} backend"
            remedy = f"Choose a scenario of at most {most} chips."
            problems.append(Problem(field="world_size", message=message, remedy=remedy))
        elif job.world_size != chips:
            message = f"{job.world_size} processes for a scenario of {chips} chips"
            remedy = f"Set world_size to {chips}, or change the scenario's plan and cluster."
            problems.append(Problem(field="world_size", message=message, remedy=remedy))
    except InputProblems as error:
        problems += [dataclasses.replace(found, field=f"scenario.{found.field}") for found in error.problems]
    if problems:
        raise InputProblems(problems)
    return job


def _too_large(scenario: Scenario, job: Job) -> list[Problem]:
    """Refuse a run on the CPU that would take more than the machine's memory: there, nobody stops it in time."""
    if job.device == "cuda" or (job.device == "auto" and _has_gpu()):
        return []
    needed = estimate(scenario, interval=False).memory.peak_bytes * job.world_size
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed <= memory:
        return []
    message = f"{job.world_size} processes need about {bytes_text(needed)}, this machine has {bytes_text(memory)}"
    remedy = "Choose a smaller model, micro_batch or seq_len, or measure on a GPU."
    return [Problem(field="plan.micro_batch", message=message, remedy=remedy)]


def _has_gpu() -> bool:
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/kfd").exists()
