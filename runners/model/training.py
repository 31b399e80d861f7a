"""What a training step needs beside its model: data, loss, autocast and optimizer."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from estimator.scenario.model import Model
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training

AUTOCAST_DTYPES = {"fp16-amp": torch.float16, "bf16-amp": torch.bfloat16}


def batch(model: Model, training: Training, plan: Plan, device: str) -> tuple[Tensor, Tensor]:
    """Draw one micro-batch of random tokens and targets, each (micro_batch, seq_len)."""
    shape = (plan.micro_batch, training.seq_len)
    tokens = torch.randint(0, model.vocab, shape, device=device)
    return tokens, torch.randint(0, model.vocab, shape, device=device)


def loss_of(module: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy over all positions; the logits are not kept beyond this call. Call it under ``autocast``."""
    return F.cross_entropy(module(tokens).flatten(0, 1), targets.flatten())


def autocast(training: Training, device: str) -> AbstractContextManager[Any]:
    """The context in which forward and loss run: autocast for ``fp16-amp`` and ``bf16-amp``, else nothing."""
    dtype = AUTOCAST_DTYPES.get(training.precision)
    return nullcontext() if dtype is None else torch.autocast(torch.device(device).type, dtype=dtype)


def optimizer_of(module: nn.Module, training: Training, *, capturable: bool = False) -> torch.optim.Optimizer:
    """AdamW, or SGD without momentum, in the kernels that ``training.optimizer_kernel`` says.

    ``capturable`` keeps AdamW's counters on the device, as CUDA graphs need it.
    """
    kernel = training.optimizer_kernel
    chosen: dict[str, Any] = {name: kernel == name for name in ("foreach", "fused") if kernel != "default"}
    if training.optimizer == "sgd":
        return torch.optim.SGD(module.parameters(), lr=1e-4, **chosen)
    return torch.optim.AdamW(module.parameters(), lr=1e-4, capturable=capturable, **chosen)
