"""FlashAttention-2 in plain torch, block by block as the kernels do it: for CPUs, and to check the kernels against.

Dao (arXiv 2307.08691), algorithms 1 and 2. Products run in the dtype of the tensors, everything else in fp32 (float64
stays float64). The logarithm of the softmax's denominator is kept in base 2, as the kernels keep it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LOG2_E = math.log2(math.e)
BLOCK = 128


def forward(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float, block: int = BLOCK) -> tuple[Tensor, Tensor]:
    """Attention of (B, h, S, D) tensors and, by row, the logarithm of the softmax's denominator in base 2."""
    wide = torch.promote_types(q.dtype, torch.float32)
    keys, values = _shared(k, q), _shared(v, q)
    out = torch.zeros(q.shape, dtype=wide, device=q.device)
    sums = torch.zeros(q.shape[:-1], dtype=wide, device=q.device)
    largest = torch.full_like(sums, -math.inf)
    for start in range(0, k.shape[2], block):
        here = slice(start, start + block)
        seen = slice(start if causal else 0, None)  # queries before the block see none of it
        scores = _scores(q[:, :, seen], keys[:, :, here], causal, scale, wide)
        larger = torch.maximum(largest[:, :, seen], scores.amax(-1))
        weights = torch.exp2(scores - larger[..., None])
        shrink = torch.exp2(largest[:, :, seen] - larger)
        sums[:, :, seen] = sums[:, :, seen] * shrink + weights.sum(-1)
        added = (weights.to(v.dtype) @ values[:, :, here]).to(wide)
        out[:, :, seen] = out[:, :, seen] * shrink[..., None] + added
        largest[:, :, seen] = larger
    return (out / sums[..., None]).to(q.dtype), largest + torch.log2(sums)


def backward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, dout: Tensor, causal: bool, scale: float,
    block: int = BLOCK,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of q, k and v from that of the output; scores are computed again, block by block."""
    wide = lse.dtype
    keys, values = _shared(k, q), _shared(v, q)
    dq = torch.zeros(q.shape, dtype=wide, device=q.device)
    dk, dv = torch.zeros(keys.shape, dtype=wide, device=q.device), torch.zeros(keys.shape, dtype=wide, device=q.device)
    delta = (out.to(wide) * dout.to(wide)).sum(-1, keepdim=True)
    for start in range(0, k.shape[2], block):
        here = slice(start, start + block)
        seen = slice(start if causal else 0, None)
        q_seen, dout_seen = q[:, :, seen], dout[:, :, seen]
        scores = _scores(q_seen, keys[:, :, here], causal, scale, wide)
        weights = torch.exp2(scores - lse[:, :, seen, None])
        dv[:, :, here] = (weights.to(v.dtype).transpose(2, 3) @ dout_seen).to(wide)
        dweights = (dout_seen @ values[:, :, here].transpose(2, 3)).to(wide)
        dscores = (weights * (dweights - delta[:, :, seen])).to(q.dtype)
        dk[:, :, here] = (dscores.transpose(2, 3) @ q_seen).to(wide) * scale
        dq[:, :, seen] += (dscores @ keys[:, :, here]).to(wide) * scale
    heads = (k.shape[0], k.shape[1], -1, *k.shape[2:])
    return dq.to(q.dtype), dk.view(heads).sum(2).to(k.dtype), dv.view(heads).sum(2).to(v.dtype)


def _scores(q: Tensor, k: Tensor, causal: bool, scale: float, wide: torch.dtype) -> Tensor:
    """Scores in base 2; where causal, ``q`` and ``k`` begin at the same position."""
    scores = (q @ k.transpose(2, 3)).to(wide) * (scale * LOG2_E)
    if causal:
        hidden = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    return scores


def _shared(x: Tensor, q: Tensor) -> Tensor:
    """Give every query head its key head."""
    return x if x.shape[1] == q.shape[1] else x.repeat_interleave(q.shape[1] // x.shape[1], 1)
