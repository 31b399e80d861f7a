"""A training step of somebody else's module, measured as ``step`` measures its own: timed, profiled, out of memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from estimator.scenario.measurement import Measurement, Origin
from runners.benchmarks.step import Report, out_of_memory, profiled, timed
from runners.environment import device, environment
from runners.guard import heartbeat
from runners.job import Job, progress
from runners.options import ProgramOptions
from runners.program_of import Program, name_of, program_of
from runners.ranks import Ranks, join, leave
from runners.row_status import is_out_of_memory
from runners.train_step import Trainer


def run(
    job: Job,
    report: Report,
    trace: Path | None = None,
    *,
    module: str = "",
    hf: str | Mapping[str, Any] = "",
    options: ProgramOptions,
    kernel: str = "default",
) -> Measurement | None:
    """Measure one step of the program; on rank 0 return what was found, on others None. Raises InputProblems."""
    ranks = join(job.device)
    blank = blank_of(job, ranks, module or name_of(hf))
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
        torch.manual_seed(job.seed)
        program = program_of(module=module, hf=hf, options=options, device=ranks.device, kernel=kernel)
        trainer = trainer_of(program, ranks)
        tell("build", 1, 1)
        found = profiled(blank, trainer, timed(trainer, job, tell), job, tell, trace)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return out_of_memory(blank, error, stage, trainer)
    leave(ranks)
    return replace(found, samples={**found.samples, **_about(program, found)}) if ranks.rank == 0 else None


def trainer_of(program: Program, ranks: Ranks) -> Trainer:
    """A program as what is measured; over several ranks each has a copy, under DistributedDataParallel."""
    if ranks.world_size > 1:
        device_ids = [torch.device(ranks.device).index] if ranks.cuda else None
        wrapped: nn.Module = DistributedDataParallel(program.module, device_ids=device_ids)
        program.module = wrapped
    return Trainer(
        module=program.module,
        optimizer=program.optimizer,
        scaler=program.scaler,
        batches=[program.batch],
        loss_of=program.loss,
        fused=program.options.compile,
        ranks=ranks,
    )


def blank_of(job: Job, ranks: Ranks, name: str) -> Measurement:
    """What is known of a result before anything is measured."""
    return Measurement(
        label=job.label or Path(name).name,
        origin=Origin(kind="run", format="step", producer="headroom runners", version=torch.__version__),
        device={**device(ranks.cuda), "count": ranks.world_size},
        world_size=ranks.world_size,
        rank=ranks.rank,
        environment=environment(ranks.cuda),
    )


def _about(program: Program, found: Measurement) -> dict[str, Any]:
    """What was measured, in place of a scenario."""
    parameters = sum(parameter.numel() for parameter in program.module.parameters())
    step_s = sorted(found.steps_s)[len(found.steps_s) // 2]
    rate: dict[str, Any] = {}
    if program.tokens:
        rate = {"tokens_per_s": program.tokens * found.world_size / step_s}
    # A path tells of the machine and whoever uses it
    program_name = Path(program.name.rpartition(":")[0] or program.name).name
    said = {"name": program_name, "parameters": parameters, "options": asdict(program.options)}
    return {"program": said, "throughput": rate}
