"""Latent attention (MLA): queries, keys and values from low-rank latents, as DeepSeek-V2 trains it.

DeepSeek-V2 (arXiv 2405.04434), section 2.1; nothing is absorbed into other products. The order of the small operations
is that of the usual Hugging Face models.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from estimator.scenario.model import Model
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from runners.model.attention import Core, eager_core, fused_core, merged, rotate
from runners.model.layers import RMSNorm, linear


class SharedKey(nn.Module):
    """The rotary key, one for all heads: a place at which ranks that split the heads may add up its gradient."""

    def forward(self, key: Tensor) -> Tensor:
        return key


class LatentAttention(nn.Module):
    """Multi-head attention from latents; ``q_down`` is None where queries have none."""

    def __init__(self, model: Model, training: Training, plan: Plan, factory: dict[str, Any]) -> None:
        super().__init__()
        bias = model.bias or model.qkv_bias
        self.kind, self.dropout, self.selective = training.attention, training.dropout, plan.recompute == "selective"
        self.core: Core = eager_core if self.kind == "eager" else fused_core
        self.groups = 1
        self.rope_dim = model.qk_rope_head_dim
        self.dims = (model.dim - self.rope_dim, self.rope_dim)
        self.kv_dims = (self.dims[0], model.value_dim)
        self.latents = (model.kv_lora_rank, self.rope_dim)
        self.rotary = model.position == "rope"
        rank = model.q_lora_rank
        self.q_down = linear(model.hidden, rank, bias, factory) if rank else None
        self.q_norm = RMSNorm(rank, factory) if rank else None
        self.q_up = linear(rank or model.hidden, model.query_width, False, factory)
        self.kv_down = linear(model.hidden, model.latent_width, bias, factory)
        self.kv_norm = RMSNorm(model.kv_lora_rank, factory)
        self.kv_up = linear(model.kv_lora_rank, model.heads * sum(self.kv_dims), False, factory)
        self.shared_key = SharedKey()
        self.o = linear(model.output_width, model.hidden, model.bias, factory)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor] | None, bias: Tensor | None) -> Tensor:
        down = x if self.q_down is None or self.q_norm is None else self.q_norm(self.q_down(x))
        q = self.q_up(down).unflatten(-1, (-1, sum(self.dims))).transpose(1, 2)
        latent, key = self.kv_down(x).split(self.latents, dim=-1)
        kv = self.kv_up(self.kv_norm(latent)).unflatten(-1, (-1, sum(self.kv_dims))).transpose(1, 2)
        key = self.shared_key(key).unsqueeze(1)
        q_plain, q_rotary = q.split(self.dims, dim=-1)
        k_plain, v = kv.split(self.kv_dims, dim=-1)
        if rotary is not None:
            q_rotary, key = rotate(q_rotary, *rotary), rotate(key, *rotary)
        q = torch.cat((q_plain, q_rotary), dim=-1)
        k = torch.cat((k_plain, key.expand(*k_plain.shape[:-1], -1)), dim=-1)
        return merged(self, q, k, v, bias)
