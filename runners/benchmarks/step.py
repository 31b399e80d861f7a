"""The ``step`` benchmark: a training step timed by phase, its memory, and one profiled step by kernel."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from estimator.scenario.breakdown import WORK_PHASES, Phase
from estimator.scenario.hardware import peak_flops_per_s
from estimator.scenario.measurement import Kernel, MeasuredMemory, Measurement, Origin, Warning, as_asked
from estimator.scenario.parameters import model_flops_per_token
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import Scenario, scenario_from_json, scenario_to_json
from runners.allocation import allocator_peaks, memory, resident_peak_bytes
from runners.benchmarks import grid
from runners.clocks import clocks
from runners.environment import bound_bytes, device, environment, other_chip
from runners.guard import heartbeat
from runners.job import SNAPSHOT_FILE, Job, progress
from runners.load import busy_machine, load_since, moment
from runners.options import StepOptions, options_of
from runners.ranks import Ranks, gather, join, leave
from runners.refusals import refusals
from runners.row_status import is_out_of_memory
from runners.snapshot import record
from runners.summary import (
    Sample,
    communication_by_rank,
    exposed_by_phase,
    exposed_communication_s,
    host_bound,
    phases_and_breakdown,
    phases_with_waiting,
    slowest,
    spread,
)
from runners.timed_step import samples_by_rank, timed_steps
from runners.trace.profile import profile
from runners.trace.reduced import Reduced
from runners.train_step import Trainer, capture, one_step, prepare

DEFINITIONS = {
    "steps_s": "from an idle device to the end of zero_grad, the slowest rank of each step",
    "ranks": "by rank and step; a phase is the time between events on the device (on a CPU between clock readings), "
    "its waiting for the host included; optimizer includes zero_grad",
    "phases_s": "medians over steps of the mean over ranks, scaled to add to the median step; what the profiled step "
    "shows the device to be idle in a phase is taken out of it and is host_wait",
    Phase.EXPOSED_COMMUNICATION: "under DDP median step with gradient all-reduce minus median step under no_sync, not "
    "below zero, taken out of backward; under other plans the mean over ranks of the seconds of the profiled step in "
    "which communication ran and nothing else did, taken out of the phase that launched it",
    "communication": "of the profiled step by rank: seconds of its kernels, and by phase those in which nothing else "
    "ran; waiting for other ranks is in both, least in the rank that comes last, hence the minimum",
    Phase.BUBBLE: "of a pipeline: time between the chunks of a rank's schedule, waiting for other stages and sending",
    "load": "processors that other programs kept busy while steps were measured",
    "host_paces_s": "seconds of an op on a host tensor of 64 numbers, before each step: how fast this host was",
    "host_backward_paces_s": "the same in the thread in which autograd works backward, which runs on another core",
    "host_paces_by_rank_s, host_backward_paces_by_rank_s": "both of every rank",
    "throughput": "rates at the median step; model FLOPs are 6 per matrix weight and token and 12·layers·width·length, "
    "a forward alone a third; mfu_frac is their share of the chip's dense peak; kernel FLOPs are of the profiled step",
    "breakdown_s": "busy time by category of one profiled step without communication; communication is the exposed "
    "one; host is what remains of the median step",
    "kernels": "one profiled step, with communication; on a CPU the self times of ATen ops",
    "memory": "GPU: peak of the caching allocator; CPU: peak of live tensors as PyTorch's MemTracker counts them",
}

Report = Callable[[dict[str, Any]], None]


def run(job: Job, report: Report, trace: Path | None = None) -> Measurement | None:
    """Measure the job's scenario here, as ``measured`` does; raises InputProblems for what cannot be measured."""
    options: StepOptions = options_of("step", job.options)
    if options.models:
        return grid.run(job, report)
    scenario = scenario_from_json(as_asked(job.scenario, job.options))
    ranks = join(job.device)
    found = cannot(scenario, ranks, options)
    if options.snapshot and trace is None:
        remedy = "Say where, with --trace: the snapshot lands beside it."
        found.append(Problem(field="options.snapshot", message="has no place to go", remedy=remedy))
    if found:
        raise InputProblems(found)

    def more(measurement: Measurement, trainer: Trainer) -> Measurement:
        if not options.snapshot or trace is None:
            return measurement
        return replace(measurement, warnings=(*measurement.warnings, *_snapshot(trainer, trace)))

    blank = blank_of(scenario, ranks, job.label)
    return measured(blank, job, report, ranks, lambda: prepared(scenario, ranks, job.seed, options), trace, more)


def measured(
    blank: Measurement, job: Job, report: Report, ranks: Ranks, build: Callable[[], Trainer], trace: Path | None,
    more: Callable[[Measurement, Trainer], Measurement],
) -> Measurement | None:  # fmt: skip
    """Build what is measured, time and profile it, and add what ``more`` knows; on rank 0 return it, on others None.

    Out of memory is a result too, returned by whichever rank met it.
    """
    stage = "build"

    def tell(phase: str, step: int, steps: int, step_s: float | None = None) -> None:
        nonlocal stage
        stage = phase
        heartbeat.alive()
        if ranks.rank == 0:
            report(progress(phase, step, steps, step_s))

    trainer = None
    try:
        tell("build", 0, 1)
        trainer = build()
        tell("build", 1, 1)
        found = more(profiled(blank, trainer, timed(trainer, job, tell), job, tell, trace), trainer)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return out_of_memory(blank, error, stage, trainer)
    leave(ranks)
    return found if ranks.rank == 0 else None


def cannot(scenario: Scenario, ranks: Ranks, options: StepOptions) -> list[Problem]:
    """List why this scenario cannot be measured here."""
    bound = bound_bytes(ranks.cuda)
    return refusals(scenario, world_size=ranks.world_size, cuda=ranks.cuda, options=options, memory_bytes=bound)


def blank_of(scenario: Scenario, ranks: Ranks, label: str) -> Measurement:
    """What is known of a result before anything is measured."""
    found_device = {**device(ranks.cuda), "count": ranks.world_size}
    return Measurement(
        label=label,
        origin=Origin(kind="run", format="step", producer="headroom runners", version=torch.__version__),
        device=found_device,
        world_size=ranks.world_size,
        rank=ranks.rank,
        scenario=scenario_to_json(scenario),
        environment=environment(ranks.cuda),
        warnings=tuple(other_chip(scenario.cluster.chip, found_device["kind"], found_device["name"])),
    )


def prepared(scenario: Scenario, ranks: Ranks, seed: int, options: StepOptions) -> Trainer:
    """Build what is measured, as the options say."""
    trainer = prepare(scenario, ranks, seed, mode=options.mode, graph=options.graph)
    if options.graph:
        capture(trainer)
    return trainer


def _snapshot(trainer: Trainer, trace: Path) -> list[Warning]:
    """Write the first rank's allocator snapshot of one more step beside the trace; a CPU has none."""
    if not trainer.ranks.cuda:
        message = "the allocator of a CPU keeps no history, so there is no snapshot"
        return [Warning(code="no_snapshot", message=message)]
    if trainer.ranks.rank == 0:
        record(lambda: one_step(trainer, lambda phase: None), trace.with_name(SNAPSHOT_FILE))
    else:
        one_step(trainer, lambda phase: None)  # the first rank's collectives wait for every other
    return []


@dataclass(frozen=True, kw_only=True)
class Timed:
    """What the clock tells of a step: samples by rank and step, with gradient exchange and without, and around them."""

    samples: list[list[Sample]]
    alone: list[list[Sample]]
    loss: float | None
    load: dict[str, float]
    peaks: dict[str, dict[str, float]]
    clocks: list[dict[str, float]]
    paces_s: list[float] = field(default_factory=list)
    backward_paces_s: list[float] = field(default_factory=list)


def timed(trainer: Trainer, job: Job, tell: Callable[..., None]) -> Timed:
    """Warm up, then time steps one by one, and on a GPU read the allocator's peaks of one more."""
    ranks = trainer.ranks
    silent = trainer.exchange is None and ranks.world_size > 1
    total = job.steps * (2 if silent else 1)
    began = clocks(ranks.cuda)
    timed_steps(trainer, "warmup", range(job.warmup), job.warmup, tell)
    before = moment()
    paces_s: list[tuple[float, float]] = []
    mine = timed_steps(trainer, "measure", range(job.steps), total, tell, paces_s=paces_s)
    samples = samples_by_rank(ranks, mine)
    loss = _loss(trainer)
    alone: list[list[Sample]] = []
    if silent:
        rest = range(job.steps, total)
        alone = samples_by_rank(ranks, timed_steps(trainer, "measure", rest, total, tell, communicate=False))
    load = load_since(before, ranks)
    peaks = allocator_peaks(trainer) if ranks.cuda else {}
    return Timed(
        samples=samples, alone=alone, loss=loss, load=load, peaks=peaks, clocks=[began, clocks(ranks.cuda)],
        paces_s=[own_s for own_s, _ in paces_s], backward_paces_s=[backward_s for _, backward_s in paces_s],
    )  # fmt: skip


def clocked(blank: Measurement, trainer: Trainer, found: Timed) -> Measurement:
    """What is known of a step before it is profiled: its times, its peak, how fast the host was; all ranks call it."""
    ranks = trainer.ranks
    used, _ = memory(trainer, found.peaks)
    every_peak = gather(ranks, [used.peak_bytes or 0.0])
    samples = {**_paces(ranks, found), "peak_bytes_by_rank": [row[0] or None for row in every_peak],
               "clocks": found.clocks}  # fmt: skip
    return replace(blank, steps_s=tuple(slowest(found.samples)), memory=used, samples={**blank.samples, **samples})


def _paces(ranks: Ranks, found: Timed) -> dict[str, Any]:
    return {
        "host_paces_s": found.paces_s,
        "host_backward_paces_s": found.backward_paces_s,
        "host_paces_by_rank_s": gather(ranks, found.paces_s),
        "host_backward_paces_by_rank_s": gather(ranks, found.backward_paces_s),
    }


def profiled(
    blank: Measurement, trainer: Trainer, found: Timed, job: Job, tell: Callable[..., None], trace: Path | None = None
) -> Measurement:
    """Profile a step, and put what it and the clock tell together."""
    ranks = trainer.ranks
    plain = trainer.exchange is None
    tell("profile", 0, 1)
    with_it = profile(trainer, keep=trace if ranks.rank == 0 else None)
    quiet = profile(trainer, communicate=False) if plain and ranks.world_size > 1 else with_it
    used, warnings = memory(trainer, found.peaks)
    tell("profile", 1, 1)
    rates = throughput(trainer, slowest(found.samples), with_it.kernels) if trainer.scenario is not None else {}
    return put_together(
        blank, ranks, job, found, with_it=with_it, quiet=quiet, used=used, warnings=warnings, plain=plain, rates=rates
    )


def put_together(
    blank: Measurement,
    ranks: Ranks,
    job: Job,
    found: Timed,
    *,
    with_it: Reduced,
    quiet: Reduced,
    used: MeasuredMemory,
    warnings: Sequence[Warning],
    plain: bool,
    rates: Mapping[str, Any],
) -> Measurement:
    """One Measurement of what the clock, the allocator and a profiled step tell; all ranks must call it.

    ``quiet`` is the profiled step without communication where there is one; ``plain`` says that the samples know what
    the exchange of gradients adds, else the profiled step does.
    """
    samples, alone = found.samples, found.alone
    warnings = list(warnings)
    every_peak = gather(ranks, [used.peak_bytes or 0.0])
    steps_s = slowest(samples)
    communication = communication_by_rank(ranks, with_it)
    exposed: float | dict[str, float] = exposed_communication_s(steps_s, slowest(alone))
    if not plain:
        exposed = exposed_by_phase(samples, communication, with_it)
    waiting = phases_with_waiting(samples, exposed)
    phases_s, breakdown_s = phases_and_breakdown(waiting, quiet)
    if not quiet.kernels:
        message = "the profiler saw no kernel, so work and waiting for the host cannot be told apart"
        warnings.append(Warning(code="no_kernels", message=message))
        phases_s, breakdown_s = waiting, {}
    elif ranks.cuda:
        warnings += host_bound(phases_s, communication if ranks.world_size > 1 else {})
    warnings += busy_machine(found.load)
    return replace(
        blank,
        steps_s=tuple(steps_s),
        phases_s=phases_s,
        breakdown_s=breakdown_s,
        kernels=with_it.kernels,
        timeline=with_it.timeline,
        memory=used,
        warnings=(*blank.warnings, *warnings),
        samples={
            "definitions": DEFINITIONS,
            "warmup": job.warmup,
            "seed": job.seed,
            "loss": found.loss,
            "spread": {"step": spread(steps_s)}
            | {phase: spread([s[phase] for rank in samples for s in rank]) for phase in WORK_PHASES},
            "communication": communication if ranks.world_size > 1 else {},
            "load": found.load,
            **_paces(ranks, found),
            "peak_bytes_by_rank": [row[0] or None for row in every_peak],
            "phases_with_waiting_s": waiting,
            "throughput": dict(rates),
            "clocks": found.clocks,
            "options": job.options,
            "ranks": samples,
            "ranks_without_communication": alone,
            "memory_by_phase": found.peaks,
            "resident_peak_bytes": resident_peak_bytes(),
        },
    )


def out_of_memory(blank: Measurement, error: BaseException, stage: str, trainer: Trainer | None) -> Measurement:
    """The result of a step for which memory was not enough, wherever it was met."""
    where = stage if trainer is None or trainer.phase == stage else f"{trainer.phase} ({stage})"
    message = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return replace(
        blank,
        status="oom",
        warnings=(*blank.warnings, Warning(code="oom", message=f"out of memory in {where}: {message}", where=where)),
        samples={"stage": stage, "phase": trainer.phase if trainer else stage},
    )


def _loss(trainer: Trainer) -> float | None:
    """Mean of the last loss over the ranks that have one."""
    mine = math.nan if trainer.loss is None else float(trainer.loss)
    told = [row[0] for row in gather(trainer.ranks, [mine]) if math.isfinite(row[0])]
    return statistics.fmean(told) if told else None


def throughput(trainer: Trainer, steps_s: list[float], kernels: Sequence[Kernel]) -> dict[str, float | None]:
    """Achieved rates at the median step: model FLOPs as PaLM counts them, and those of the kernels that tell theirs.

    MFU is of the peak of the scenario's chip at the scenario's precision; null where the run is on another device.
    """
    scenario, step_s = trainer.scenario, statistics.median(steps_s)
    assert scenario is not None
    share = {"forward": 1 / 3}.get(trainer.mode, 1.0)
    flops = share * model_flops_per_token(scenario.model, scenario.training.seq_len) * scenario.tokens
    known = [kernel.flops for kernel in kernels if kernel.flops is not None]
    found = device(trainer.ranks.cuda)
    chip = scenario.cluster.chip
    here = found["kind"] == chip.kind.replace("gpu", "cuda") and not other_chip(chip, found["kind"], found["name"])
    peak = peak_flops_per_s(chip, scenario.training.precision) * trainer.ranks.world_size
    return {
        "tokens_per_s": scenario.tokens / step_s,
        "model_flops": flops,
        "model_flops_per_s": flops / step_s,
        "kernel_flops_per_rank": sum(known) if known else None,
        "mfu_frac": flops / step_s / peak if here and peak > 0 else None,
    }
