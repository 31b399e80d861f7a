"""The measured transformer: what a plain eager PyTorch model of these shapes launches, kernel for kernel.

The order of the small operations (norm, rotary embedding, score mask, casts) is that of the usual Hugging Face models
in eager mode, because kernel lists and host time decide how long a step takes: q, k and v are one projection where
positions are not rotary (GPT-2, MPT), three where they are (Llama, Qwen).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from estimator.model import Model
from estimator.plan import Plan
from estimator.training import Training
from runners.flash.attention import flash_attention

AUTOCAST_DTYPES = {"fp16-amp": torch.float16, "bf16-amp": torch.bfloat16}
PARAMETER_DTYPES = {"bf16": torch.bfloat16}
ROTARY_BASE = 10_000.0
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


class Attention(nn.Module):
    """Multi-head attention with grouped key/value heads, its core eager, sdpa or flash."""

    def __init__(self, model: Model, training: Training, plan: Plan, factory: dict[str, Any]) -> None:
        super().__init__()
        qkv_bias = model.bias or model.qkv_bias
        self.dim, self.groups, self.kind = model.dim, model.heads // model.kv, training.attention
        self.selective, self.dropout = plan.recompute == "selective", training.dropout
        widths = [model.query_width, model.kv_width, model.kv_width]
        self.widths = widths
        self.fused = model.position != "rope"
        self.qkv = nn.ModuleList(
            _linear(model.hidden, width, qkv_bias, factory) for width in ([sum(widths)] if self.fused else widths)
        )
        self.o = _linear(model.query_width, model.hidden, model.bias, factory)
        self.q_norm = RMSNorm(model.dim, factory) if model.qk_norm else None
        self.k_norm = RMSNorm(model.dim, factory) if model.qk_norm else None

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor] | None, bias: Tensor | None) -> Tensor:
        batch, length, _ = x.shape
        parts = self.qkv[0](x).split(self.widths, dim=-1) if self.fused else [linear(x) for linear in self.qkv]
        q, k, v = (part.view(batch, length, -1, self.dim) for part in parts)
        v = v.transpose(1, 2)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        if rotary is not None:
            q, k = rotate(q, *rotary), rotate(k, *rotary)
        core = eager_core if self.kind == "eager" else fused_core
        if self.selective:
            y = checkpoint(core, q, k, v, bias, self.groups, self.kind, self.dropout, use_reentrant=False)
        else:
            y = core(q, k, v, bias, self.groups, self.kind, self.dropout)
        out: Tensor = self.o(y.transpose(1, 2).contiguous().view(batch, length, -1))
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


class FeedForward(nn.Module):
    """down(act(up(x))), or down(act(gate(x)) · up(x)) where gated."""

    def __init__(self, model: Model, factory: dict[str, Any]) -> None:
        super().__init__()
        self.act = ACTIVATIONS[model.activation]
        self.gate = _linear(model.hidden, model.ffn, model.bias, factory) if model.gated_ffn else None
        self.up = _linear(model.hidden, model.ffn, model.bias, factory)
        self.down = _linear(model.ffn, model.hidden, model.bias, factory)

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
        self.attention_norm = _norm(model, factory)
        self.attention = Attention(model, training, plan, factory)
        self.ffn_norm = _norm(model, factory)
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
        self.embedding = _embedding(model.vocab, model.hidden, factory)
        rows = (model.max_positions or training.seq_len) if model.position == "learned" else 0
        self.positions = _embedding(rows, model.hidden, factory) if rows else None
        self.blocks = nn.ModuleList(Block(model, training, plan, factory) for _ in range(model.layers))
        self.norm = _norm(model, factory)
        self.head = _linear(model.hidden, model.vocab, False, factory)
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
    factory = {"device": device, "dtype": PARAMETER_DTYPES.get(training.precision, torch.float32)}
    return Transformer(model, training, plan, factory)


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


def optimizer_of(
    module: nn.Module, training: Training, kernel: str = "default", *, capturable: bool = False
) -> torch.optim.Optimizer:
    """AdamW, or SGD without momentum; ``kernel`` is default (on a GPU foreach), foreach, fused or for-loop.

    ``capturable`` keeps AdamW's counters on the device, as CUDA graphs need it.
    """
    chosen: dict[str, Any] = {name: kernel == name for name in ("foreach", "fused") if kernel != "default"}
    if training.optimizer == "sgd":
        return torch.optim.SGD(module.parameters(), lr=1e-4, **chosen)
    return torch.optim.AdamW(module.parameters(), lr=1e-4, capturable=capturable, **chosen)


def _as_autocast_on_gpus(x: Tensor) -> Tensor:
    """Cast to fp32 what GPUs' autocast would cast here itself; CPUs' does not, and both shall run the same ops.

    On a GPU an explicit cast would keep a copy that autocast does not.
    """
    return x.float() if x.device.type == "cpu" and torch.is_autocast_enabled("cpu") else x


def _linear(inputs: int, outputs: int, bias: bool, factory: dict[str, Any]) -> nn.Linear:
    linear: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs, bias=bias, **factory)  # type: ignore[no-untyped-call]
    nn.init.normal_(linear.weight, std=INITIAL_STD)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
    return linear


def _embedding(rows: int, width: int, factory: dict[str, Any]) -> nn.Embedding:
    embedding: nn.Embedding = nn.utils.skip_init(nn.Embedding, rows, width, **factory)  # type: ignore[no-untyped-call]
    nn.init.normal_(embedding.weight, std=INITIAL_STD)
    return embedding


def _norm(model: Model, factory: dict[str, Any]) -> nn.Module:
    return RMSNorm(model.hidden, factory) if model.norm == "rms" else nn.LayerNorm(model.hidden, **factory)
