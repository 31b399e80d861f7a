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


class _Linear(nn.Linear):
    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=INITIAL_STD)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class _Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=INITIAL_STD)


def linear(inputs: int, outputs: int, bias: bool, factory: dict[str, Any]) -> nn.Linear:
    """A linear whose weights are drawn once, normally distributed."""
    return _Linear(inputs, outputs, bias=bias, **factory)


def embedding(rows: int, width: int, factory: dict[str, Any]) -> nn.Embedding:
    """An embedding drawn likewise."""
    return _Embedding(rows, width, **factory)


def draw_from(seed: int, factory: dict[str, Any]) -> None:
    """Seed what is drawn next on the factory's device."""
    if torch.device(factory["device"]).type in ("cpu", "meta"):
        # before CUDA is in use, torch.manual_seed keeps a printed stack of its caller for it, each time
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def norm(model: Model, factory: dict[str, Any]) -> nn.Module:
    """The model's kind of normalisation over its width."""
    return RMSNorm(model.hidden, factory) if model.norm == "rms" else nn.LayerNorm(model.hidden, **factory)
