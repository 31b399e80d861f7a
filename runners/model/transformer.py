"""The measured transformer: what a plain eager PyTorch model of these shapes launches, kernel for kernel.

The order of the small operations (norm, rotary embedding, score mask, casts) is that of the usual Hugging Face models
in eager mode, because kernel lists and host time decide how long a step takes: q, k and v are one projection where
positions are not rotary (GPT-2, MPT), three where they are (Llama, Qwen).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from estimator.scenario.model import Model
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from runners.model.attention import Attention
from runners.model.experts import Experts, MixtureOfExperts
from runners.model.latent_attention import LatentAttention
from runners.model.layers import draw_from, embedding, linear, norm
from runners.refusals import HALF_PARAMETERS

ROTARY_BASE = 10_000.0


class FeedForward(nn.Module):
    """down(act(up(x))), or down(act(gate(x)) · up(x)) where gated."""

    def __init__(self, model: Model, width: int, factory: dict[str, Any]) -> None:
        super().__init__()
        self.act = ACTIVATIONS[model.activation]
        self.gate = linear(model.hidden, width, model.bias, factory) if model.gated_ffn else None
        self.up = linear(model.hidden, width, model.bias, factory)
        self.down = linear(width, model.hidden, model.bias, factory)

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


@dataclass(frozen=True, kw_only=True)
class Share:
    """What of a model one rank builds: some of its blocks, embedding and head, and in each block some experts.

    ``experts`` of ``of`` equal shares; ``way`` is how they run. ``cp``: ranks that share a sequence.
    """

    blocks: range
    embedding: bool = True
    head: bool = True
    experts: int = 0
    of: int = 1
    way: str = "loop"
    cp: int = 1


class Block(nn.Module):
    """One pre-norm transformer block."""

    def __init__(
        self, model: Model, training: Training, plan: Plan, factory: dict[str, Any], index: int, share: Share, seed: int
    ) -> None:
        super().__init__()
        self.dropout = training.dropout
        self.attention_norm = norm(model, factory)
        kind = LatentAttention if model.latent else Attention
        self.attention = kind(model, training, plan, factory)
        self.ffn_norm = norm(model, factory)
        self.ffn: nn.Module
        if has_experts(model, index):
            self.ffn = _experts(model, factory, share, seed)
        else:
            self.ffn = FeedForward(model, model.ffn, factory)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor] | None, bias: Tensor | None) -> Tensor:
        x = x + F.dropout(self.attention(self.attention_norm(x), rotary, bias), self.dropout)
        y: Tensor = x + F.dropout(self.ffn(self.ffn_norm(x)), self.dropout)
        return y


def has_experts(model: Model, index: int) -> bool:
    """Whether block ``index`` (from 0) has experts, as ``block_kinds`` counts them."""
    return model.experts > 0 and index >= model.dense_layers and (index + 1) % model.moe_every == 0


def _experts(model: Model, factory: dict[str, Any], share: Share, seed: int) -> nn.Module:
    each = model.experts // share.of
    held = range(share.experts * each, (share.experts + 1) * each)
    shared = FeedForward(model, model.shared_ffn, factory) if model.shared_experts else None
    gate = linear(model.hidden, 1, False, factory) if model.shared_expert_gate else None
    return MixtureOfExperts(Experts(model, share.way, held, ACTIVATIONS[model.activation], factory, seed), shared, gate)


class Transformer(nn.Module):
    """Tokens (B, S) to logits (B, S, V), or the part of that which one rank holds.

    Each block is drawn from a seed of its own, so that it is the same on whichever rank it lies; its name is its index
    in the whole model. ``places`` are the positions of this rank's tokens and ``key_places`` those that they attend
    to, where they are not all; ``bias_length`` is the length of a mask that is not as long as ``x``.
    """

    def __init__(
        self, model: Model, training: Training, plan: Plan, factory: dict[str, Any], share: Share | None = None
    ) -> None:
        super().__init__()
        self.model = model
        share = share or Share(blocks=range(model.layers))
        self.eager = training.attention == "eager"
        self.recompute = plan.recompute_every if plan.recompute == "full" else 0
        self.length = training.seq_len // share.cp
        first = torch.initial_seed()
        self.embedding = embedding(model.vocab, model.hidden, factory) if share.embedding else None
        rows = (model.max_positions or training.seq_len) if model.position == "learned" and share.embedding else 0
        self.positions = embedding(rows, model.hidden, factory) if rows else None
        self.blocks = nn.ModuleDict()
        for index in share.blocks:
            draw_from(first + 1 + index, factory)
            self.blocks[str(index)] = Block(model, training, plan, factory, index, share, first + 1 + index)
        self.norm = norm(model, factory) if share.head else None
        self.head: nn.Linear | None = None
        if share.head:
            draw_from(first + (0 if model.tied_embedding else 1 + model.layers), factory)
            self.head = linear(model.hidden, model.vocab, False, factory)
            if model.tied_embedding and self.embedding is not None:
                self.head.weight = self.embedding.weight
        width = model.qk_rope_head_dim if model.latent else model.dim
        exponents = torch.arange(0, width, 2, dtype=torch.float32, device=factory["device"]) / width
        # No buffer: DistributedDataParallel would broadcast it in every forward.
        self.inverse_frequencies = 1.0 / ROTARY_BASE**exponents
        self.places: Tensor | None = None
        self.key_places: Tensor | None = None
        self.bias_length = 0

    def forward(self, x: Tensor) -> Tensor:
        length = self.length
        if self.embedding is not None:
            length = x.shape[1]
            places = torch.arange(length, device=x.device) if self.places is None else self.places
            x = self.embedding(x)
            if self.positions is not None:
                x = x + self.positions(places.unsqueeze(0))
        rotary = self.rotary(x, length) if self.model.position == "rope" else None
        bias = self.score_bias(x, length)
        blocks = list(self.blocks.values())
        every = self.recompute
        for start in range(0, len(blocks), every or 1):
            if every:
                x = checkpoint(_run, blocks[start : start + every], x, rotary, bias, use_reentrant=False)
            else:
                x = blocks[start](x, rotary, bias)
        if self.head is None or self.norm is None:
            return x
        logits: Tensor = self.head(self.norm(x))
        return logits

    @torch.no_grad()
    def rotary(self, x: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Tables cos and sin (S, head_dim), computed in fp32 and cast to the dtype of the hidden states."""
        positions = torch.arange(length, dtype=torch.float32, device=x.device)
        if self.places is not None:
            positions = self.places.float()
        angles = positions[:, None] * self.inverse_frequencies[None, :]
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    @torch.no_grad()
    def score_bias(self, x: Tensor, length: int) -> Tensor | None:
        """What is added to the scores: the causal mask, and for alibi slope·key position; None where sdpa masks."""
        alibi = self.model.position == "alibi"
        if not (self.eager or alibi):
            return None
        lowest, length = torch.finfo(x.dtype).min, self.bias_length or length
        if self.places is not None and self.key_places is not None:
            hidden = self.key_places[None, :] > self.places[:, None]
            return torch.zeros(hidden.shape, dtype=x.dtype, device=x.device).masked_fill(hidden, lowest)
        bias = torch.full((length, length), lowest, dtype=x.dtype, device=x.device).triu(1)
        if not alibi:
            return bias
        heads = torch.arange(1, self.model.heads + 1, dtype=torch.float32, device=x.device)
        slopes = 2.0 ** (-8.0 * heads / self.model.heads)
        distances = torch.arange(1 - length, 1, dtype=torch.float32, device=x.device)
        return bias + (slopes[:, None, None] * distances).to(x.dtype)


def _run(blocks: list[nn.Module], x: Tensor, rotary: tuple[Tensor, Tensor] | None, bias: Tensor | None) -> Tensor:
    for block in blocks:
        x = block(x, rotary, bias)
    return x


def build(model: Model, training: Training, plan: Plan, device: str, share: Share | None = None) -> Transformer:
    """Build the model on ``device`` (``meta`` for counting), or a share of it, drawn from the current random seed."""
    factory = {"device": device, "dtype": torch.bfloat16 if training.precision in HALF_PARAMETERS else torch.float32}
    return Transformer(model, training, plan, factory, share)


def _as_autocast_on_gpus(x: Tensor) -> Tensor:
    """Cast to fp32 what GPUs' autocast would cast here itself; CPUs' does not, and both shall run the same ops.

    On a GPU an explicit cast would keep a copy that autocast does not.
    """
    return x.float() if x.device.type == "cpu" and torch.is_autocast_enabled("cpu") else x
