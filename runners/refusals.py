"""Refusals: what the benchmarks cannot measure, scenarios and numbers of processes, told before anything is started.

Without torch, so that a server can ask at launch.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from estimator.scenario.framework import FRAMEWORKS
from estimator.scenario.model import PLAIN as MODEL_PLAIN
from estimator.scenario.model import Model
from estimator.scenario.parameters import parameters
from estimator.scenario.plan import Plan
from estimator.scenario.precision import QUANTISED
from estimator.scenario.problems import Problem, either
from estimator.scenario.scenario import Scenario
from estimator.scenario.units import bytes_text, counted
from runners.flash.tiles import WIDEST
from runners.model.by_name import unknown_models
from runners.options import RUN_OPTIMIZERS, StepOptions

NO_OPTIONS = StepOptions()
BUILT = ("experts", "kv_lora_rank")
"""Of the fields by which a model is more than a dense transformer with plain attention, those that are measured."""
FOLLOWED = (
    "dp", "tp", "sequence_parallel", "cp", "cp_kind", "pp", "virtual_stages", "schedule", "ep", "sharding",
    "shard_ranks", "micro_batch", "recompute", "recompute_every", "ddp_mode", "bucket_bytes", "overlap", "placement",
)  # fmt: skip
"""Fields of a plan that the step benchmark follows."""
PLAIN = {f.name: f.default for f in fields(Plan) if f.name not in FOLLOWED}
"""The others, which it measures at their default only."""
SHARDED = ("zero1", "zero2", "zero3", "fsdp")
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

    for field, only in PLAIN.items():
        value = getattr(plan, field)
        if value != only:
            refuse(f"plan.{field}", f"{value!r} is not measured by step", f"Set plan.{field} to {only}.")
    found += model_refusals(model)
    if not found and plan.chips != world_size:
        axes = [axis for axis in ("dp", "tp", "cp", "pp") if getattr(plan, axis) > 1] or ["dp"]
        product = " · ".join(f"{axis} = {getattr(plan, axis)}" for axis in axes)
        run = f"{counted(world_size, 'process', 'processes')} {'runs' if world_size == 1 else 'run'}"
        refuse(
            f"plan.{axes[0]}",
            f"{product}{'' if len(axes) == 1 else f' = {plan.chips}'}, but {run}",
            f"Set plan and cluster to {counted(world_size, 'chip')}, or start "
            f"{counted(plan.chips, 'process', 'processes')} (torchrun --nproc-per-node {plan.chips}).",
        )
    weights_bytes = parameters(model) * (2 if training.precision in HALF_PARAMETERS else 4)
    if weights_bytes > memory_bytes:
        each = " for each process" if world_size > 1 else ""
        have = f"{bytes_text(memory_bytes)}{each}"
        message = f"the weights alone take {bytes_text(weights_bytes)}, and this machine has {have}"
        refuse("model", message, "Choose a smaller model, or fewer layers.")
    if training.precision in QUANTISED:
        refuse("training.precision", f"{training.precision} is not measured", "Choose bf16 or bf16-amp.")
    if training.optimizer not in RUN_OPTIMIZERS:
        refuse("training.optimizer", f"{training.optimizer} is not measured", f"Choose {either(RUN_OPTIMIZERS)}.")
    if training.attention == "flash1":
        refuse("training.attention", "FlashAttention 1 is not part of torch", "Set training.attention to sdpa.")
    if plan.chips > 1:
        found += _plan_refusals(scenario, options)
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
    if training.attention == "flash" and cuda and training.precision in ("fp32", "tf32"):
        message = f"FlashAttention takes numbers of two bytes, not {training.precision}"
        refuse("training.attention", message, "Choose sdpa, or precision bf16 or bf16-amp.")
    if training.attention == "flash" and cuda and training.dropout:
        refuse("training.attention", "the flash kernel has no dropout", "Choose sdpa, or dropout 0.")
    if training.attention == "flash" and cuda and model.dim > WIDEST:
        message = f"the flash kernel takes head dimensions up to {WIDEST}, not {model.dim}"
        refuse("training.attention", message, "Choose sdpa.")
    if training.attention == "flash" and cuda and model.value_dim != model.dim:
        message = f"the flash kernel takes values as wide as keys, {model.dim}, not {model.value_dim}"
        refuse("training.attention", message, "Choose sdpa.")
    experts = training.experts if options.experts == "default" else options.experts
    if options.graph and model.experts and not (experts == "grouped" or training.fused):
        message = "the host waits for the numbers of tokens of each expert"
        refuse("options.graph", message, "Set options.experts to grouped.")
    if model.experts and experts == "grouped" and cuda and training.precision in ("fp32", "tf32"):
        message = f"grouped products on a GPU take numbers of two bytes, not {training.precision}"
        where = "training.experts" if options.experts == "default" else "options.experts"
        refuse(where, message, "Choose loop, or precision bf16 or bf16-amp.")
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


def model_refusals(model: Model, *, dense: bool = False) -> list[Problem]:
    """List what the measured transformer is not: windows, sinks, other networks; ``dense``: experts and latents too."""
    found = []
    for field in model.special:
        value = getattr(model, field)
        if dense or field not in BUILT:
            what = "a dense transformer" if dense else "a transformer with plain or latent attention and two norms"
            message = f"{value!r} is not measured: the runner's model is {what}"
            remedy = f"Set model.{field} to {MODEL_PLAIN[field]}, or choose another model."
            found.append(Problem(field=f"model.{field}", message=message, remedy=remedy))
    if model.capacity_factor and not dense:
        message = "experts with a capacity are not measured: every token reaches its experts"
        found.append(Problem(field="model.capacity_factor", message=message, remedy="Set it to 0."))
    if model.clamped_ffn:
        message = "gate and up that are cut off at a limit are not measured"
        found.append(Problem(field="model.clamped_ffn", message=message, remedy="Set it to false."))
    if model.clamped_scores:
        message = "scores that are cut off at the least number are not measured"
        found.append(Problem(field="model.clamped_scores", message=message, remedy="Set it to false."))
    if model.experts and model.bias and not dense:
        message = "experts with biases are not measured"
        found.append(Problem(field="model.bias", message=message, remedy="Set model.bias to false."))
    return found


def _plan_refusals(scenario: Scenario, options: StepOptions) -> Iterator[Problem]:
    """Yield what a plan over several ranks cannot be measured with."""
    model, plan, training = scenario.model, scenario.plan, scenario.training
    model_split = max(plan.tp, plan.cp, plan.pp, plan.ep) > 1
    if plan.tp > 1 and model.kv % plan.tp:
        message = f"tp = {plan.tp} does not divide {model.kv} key/value heads, and copies of heads are not measured"
        yield Problem(field="plan.tp", message=message, remedy=f"Choose a tp that divides {model.kv}.")
    if plan.tp > 1 and model.experts and training.seq_len % (plan.tp * plan.cp):
        message = f"{plan.tp} ranks route a share of the tokens each, and do not divide {training.seq_len}"
        yield Problem(field="plan.tp", message=message, remedy="Choose a seq_len that is a multiple of tp · cp.")
    if model.position == "alibi" and (plan.tp > 1 or plan.cp > 1):
        message = "alibi is not measured where ranks share heads or sequences"
        yield Problem(field="model.position", message=message, remedy="Set tp and cp to 1.")
    if plan.cp > 1 and training.dropout:
        message = "attention over several ranks has no dropout"
        yield Problem(field="training.dropout", message=message, remedy="Set it to 0, or cp to 1.")
    if training.fused and model_split:
        message = "torch.compile is measured under data parallelism alone"
        yield Problem(field="training.compile", message=message, remedy="Measure eager, or set tp, cp, pp and ep to 1.")
    if training.precision == "fp16-amp" and (model_split or plan.sharding != "ddp"):
        message = "the scaler of fp16-amp is measured under plain data parallelism alone"
        yield Problem(field="training.precision", message=message, remedy="Choose bf16-amp.")
    if options.mode != "step" and plan.pp > 1:
        message = "a pipeline runs forward and backward at once"
        yield Problem(field="options.mode", message=message, remedy="Set it to step.")
    if plan.pp > 1 and plan.schedule != "gpipe" and scenario.micro_batches < plan.pp:
        message = f"{plan.schedule} needs at least {plan.pp} micro-batches, not {scenario.micro_batches}"
        remedy = f"Set training.global_batch to {plan.pp * plan.dp * plan.micro_batch} or more, or schedule to gpipe."
        yield Problem(field="training.global_batch", message=message, remedy=remedy)
    if plan.pp > 1 and model.tied_embedding and plan.sharding in ("zero1", "zero2"):
        message = f"a tied table on two stages is not measured under {plan.sharding}"
        yield Problem(field="plan.sharding", message=message, remedy="Choose ddp or fsdp.")
    copies = plan.dp * plan.cp * plan.tp // plan.ep
    if model.experts and plan.sharding in SHARDED and max(plan.tp, plan.ep) > 1 and copies > 1:
        message = f"{copies} ranks hold the same experts, whose states step shards only beside all others"
        remedy = "Set sharding to ddp, or ep to 1 and tp to 1, or ep to dp · cp · tp."
        yield Problem(field="plan.sharding", message=message, remedy=remedy)


def has_compiler() -> bool:
    """Whether there is a C++ compiler, which torch.compile needs on a CPU."""
    return any(shutil.which(name) for name in (os.environ.get("CXX"), "g++", "clang++") if name)
