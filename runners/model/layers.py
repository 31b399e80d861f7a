"""Layers that every part of the measured transformer is made of."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from estimator.scenario.model import Model

INITIAL_STD = 0.02


class RMSNorm(nn.Module):
    """y = w · x / sqrt(mean(x²) + eps), the mean in fp32, piece by piece as eager models write it."""

    def __init__(self, width: int, factory: dict[str, Any], eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, **factory))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


def linear(inputs: int, outputs: int, bias: bool, factory: dict[str, Any]) -> nn.Linear:
    """A linear whose weights are drawn once, normally distributed."""
    made: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs, bias=bias, **factory)  # type: ignore[no-untyped-call]
    nn.init.normal_(made.weight, std=INITIAL_STD)
    if made.bias is not None:
        nn.init.zeros_(made.bias)
    return made


def embedding(rows: int, width: int, factory: dict[str, Any]) -> nn.Embedding:
    """An embedding drawn likewise."""
    made: nn.Embedding = nn.utils.skip_init(nn.Embedding, rows, width, **factory)  # type: ignore[no-untyped-call]
    nn.init.normal_(made.weight, std=INITIAL_STD)
    return made


def norm(model: Model, factory: dict[str, Any]) -> nn.Module:
    """The model's kind of normalisation over its width."""
    return RMSNorm(model.hidden, factory) if model.norm == "rms" else nn.LayerNorm(model.hidden, **factory)
