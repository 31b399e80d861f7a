"""Ring attention: every rank keeps its queries, all keys and values pass by (Liu 2023, arXiv 2310.01889)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from runners.ranks import Ranks

Block = Callable[[Tensor, Tensor, Tensor, bool], tuple[Tensor, Tensor]]
"""Attention of some queries to one block of keys: its result and the logarithm of its sums (…, queries)."""


def ring_attention(q: Tensor, k: Tensor, v: Tensor, ranks: Ranks, block: Block) -> Tensor:
    """Causal attention of tensors (h, N/P, D) whose rank r holds the r-th part of the sequence; the result likewise.

    While a block is computed, the next one is on its way. Blocks behind all own queries are received but not used, so
    the last rank has P times the work of the first: a ring without the zigzag that balances it.
    """
    out, sums = block(q, k, v, True)
    out = out.float()
    held = torch.stack((k, v))
    for turn in range(1, ranks.world_size):
        coming, wait = exchange(held, ranks)
        if turn > 1:
            source = (ranks.rank - turn + 1) % ranks.world_size
            if source < ranks.rank:
                out, sums = merged(out, sums, *block(q, held[0], held[1], False))
        wait()
        held = coming
    if ranks.world_size > 1 and (ranks.rank + 1) % ranks.world_size < ranks.rank:
        out, sums = merged(out, sums, *block(q, held[0], held[1], False))
    return out.to(q.dtype)


def exchange(held: Tensor, ranks: Ranks) -> tuple[Tensor, Callable[[], None]]:
    """Send to the next rank and receive from the one before; returns what comes and how to wait for it."""
    coming = torch.empty_like(held)
    after, before = (ranks.rank + 1) % ranks.world_size, (ranks.rank - 1) % ranks.world_size
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, held, after), dist.P2POp(dist.irecv, coming, before)])

    def wait() -> None:
        for work in works:
            work.wait()

    return coming, wait


def merged(out: Tensor, sums: Tensor, other: Tensor, other_sums: Tensor) -> tuple[Tensor, Tensor]:
    """Put two partial results together: o = Σ oᵢ·exp(lseᵢ − lse), lse = log Σ exp(lseᵢ)."""
    total = torch.logaddexp(sums, other_sums)
    weight, other_weight = torch.exp(sums - total), torch.exp(other_sums - total)
    return out * weight.unsqueeze(-1) + other.float() * other_weight.unsqueeze(-1), total


def eager_block(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """A block whose scores are in memory; the softmax in fp32."""
    scores = torch.matmul(q, k.transpose(-2, -1)).float() / math.sqrt(q.shape[-1])
    if causal:
        mask = torch.full(scores.shape[-2:], -math.inf, device=q.device).triu(1)
        scores = scores + mask
    sums = torch.logsumexp(scores, dim=-1)
    return torch.matmul(torch.exp(scores - sums.unsqueeze(-1)).to(v.dtype), v), sums


def fused_block(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """A block by PyTorch's FlashAttention kernel, which also returns the sums; bf16 and fp16 on a GPU."""
    four = (tensor.unsqueeze(0) for tensor in (q, k, v))
    found = torch.ops.aten._scaled_dot_product_flash_attention(*four, 0.0, causal)
    return found[0].squeeze(0), found[1].squeeze(0)


def block_for(q: Tensor) -> Block:
    """The fused one where it runs."""
    return fused_block if q.is_cuda and q.dtype in (torch.float16, torch.bfloat16) else eager_block
