"""The thing that is measured: model, data, optimizer and their one training step, in named phases."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import record_function

from estimator.scenario import Scenario
from runners.model import autocast, batch, build, loss_of, optimizer_of
from runners.ranks import Ranks
from runners.refusals import compiled

TORCH_BUCKET_BYTES = 25 * 1024 * 1024


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


def _local_gradients(module: nn.Module, local: bool) -> AbstractContextManager[Any]:
    return module.no_sync() if local and isinstance(module, DistributedDataParallel) else nullcontext()


def _phase(trainee: Trainee, name: str) -> AbstractContextManager[Any]:
    trainee.phase = name
    return record_function(f"phase:{name}")
