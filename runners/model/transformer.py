"""The measured transformer: what a plain eager PyTorch model of these shapes launches, kernel for kernel.

The order of the small operations (norm, rotary embedding, score mask, casts) is that of the usual Hugging Face models
in eager mode, because kernel lists and host time decide how long a step takes: q, k and v are one projection where
positions are not rotary (GPT-2, MPT), three where they are (Llama, Qwen).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from estimator.scenario.model import Model
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from runners.model.attention import Attention
from runners.model.layers import embedding, linear, norm
from runners.refusals import HALF_PARAMETERS

ROTARY_BASE = 10_000.0


class FeedForward(nn.Module):
    """down(act(up(x))), or down(act(gate(x)) · up(x)) where gated."""

    def __init__(self, model: Model, factory: dict[str, Any]) -> None:
        super().__init__()
        self.act = ACTIVATIONS[model.activation]
        self.gate = linear(model.hidden, model.ffn, model.bias, factory) if model.gated_ffn else None
        self.up = linear(model.hidden, model.ffn, model.bias, factory)
        self.down = linear(model.ffn, model.hidden, model.bias, factory)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.act(self.up(x)) if self.gate is None else self.act(self.gate(x)) * self.up(x)
        y: Tensor = self.down(inner)
        return y


def gelu_tanh(x: Tensor) -> Tensor:
    """GPT-2's GELU in pieces: 0.5·x·(1 + tanh(sqrt(2/π)·(x + 0.044715·x³)))."""
    cube = torch.pow(_as_autocast_on_gpus(x), 3.0)
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * cube)))


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu-tanh": gelu_tanh,
    "relu": F.relu,
}


class Block(nn.Module):
    """One pre-norm transformer block."""

    def __init__(self, model: Model, training: Training, plan: Plan, factory: dict[str, Any]) -> None:
        super().__init__()
        self.dropout = training.dropout
        self.attention_norm = norm(model, factory)
        self.attention = Attention(model, training, plan, factory)
        self.ffn_norm = norm(model, factory)
        self.ffn = FeedForward(model, factory)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor] | None, bias: Tensor | None) -> Tensor:
        x = x + F.dropout(self.attention(self.attention_norm(x), rotary, bias), self.dropout)
        y: Tensor = x + F.dropout(self.ffn(self.ffn_norm(x)), self.dropout)
        return y


class Transformer(nn.Module):
    """Tokens (B, S) to logits (B, S, V)."""

    def __init__(self, model: Model, training: Training, plan: Plan, factory: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.eager = training.attention == "eager"
        self.recompute = plan.recompute == "full"
        self.embedding = embedding(model.vocab, model.hidden, factory)
        rows = (model.max_positions or training.seq_len) if model.position == "learned" else 0
        self.positions = embedding(rows, model.hidden, factory) if rows else None
        self.blocks = nn.ModuleList(Block(model, training, plan, factory) for _ in range(model.layers))
        self.norm = norm(model, factory)
        self.head = linear(model.hidden, model.vocab, False, factory)
        if model.tied_embedding:
            self.head.weight = self.embedding.weight
        exponents = torch.arange(0, model.dim, 2, dtype=torch.float32, device=factory["device"]) / model.dim
        # No buffer: DistributedDataParallel would broadcast it in every forward.
        self.inverse_frequencies = 1.0 / ROTARY_BASE**exponents

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        if self.positions is not None:
            x = x + self.positions(torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0))
        rotary = self.rotary(x) if self.model.position == "rope" else None
        bias = self.score_bias(x)
        for block in self.blocks:
            x = checkpoint(block, x, rotary, bias, use_reentrant=False) if self.recompute else block(x, rotary, bias)
        logits: Tensor = self.head(self.norm(x))
        return logits

    @torch.no_grad()
    def rotary(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Tables cos and sin (S, head_dim), computed in fp32 and cast to the dtype of the hidden states."""
        positions = torch.arange(x.shape[1], dtype=torch.float32, device=x.device)
        angles = positions[:, None] * self.inverse_frequencies[None, :]
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    @torch.no_grad()
    def score_bias(self, x: Tensor) -> Tensor | None:
        """What is added to the scores: the causal mask, and for alibi slope·key position; None where sdpa masks."""
        alibi = self.model.position == "alibi"
        if not (self.eager or alibi):
            return None
        length = x.shape[1]
        lowest = torch.finfo(x.dtype).min
        bias = torch.full((length, length), lowest, dtype=x.dtype, device=x.device).triu(1)
        if not alibi:
            return bias
        heads = torch.arange(1, self.model.heads + 1, dtype=torch.float32, device=x.device)
        slopes = 2.0 ** (-8.0 * heads / self.model.heads)
        distances = torch.arange(1 - length, 1, dtype=torch.float32, device=x.device)
        return bias + (slopes[:, None, None] * distances).to(x.dtype)


def build(model: Model, training: Training, plan: Plan, device: str) -> nn.Module:
    """Build the model on ``device`` (``meta`` for counting), its parameters drawn from the current random seed."""
    factory = {"device": device, "dtype": torch.bfloat16 if training.precision in HALF_PARAMETERS else torch.float32}
    return Transformer(model, training, plan, factory)


def _as_autocast_on_gpus(x: Tensor) -> Tensor:
    """Cast to fp32 what GPUs' autocast would cast here itself; CPUs' does not, and both shall run the same ops.

    On a GPU an explicit cast would keep a copy that autocast does not.
    """
    return x.float() if x.device.type == "cpu" and torch.is_autocast_enabled("cpu") else x
