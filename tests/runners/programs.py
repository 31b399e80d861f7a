"""Modules of somebody else's, as factories give them, and small models of Hugging Face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

GPT2 = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 97, "n_positions": 64,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}  # fmt: skip


def as_dict(batch: int, seq: int) -> Any:
    return Loss(), {"x": torch.ones(batch, seq)}


def as_tuple() -> Any:
    return Loss(), (torch.ones(2, 3),)


def as_tensor() -> Any:
    return nn.Linear(3, 3), torch.ones(2, 3)


def as_function() -> Any:
    module = nn.Linear(3, 3)
    return module, lambda given: given(torch.ones(2, 3)).abs().sum()


def with_optimizer() -> Any:
    module = nn.Linear(3, 3)
    return module, torch.ones(2, 3), torch.optim.SGD(module.parameters(), lr=0.5)


def without_batch() -> Any:
    return nn.Linear(3, 3)


def without_loss() -> Any:
    return Words(), torch.ones(1)


class Loss(nn.Module):
    """Returns an object with a loss, as models of Hugging Face do."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (x[..., :1] * self.weight).sum(), "logits": x}


def write_config(folder: Path, **changes: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({**GPT2, **changes}), encoding="utf-8")
    return path


class Words(nn.Linear):
    """Returns what no backward can begin at."""

    def __init__(self) -> None:
        super().__init__(1, 1)

    def forward(self, x: torch.Tensor) -> str:  # type: ignore[override]
        return str(x)
