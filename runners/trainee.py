"""The thing that is measured: model, data, optimizer and their one training step, in named phases."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import record_function

from estimator.problems import Problem
from estimator.scenario import Scenario
from estimator.training import Training
from runners.model import autocast, batch, build, loss_of, optimizer_of
from runners.ranks import Ranks

TORCH_BUCKET_BYTES = 25 * 1024 * 1024
FRAMEWORKS = ("pytorch-eager", "pytorch-compile")


@dataclass(kw_only=True)
class Trainee:
    """What one training step needs; ``phase`` says where in a step the process is, for failures."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler | None
    batches: list[tuple[Tensor, Tensor]]
    scenario: Scenario
    ranks: Ranks
    phase: str = "build"
    loss: Tensor | None = None


def refusals(scenario: Scenario, ranks: Ranks) -> list[Problem]:
    """List what this runner cannot measure, with the remedy."""
    model, plan, training = scenario.model, scenario.plan, scenario.training
    found = []

    def refuse(field: str, message: str, remedy: str) -> None:
        found.append(Problem(field=field, message=message, remedy=remedy))

    for axis in ("tp", "pp", "cp"):
        if getattr(plan, axis) > 1:
            refuse(f"plan.{axis}", f"{axis} = {getattr(plan, axis)} is not measured yet", f"Set plan.{axis} to 1.")
    if not found and plan.dp != ranks.world_size:
        refuse(
            "plan.dp",
            f"dp = {plan.dp}, but {ranks.world_size} processes run",
            f"Set plan.dp and cluster to {ranks.world_size} chips, or start {plan.dp} processes "
            f"(torchrun --nproc-per-node {plan.dp}).",
        )
    if training.attention == "flash1":
        refuse("training.attention", "FlashAttention 1 is not part of torch", "Set training.attention to sdpa.")
    if plan.dp > 1 and plan.sharding != "ddp":
        refuse("plan.sharding", f"{plan.sharding!r} is not measured yet", "Set plan.sharding to ddp.")
    if plan.dp > 1 and not plan.overlap:
        refuse("plan.overlap", "DDP without overlap is not measured yet", "Set plan.overlap to true.")
    if training.framework not in FRAMEWORKS:
        refuse(
            "training.framework",
            f"this runner is plain PyTorch, not {training.framework}",
            f"Choose {' or '.join(FRAMEWORKS)}.",
        )
    if compiled(training) and not ranks.cuda and not _has_compiler():
        refuse(
            "training.compile",
            "torch.compile needs a C++ compiler on a CPU, and none is found",
            "Install g++ (or name one in CXX), or measure eager: compile false, framework pytorch-eager.",
        )
    if training.attention == "flash" and model.position == "alibi":
        refuse("training.attention", "the flash kernel takes no alibi bias", "Choose eager or sdpa.")
    if training.attention == "flash" and ranks.cuda and training.precision in ("fp32", "tf32"):
        refuse(
            "training.attention",
            f"the flash kernel has no {training.precision}",
            "Choose sdpa, or precision bf16, bf16-amp or fp16-amp.",
        )
    if model.position == "rope" and model.dim % 2:
        refuse("model.head_dim", f"rotary positions need an even head_dim, not {model.dim}", "Choose an even one.")
    if model.position == "learned" and 0 < model.max_positions < training.seq_len:
        refuse(
            "training.seq_len",
            f"{training.seq_len} tokens do not fit into {model.max_positions} learned positions",
            f"Choose seq_len of at most {model.max_positions}.",
        )
    return found


def compiled(training: Training) -> bool:
    """Whether torch.compile is asked for, by either of its two names."""
    return training.compile or training.framework == "pytorch-compile"


def prepare(scenario: Scenario, ranks: Ranks, seed: int) -> Trainee:
    """Build model, data and optimizer on this rank's device; parameters are equal on all ranks, data are not."""
    model, plan, training = scenario.model, scenario.plan, scenario.training
    torch.set_float32_matmul_precision("high" if training.precision == "tf32" else "highest")
    torch.manual_seed(seed)
    module = build(model, training, plan, ranks.device)
    if ranks.world_size > 1:
        module = DistributedDataParallel(
            module,
            device_ids=[torch.device(ranks.device).index] if ranks.cuda else None,
            # None is PyTorch's own default, which also makes the first bucket small
            bucket_cap_mb=None if plan.bucket_bytes == TORCH_BUCKET_BYTES else plan.bucket_bytes / 1024**2,
        )
    if compiled(training):
        module.compile()
    torch.manual_seed(seed + 1 + ranks.rank)
    return Trainee(
        module=module,
        optimizer=optimizer_of(module, training),
        scaler=torch.amp.GradScaler(ranks.device.partition(":")[0]) if training.precision == "fp16-amp" else None,
        batches=[batch(model, training, plan, ranks.device) for _ in range(scenario.micro_batches)],
        scenario=scenario,
        ranks=ranks,
    )


def one_step(trainee: Trainee, done: Callable[[str], None], *, communicate: bool = True) -> None:
    """Run one training step, calling ``done`` with each phase's name once its work is launched.

    Gradients of all micro-batches but the last stay local, as is usual; without ``communicate`` those of the last too.
    """
    training, device = trainee.scenario.training, trainee.ranks.device
    for index, (tokens, targets) in enumerate(trainee.batches):
        last = index == len(trainee.batches) - 1
        with _local_gradients(trainee.module, not (last and communicate)):
            with _phase(trainee, "forward"), autocast(training, device):
                loss = loss_of(trainee.module, tokens, targets)
                if len(trainee.batches) > 1:
                    loss = loss / len(trainee.batches)
            done("forward")
            with _phase(trainee, "backward"):
                scaled = loss if trainee.scaler is None else trainee.scaler.scale(loss)
                torch.autograd.backward(scaled)
            done("backward")
        trainee.loss = loss.detach()
        del loss, scaled
    with _phase(trainee, "optimizer"):
        if trainee.scaler is None:
            trainee.optimizer.step()
        else:
            trainee.scaler.step(trainee.optimizer)
            trainee.scaler.update()
        trainee.optimizer.zero_grad(set_to_none=True)
    done("optimizer")


def _has_compiler() -> bool:
    return any(shutil.which(name) for name in (os.environ.get("CXX"), "g++", "clang++") if name)


def _local_gradients(module: nn.Module, local: bool) -> AbstractContextManager[Any]:
    return module.no_sync() if local and isinstance(module, DistributedDataParallel) else nullcontext()


def _phase(trainee: Trainee, name: str) -> AbstractContextManager[Any]:
    trainee.phase = name
    return record_function(f"phase:{name}")
