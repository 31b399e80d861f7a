"""The measured transformer's attention, with its core eager, sdpa or flash."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from estimator.scenario.model import Model
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from runners.flash.attention import flash_attention
from runners.model.layers import RMSNorm, linear

Core = Callable[[Tensor, Tensor, Tensor, Tensor | None, int, str, float], Tensor]
"""q, k, v (B, heads, S, dim), what is added to the scores, query heads per key head, kind and dropout to values."""


class Attention(nn.Module):
    """Multi-head attention with grouped key/value heads, its core eager, sdpa or flash."""

    def __init__(self, model: Model, training: Training, plan: Plan, factory: dict[str, Any]) -> None:
        super().__init__()
        qkv_bias = model.bias or model.qkv_bias
        self.dim, self.groups, self.kind = model.dim, model.heads // model.kv, training.attention
        self.selective, self.dropout = plan.recompute == "selective", training.dropout
        self.core: Core = eager_core if self.kind == "eager" else fused_core
        widths = [model.query_width, model.kv_width, model.kv_width]
        self.widths = widths
        self.fused = model.position != "rope"
        self.qkv = nn.ModuleList(
            linear(model.hidden, width, qkv_bias, factory) for width in ([sum(widths)] if self.fused else widths)
        )
        self.o = linear(model.query_width, model.hidden, model.bias, factory)
        self.q_norm = RMSNorm(model.dim, factory) if model.qk_norm else None
        self.k_norm = RMSNorm(model.dim, factory) if model.qk_norm else None

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor] | None, bias: Tensor | None) -> Tensor:
        parts = self.qkv[0](x).split(self.widths, dim=-1) if self.fused else [part(x) for part in self.qkv]
        q, k, v = (part.unflatten(-1, (-1, self.dim)) for part in parts)
        v = v.transpose(1, 2)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        if rotary is not None:
            q, k = rotate(q, *rotary), rotate(k, *rotary)
        return merged(self, q, k, v, bias)


def merged(attention: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Heads (B, heads, S, dim) through the core and the output projection, to (B, S, hidden)."""
    given = (q, k, v, bias, attention.groups, attention.kind, attention.dropout)
    core = attention.core
    y = checkpoint(core, *given, use_reentrant=False) if attention.selective else core(*given)
    out: Tensor = attention.o(y.transpose(1, 2).contiguous().flatten(2))
    return out


def eager_core(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, groups: int, kind: str, dropout: float = 0.0
) -> Tensor:
    """softmax(q·kᵀ / sqrt(head_dim) + mask)·v with the whole score matrix in memory."""
    assert kind == "eager"
    k, v = repeat_heads(k, groups), repeat_heads(v, groups)
    scores = torch.matmul(q, k.transpose(2, 3)) * q.shape[-1] ** -0.5
    scores = scores + bias
    weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(F.dropout(weights, dropout), v)


def fused_core(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, groups: int, kind: str, dropout: float = 0.0
) -> Tensor:
    """The same in one kernel: ``sdpa`` as torch chooses, ``flash`` the project's own on a GPU, torch's on a CPU."""
    if kind == "flash" and q.device.type == "cuda":
        assert bias is None, "refused before"
        assert dropout == 0.0, "refused before"
        if torch.is_autocast_enabled("cuda"):  # which casts for ops that it knows
            q, k, v = (x.to(torch.get_autocast_dtype("cuda")) for x in (q, k, v))
        return flash_attention(q, k, v, causal=True)
    backend = sdpa_kernel(SDPBackend.FLASH_ATTENTION) if kind == "flash" else nullcontext()
    with backend:
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=bias, dropout_p=dropout, is_causal=bias is None, enable_gqa=groups > 1
        )


def repeat_heads(x: Tensor, groups: int) -> Tensor:
    """Copy every key/value head for the query heads that share it."""
    if groups == 1:
        return x
    batch, heads, length, dim = x.shape
    return x[:, :, None, :, :].expand(batch, heads, groups, length, dim).reshape(batch, heads * groups, length, dim)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding, x·cos + rotate_half(x)·sin (Su et al., arXiv 2104.09864)."""
    half = x.shape[-1] // 2
    rotated = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return (x * cos) + (rotated * sin)
