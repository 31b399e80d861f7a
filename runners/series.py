"""Series: many steps in one group of processes, a result for each: ``python -m runners series LIST.json``.

An entry is a scenario, or a model of transformers or of a factory (``runners/series_list.py``), and how it is trained.

Starting processes and importing torch takes longer than most steps; one group of ranks measures them all. Every result
is on disk before the next scenario begins: what is there already is left alone, so that a series that was ended goes on
where it was. All are timed first and profiled afterwards, because a profiler slows what runs after it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

from estimator.scenario.codec import encode
from estimator.scenario.measurement import Kernel, Measurement, Warning, as_asked
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json
from estimator.scenario.units import bytes_text
from runners.benchmarks import program_step
from runners.benchmarks.step import Timed, blank_of, cannot, clocked, out_of_memory, prepared, profiled, timed
from runners.guard import heartbeat
from runners.job import Job, read_measurement, write_measurement
from runners.options import StepOptions, options_of
from runners.program_of import program_of
from runners.ranks import Ranks, gather, join, leave
from runners.row_status import is_out_of_memory, message_of
from runners.rows import release, used_bytes
from runners.series_list import Entry
from runners.train_step import Trainer, discard, one_step

MOST_KERNELS = 40
"""Kernels that a result of a series names; the others are added up by category."""

NAME_LENGTH = 160

NOTEWORTHY_FRAC = 0.001
"""Share of a peak below which nobody needs to hear of it."""


@dataclass(kw_only=True)
class _Step:
    entry: Entry
    prepared: Callable[[], Trainer]
    blank: Measurement
    timed: Timed
    left_bytes: list[float]


def run(
    entries: list[Entry],
    out: Path,
    device: str,
    say: Callable[[str], None],
    *,
    limit_s: float = 0.0,
    again: bool = False,
) -> int:
    """Measure the entries that have no result in ``out``; return how many failed."""
    gc.freeze()
    ranks = join(device)
    end_s = time.monotonic() + limit_s if limit_s else float("inf")
    out.mkdir(parents=True, exist_ok=True)
    wanted = [
        entry for entry, is_there in zip(entries, _there(entries, out, ranks), strict=True) if again or not is_there
    ]
    steps: list[_Step] = []
    failed = 0
    for number, entry in enumerate(wanted, 1):
        if _over(ranks, end_s):
            break
        heartbeat.row_begins({"name": entry.name})
        begin_s = time.monotonic()
        step, found = _timed(entry, ranks, out)
        heartbeat.row_ends([])
        failed += found.status == "failed"
        if step is not None:
            steps.append(step)
        _say(say, ranks, f"{number}/{len(wanted)} {entry.name}", found, time.monotonic() - begin_s)
    for number, step in enumerate(steps, 1):
        if _over(ranks, end_s):
            break
        heartbeat.row_begins({"name": step.entry.name})
        begin_s = time.monotonic()
        found = _profiled(step, ranks, out)
        heartbeat.row_ends([])
        _say(say, ranks, f"profile {number}/{len(steps)} {step.entry.name}", found, time.monotonic() - begin_s)
    leave(ranks)
    return failed


def trimmed(measurement: Measurement) -> Measurement:
    """Name the kernels that take longest alone; the others are one line for each category, so that files stay small."""
    kernels = [replace(kernel, name=kernel.name[:NAME_LENGTH]) for kernel in measurement.kernels]
    rest: dict[str, list[Kernel]] = {}
    for kernel in kernels[MOST_KERNELS:]:
        rest.setdefault(kernel.category, []).append(kernel)
    merged = [
        Kernel(
            name=f"{len(group)} other kernels",
            category=category,
            count=sum(kernel.count for kernel in group),
            total_s=sum(kernel.total_s for kernel in group),
        )
        for category, group in rest.items()
    ]
    samples = {name: value for name, value in measurement.samples.items() if name != "definitions"}
    return replace(measurement, kernels=(*kernels[:MOST_KERNELS], *merged), samples=samples)


def without_what_was_left(measurement: Measurement, left_bytes: list[float]) -> Measurement:
    """Take off a peak what the steps before had not given back when this one began, by rank; and say so."""
    memory, by_rank = measurement.memory, measurement.samples.get("peak_bytes_by_rank") or []
    if memory.peak_bytes is None or max(left_bytes) == 0:
        return measurement
    peak = memory.peak_bytes - left_bytes[0]
    samples = {**measurement.samples, "left_bytes_by_rank": left_bytes}
    samples["peak_bytes_by_rank"] = [one - left for one, left in zip(by_rank, left_bytes, strict=False)]
    found = replace(measurement, memory=replace(memory, peak_bytes=peak), samples=samples)
    if left_bytes[0] < NOTEWORTHY_FRAC * peak:
        return found
    message = f"steps before it had left {bytes_text(left_bytes[0])}, which are taken off its peak"
    return replace(found, warnings=(*found.warnings, Warning(code="memory_left", message=message)))


def _there(entries: list[Entry], out: Path, ranks: Ranks) -> list[bool]:
    """Which entries have a result, as the first rank sees its disk."""
    flags = torch.tensor([float(_measured(out / f"{entry.name}.json")) for entry in entries], device=ranks.device)
    if ranks.world_size > 1:
        dist.broadcast(flags, 0)
    return [bool(flag) for flag in flags.tolist()]


def _measured(path: Path) -> bool:
    try:
        return all(warning.code != "not_profiled" for warning in read_measurement(path).warnings)
    except InputProblems:
        return False


def _over(ranks: Ranks, end_s: float) -> bool:
    flag = torch.tensor([float(time.monotonic() > end_s)], device=ranks.device)
    if ranks.world_size > 1:
        dist.broadcast(flag, 0)
    return bool(flag.item())


def _job(entry: Entry) -> Job:
    return Job(scenario=entry.scenario, options=entry.options, warmup=entry.warmup, steps=entry.steps, label=entry.name)


def _timed(entry: Entry, ranks: Ranks, out: Path) -> tuple[_Step | None, Measurement]:
    """Time one entry and write what is known of it; None where it could not be."""
    job = _job(entry)
    blank, trainer = Measurement(label=entry.name, scenario=entry.scenario), None
    left_bytes = gather(ranks, [used_bytes(ranks) or 0.0])
    try:
        blank, build = (_of_scenario if entry.scenario else _of_program)(entry, ranks, job)
        _write(ranks, out, entry, _failed(blank, "it was killed in its turn"))
        trainer = build()
        found = timed(trainer, job, lambda *progress: heartbeat.alive())
        known = clocked(blank, trainer, found)
    except InputProblems as error:
        return None, _write(ranks, out, entry, _failed(blank, "; ".join(map(str, error.problems))))
    except Exception as error:  # whatever it was, the next step must come
        failure = _failed(blank, message_of(error))
        if is_out_of_memory(error):
            failure = out_of_memory(blank, error, "measure", trainer)
        return None, _write(ranks, out, entry, failure)
    finally:
        _free(trainer, ranks)
    unprofiled = Warning(code="not_profiled", message="the series ended before this step was profiled")
    left = [one for (one,) in left_bytes]
    known = without_what_was_left(replace(known, warnings=(*known.warnings, unprofiled)), left)
    step = _Step(entry=entry, prepared=build, blank=blank, timed=found, left_bytes=left)
    return step, _write(ranks, out, entry, known)


def _of_scenario(entry: Entry, ranks: Ranks, job: Job) -> tuple[Measurement, Callable[[], Trainer]]:
    options: StepOptions = options_of("step", entry.options)
    scenario = scenario_from_json(as_asked(entry.scenario, entry.options))
    if problems := cannot(scenario, ranks, options):
        raise InputProblems(problems)
    return blank_of(scenario, ranks, entry.name), partial(prepared, scenario, ranks, job.seed, options)


def _of_program(entry: Entry, ranks: Ranks, job: Job) -> tuple[Measurement, Callable[[], Trainer]]:
    """Other people's module; its result says what it was in place of a scenario."""
    options: StepOptions = options_of("step", entry.options)
    blank = program_step.blank_of(job, ranks, entry.name)
    what = {"module": entry.module} if entry.module else {"config": entry.config}
    said = {**what, "options": encode(entry.program), "optimizer_kernel": options.optimizer_kernel}

    def build() -> Trainer:
        torch.manual_seed(job.seed)
        found = program_of(
            module=entry.module, hf=entry.config, options=entry.program,
            device=ranks.device, kernel=options.optimizer_kernel,
        )  # fmt: skip
        return program_step.trainer_of(found, ranks)

    return replace(blank, samples={"program": said}), build


def _profiled(step: _Step, ranks: Ranks, out: Path) -> Measurement:
    """Build it once more and profile it; the result then says all."""
    trainer, job = None, _job(step.entry)
    try:
        trainer = step.prepared()
        one_step(trainer, lambda phase: None)
        found = profiled(step.blank, trainer, step.timed, job, lambda *progress: heartbeat.alive())
        found = without_what_was_left(found, step.left_bytes)
        found = replace(found, samples={**found.samples, **step.blank.samples})
        return _write(ranks, out, step.entry, trimmed(found))
    except Exception as error:  # what was timed stays
        known = read_measurement(out / f"{step.entry.name}.json") if ranks.rank == 0 else step.blank
        return replace(known, warnings=(*known.warnings, Warning(code="not_profiled", message=message_of(error))))
    finally:
        _free(trainer, ranks)


def _free(trainer: Trainer | None, ranks: Ranks) -> None:
    if trainer is not None:
        discard(trainer)
    if ranks.cuda:
        # Each step's peak has them, as that of a process of its own has.
        torch._C._cuda_clearCublasWorkspaces()
    release(ranks)


def _failed(blank: Measurement, message: str) -> Measurement:
    return replace(blank, status="failed", warnings=(*blank.warnings, Warning(code="failed", message=message)))


def _write(ranks: Ranks, out: Path, entry: Entry, measurement: Measurement) -> Measurement:
    if ranks.rank == 0:
        write_measurement(out / f"{entry.name}.json", measurement)
    return measurement


def _say(say: Callable[[str], None], ranks: Ranks, head: str, found: Measurement, took_s: float) -> None:
    if ranks.rank:
        return
    steps = f"step {sorted(found.steps_s)[len(found.steps_s) // 2] * 1e3:.2f} ms" if found.steps_s else found.status
    why = "; ".join(warning.message for warning in found.warnings if warning.code in ("failed", "oom", "host_bound"))
    say(f"{head}: {steps}, took {took_s:.1f} s{f': {why}' if why else ''}")
