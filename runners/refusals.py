"""Refusals: what the benchmarks cannot measure, scenarios and numbers of processes, told before anything is started.

Without torch, so that a server can ask at launch.
"""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import dataclass, fields
from typing import Any

from estimator.scenario.framework import FRAMEWORKS
from estimator.scenario.model import Model
from estimator.scenario.parameters import parameters
from estimator.scenario.plan import Plan
from estimator.scenario.precision import QUANTISED
from estimator.scenario.problems import Problem, either
from estimator.scenario.scenario import Scenario
from estimator.scenario.units import bytes_text
from runners.flash.tiles import WIDEST
from runners.model.by_name import unknown_models
from runners.options import StepOptions

NO_OPTIONS = StepOptions()
DENSE = {"network": "transformer", "experts": 0, "kv_lora_rank": 0, "sliding_window": 0}
"""Fields of a model that must have this value for the runner's model to be it."""
UNSPLIT = ("tp", "pp", "cp", "ep")
"""Axes that the step benchmark does not split."""
FOLLOWED = ("dp", "sharding", "micro_batch", "recompute", "bucket_bytes", "overlap", "placement")
"""Fields of a plan that the step benchmark follows, or refuses by what else is asked for."""
IDLE = ("tp_kind", "tp_depth", "sequence_parallel", "cp_kind", "virtual_stages", "schedule", "expert_tp", "shard_ranks")
"""Fields of a plan that say nothing where no axis but dp is split."""
PLAIN = {f.name: f.default for f in fields(Plan) if f.name not in (*UNSPLIT, *FOLLOWED, *IDLE)}
"""The others, which the step benchmark does not know: it measures them at their default only."""
HALF_PARAMETERS = ("bf16",)
"""Precisions in which the runner's model keeps its parameters in two bytes; in the others it keeps fp32."""


@dataclass(frozen=True, kw_only=True)
class RankCount:
    """How many processes a benchmark takes, ``most`` None where more never are too many; and why not others."""

    least: int = 1
    most: int | None = None
    message: str = ""
    remedy: str = ""


RANK_COUNTS = {
    "collectives": RankCount(
        least=2,
        message="one process has nobody to talk to",
        remedy="Set the processes to two or more (torchrun --nproc-per-node 2).",
    ),
    "attention": RankCount(
        most=1, message="attention is measured on one rank", remedy="Start one, or measure several with ulysses."
    ),
    "memory": RankCount(
        most=1, message="memory is measured on one rank", remedy="Start one, or measure several with ddp."
    ),
    "precision": RankCount(most=1, message="precision is measured on one rank", remedy="Start one."),
}
"""Of the benchmarks that do not take any number."""

GRID = RankCount(most=1, message="a grid runs on one rank", remedy="Start one process, or measure several with ddp.")
"""Of ``step`` over a grid of models."""


def ranks_of(benchmark: str, options: Any = None) -> RankCount:
    """Say how many processes a benchmark takes with these options, by default its own."""
    if isinstance(options, StepOptions) and options.models:
        return GRID
    return RANK_COUNTS.get(benchmark, RankCount())


def rank_refusals(benchmark: str, options: Any, world_size: int) -> list[Problem]:
    """Refuse a number of processes with which a benchmark has nothing to measure."""
    ranks = ranks_of(benchmark, options)
    if ranks.least <= world_size and (ranks.most is None or world_size <= ranks.most):
        return []
    return [Problem(field="world_size", message=ranks.message, remedy=ranks.remedy)]


def grid_refusals(options: Any, scenario: object) -> list[Problem]:
    """Refuse names that no model has, and a scenario beside a grid of models, which would be measured without it."""
    if not (isinstance(options, StepOptions) and options.models and scenario):
        return unknown_models(options)
    message = "a grid takes its models and sizes from the options, and none from a scenario"
    return [Problem(field="options.models", message=message, remedy="Leave out the models, or the scenario.")]


def refusals(
    scenario: Scenario,
    *,
    world_size: int,
    cuda: bool,
    options: StepOptions = NO_OPTIONS,
    memory_bytes: float = math.inf,
) -> list[Problem]:
    """List what the step benchmark cannot measure with ``world_size`` processes, each with its remedy.

    ``memory_bytes`` is what each process has of a CPU's: where the weights alone do not fit, the system would end the
    processes without a word. On a GPU the allocator says so, and the result is ``oom``.
    """
    model, plan, training = scenario.model, scenario.plan, scenario.training
    found = []

    def refuse(field: str, message: str, remedy: str) -> None:
        found.append(Problem(field=field, message=message, remedy=remedy))

    for axis in UNSPLIT:
        if getattr(plan, axis) > 1:
            refuse(f"plan.{axis}", f"{axis} = {getattr(plan, axis)} is not measured yet", f"Set plan.{axis} to 1.")
    for field, only in PLAIN.items():
        value = getattr(plan, field)
        if value != only:
            refuse(f"plan.{field}", f"{value!r} is not measured by step", f"Set plan.{field} to {only}.")
    found += model_refusals(model)
    if not found and plan.dp != world_size:
        refuse(
            "plan.dp",
            f"dp = {plan.dp}, but {world_size} processes run",
            f"Set plan.dp and cluster to {world_size} chips, or start {plan.dp} processes "
            f"(torchrun --nproc-per-node {plan.dp}).",
        )
    weights_bytes = parameters(model) * (2 if training.precision in HALF_PARAMETERS else 4)
    if weights_bytes > memory_bytes:
        each = " for each process" if world_size > 1 else ""
        have = f"{bytes_text(memory_bytes)}{each}"
        message = f"the weights alone take {bytes_text(weights_bytes)}, and this machine has {have}"
        refuse("model", message, "Choose a smaller model, or fewer layers.")
    if training.precision in QUANTISED:
        refuse("training.precision", f"{training.precision} is not measured", "Choose bf16 or bf16-amp.")
    if training.attention == "flash1":
        refuse("training.attention", "FlashAttention 1 is not part of torch", "Set training.attention to sdpa.")
    if plan.dp > 1 and plan.sharding != "ddp":
        refuse("plan.sharding", f"{plan.sharding!r} is not measured yet", "Set plan.sharding to ddp.")
    if plan.dp > 1 and not plan.overlap:
        refuse("plan.overlap", "DDP without overlap is not measured yet", "Set plan.overlap to true.")
    if not training.traits.measurable:
        refuse(
            "training.framework",
            f"this runner is plain PyTorch, not {training.framework}",
            f"Choose {either([name for name, traits in FRAMEWORKS.items() if traits.measurable])}.",
        )
    if training.fused and not cuda and not has_compiler():
        refuse(
            "training.compile",
            "torch.compile needs a C++ compiler on a CPU, and none is found",
            "Install g++ (or name one in CXX), or measure eager: compile false, framework pytorch-eager.",
        )
    if training.attention == "flash" and model.position == "alibi":
        refuse("training.attention", "the flash kernel takes no alibi bias", "Choose eager or sdpa.")
    if training.attention == "flash" and cuda and training.dropout:
        refuse("training.attention", "the flash kernel has no dropout", "Choose sdpa, or dropout 0.")
    if training.attention == "flash" and cuda and model.dim > WIDEST:
        message = f"the flash kernel takes head dimensions up to {WIDEST}, not {model.dim}"
        refuse("training.attention", message, "Choose sdpa.")
    if options.graph and not cuda:
        refuse("options.graph", "CUDA graphs need a GPU", "Leave graph out, or choose device cuda.")
    if options.graph and world_size > 1:
        refuse("options.graph", "CUDA graphs are measured on one rank only", "Leave graph out, or start one process.")
    if options.graph and training.precision == "fp16-amp":
        refuse("options.graph", "the scaler of fp16-amp asks the device in every step", "Choose bf16-amp.")
    if model.position == "rope" and model.dim % 2:
        refuse("model.head_dim", f"rotary positions need an even head_dim, not {model.dim}", "Choose an even one.")
    if model.position == "learned" and 0 < model.max_positions < training.seq_len:
        refuse(
            "training.seq_len",
            f"{training.seq_len} tokens do not fit into {model.max_positions} learned positions",
            f"Choose seq_len of at most {model.max_positions}.",
        )
    return found


def model_refusals(model: Model) -> list[Problem]:
    """List what the measured transformer is not: mixture of experts, latent attention, windows, other networks."""
    found = []
    for field, only in DENSE.items():
        value = getattr(model, field)
        if value != only:
            message = f"{value!r} is not measured: the runner's model is a dense transformer"
            remedy = f"Set model.{field} to {only}, or choose a dense model."
            found.append(Problem(field=f"model.{field}", message=message, remedy=remedy))
    return found


def has_compiler() -> bool:
    """Whether there is a C++ compiler, which torch.compile needs on a CPU."""
    return any(shutil.which(name) for name in (os.environ.get("CXX"), "g++", "clang++") if name)
