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
from runners.benchmarks.step import Report, measured
from runners.environment import device, environment
from runners.job import Job
from runners.options import ProgramOptions
from runners.program_of import Program, name_of, program_of
from runners.ranks import Ranks, join
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

    built: list[Program] = []

    def build() -> Trainer:
        torch.manual_seed(job.seed)
        built.append(program_of(module=module, hf=hf, options=options, device=ranks.device, kernel=kernel))
        return trainer_of(built[0], ranks)

    def more(found: Measurement, trainer: Trainer) -> Measurement:
        return found if ranks.rank else replace(found, samples={**found.samples, **_about(built[0], found)})

    return measured(blank_of(job, ranks, module or name_of(hf)), job, report, ranks, build, trace, more)


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
