"""Refusals: which scenarios the step benchmark cannot measure, told before anything is started.

Without torch, so that a server can ask at launch.
"""

from __future__ import annotations

import os
import shutil

from estimator.problems import Problem
from estimator.scenario import Scenario
from estimator.training import Training

FRAMEWORKS = ("pytorch-eager", "pytorch-compile")


def refusals(scenario: Scenario, *, world_size: int, cuda: bool) -> list[Problem]:
    """List what the step benchmark cannot measure with ``world_size`` processes, each with its remedy."""
    model, plan, training = scenario.model, scenario.plan, scenario.training
    found = []

    def refuse(field: str, message: str, remedy: str) -> None:
        found.append(Problem(field=field, message=message, remedy=remedy))

    for axis in ("tp", "pp", "cp"):
        if getattr(plan, axis) > 1:
            refuse(f"plan.{axis}", f"{axis} = {getattr(plan, axis)} is not measured yet", f"Set plan.{axis} to 1.")
    if not found and plan.dp != world_size:
        refuse(
            "plan.dp",
            f"dp = {plan.dp}, but {world_size} processes run",
            f"Set plan.dp and cluster to {world_size} chips, or start {plan.dp} processes "
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
    if compiled(training) and not cuda and not _has_compiler():
        refuse(
            "training.compile",
            "torch.compile needs a C++ compiler on a CPU, and none is found",
            "Install g++ (or name one in CXX), or measure eager: compile false, framework pytorch-eager.",
        )
    if training.attention == "flash" and model.position == "alibi":
        refuse("training.attention", "the flash kernel takes no alibi bias", "Choose eager or sdpa.")
    if training.attention == "flash" and cuda and training.precision in ("fp32", "tf32"):
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


def _has_compiler() -> bool:
    return any(shutil.which(name) for name in (os.environ.get("CXX"), "g++", "clang++") if name)
