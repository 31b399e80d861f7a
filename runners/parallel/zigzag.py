"""Causal ring attention that is balanced, with its backward.

Sequences lie in 2·cp chunks, of which rank r holds the r-th and the r-th from the end, so that in every turn each rank
computes half of a square (Liu 2023, arXiv 2310.01889, for the ring; the order of chunks as in Llama 3, arXiv
2407.21783, section 3.3.2). Backward knows the sums over all keys, with which each piece gives its part of the
gradients alone (Dao 2023, arXiv 2307.08691, section 3.1.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from runners.parallel.mesh import Axis

Forward = Callable[[Tensor, Tensor, Tensor, bool], tuple[Tensor, Tensor]]
"""q, k, v (B, heads, S, dim) and whether causal to the output and the logarithm of the sums (B, heads, S)."""

Backward = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, bool], tuple[Tensor, Tensor, Tensor]]
"""Gradient of the output, q, k, v, output, logarithm of the sums and whether causal to gradients of q, k, v."""


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, axis: Axis, kernels: tuple[Forward, Backward]) -> Tensor:
        forward = kernels[0]
        out, sums = forward(q, k, v, True)
        out = out.float()
        held = [k.contiguous(), v.contiguous()]
        coming, wait = _exchange(held, axis)
        for turn in range(1, axis.size):
            wait()
            held = coming
            if turn + 1 < axis.size:
                coming, wait = _exchange(held, axis)
            queries, keys = _halves(turn, axis, q.shape[2])
            part, part_sums = forward(q[:, :, queries], held[0][:, :, keys], held[1][:, :, keys], False)
            before = sums[:, :, queries]
            total = torch.logaddexp(before, part_sums)
            shares = [torch.exp(x - total).unsqueeze(-1) for x in (before, part_sums)]
            out[:, :, queries] = out[:, :, queries] * shares[0] + part.float() * shares[1]
            sums = sums.clone()
            sums[:, :, queries] = total
        out = out.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, sums)
        ctx.axis, ctx.kernels = axis, kernels
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, sums = ctx.saved_tensors
        axis: Axis = ctx.axis
        backward: Backward = ctx.kernels[1]
        gradient = gradients[0].contiguous()
        held = [k.contiguous(), v.contiguous()]
        coming, wait = _exchange(held, axis)
        found = backward(gradient, q, k, v, out, sums, True)
        dq, dk, dv = (x.float() for x in found)
        travelling: list[Tensor] = []
        for turn in range(1, axis.size):
            wait()
            held = coming
            if turn + 1 < axis.size:
                coming, wait = _exchange(held, axis)
            queries, keys = _halves(turn, axis, q.shape[2])
            keys_values = [x[:, :, keys] for x in held]
            part = backward(
                gradient[:, :, queries],
                q[:, :, queries],
                keys_values[0],
                keys_values[1],
                out[:, :, queries],
                sums[:, :, queries],
                False,
            )
            dq[:, :, queries] += part[0]
            # Gradients follow the keys from rank to rank, each of which adds its part, and end where those belong
            if turn == 1:
                travelling = [torch.zeros_like(k), torch.zeros_like(v)]
            else:
                travelling, arrived = _exchange(travelling, axis)
                arrived()
            for sum_, one in zip(travelling, part[1:], strict=True):
                sum_[:, :, keys] += one
        travelling, arrived = _exchange(travelling, axis)
        arrived()
        dk, dv = dk + travelling[0], dv + travelling[1]
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None


def zigzag_ring(q: Tensor, k: Tensor, v: Tensor, axis: Axis, kernels: tuple[Forward, Backward]) -> Tensor:
    """Causal attention of this rank's queries (B, heads, S/cp, dim) to all keys, which pass by."""
    out: Tensor = _Ring.apply(q, k, v, axis, kernels)  # type: ignore[no-untyped-call]
    return out


def places_of(length: int, axis: Axis) -> Tensor:
    """Positions of this rank's tokens of a sequence: chunks r and 2·cp − 1 − r of 2·cp."""
    chunks = torch.arange(length).view(2 * axis.size, -1)
    return torch.cat((chunks[axis.rank], chunks[2 * axis.size - 1 - axis.rank]))


def _halves(turn: int, axis: Axis, length: int) -> tuple[slice, slice]:
    """Which of the own queries see which of the keys that come in a turn; the other two quarters are masked.

    Keys of an earlier rank: their first chunk is before all own queries, their second after. Those of a later one: both
    are before the own second chunk and after the first.
    """
    half = length // 2
    source = (axis.rank - turn) % axis.size
    return (slice(0, length), slice(0, half)) if source < axis.rank else (slice(half, length), slice(0, length))


def _exchange(held: list[Tensor], axis: Axis) -> tuple[list[Tensor], Callable[[], None]]:
    """Send to the next rank and receive from the one before; returns what comes and how to wait for it."""
    coming = [torch.empty_like(tensor) for tensor in held]
    after, before = (dist.get_global_rank(axis.group, (axis.rank + step) % axis.size) for step in (1, -1))
    operations = [dist.P2POp(dist.isend, tensor, after, axis.group) for tensor in held]
    operations += [dist.P2POp(dist.irecv, tensor, before, axis.group) for tensor in coming]
    works = dist.batch_isend_irecv(operations)

    def wait() -> None:
        for work in works:
            work.wait()

    return coming, wait


def kernels_for(q: Tensor, kind: str) -> tuple[Forward, Backward]:
    """Torch's FlashAttention where the device and the numbers have it, else products with the scores in memory."""
    if kind != "eager" and q.is_cuda and q.dtype in (torch.float16, torch.bfloat16):
        return _flash, _flash_backward
    return _eager, _eager_backward


def _flash(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    found = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)
    return found[0], found[1]


def _flash_backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    state = torch.empty(2, dtype=torch.uint64, device=q.device)  # of dropout, which there is none of
    found = torch.ops.aten._scaled_dot_product_flash_attention_backward(
        gradient, q, k, v, out, sums.contiguous(), None, None, q.shape[2], k.shape[2], 0.0, causal, state, state[:0]
    )
    return found[0], found[1], found[2]


def _eager(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    scores = _scores(q, k, causal)
    sums = torch.logsumexp(scores, dim=-1)
    weights = torch.exp(scores - sums.unsqueeze(-1)).to(v.dtype)
    return torch.matmul(weights, v), sums


def _eager_backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    weights = torch.exp(_scores(q, k, causal) - sums.unsqueeze(-1))
    dv = torch.matmul(weights.to(v.dtype).transpose(2, 3), gradient)
    inner = (gradient.float() * out.float()).sum(-1, keepdim=True)
    scores = (weights * (torch.matmul(gradient, v.transpose(2, 3)).float() - inner) * q.shape[-1] ** -0.5).to(q.dtype)
    return torch.matmul(scores, k), torch.matmul(scores.transpose(2, 3), q), dv


def _scores(q: Tensor, k: Tensor, causal: bool) -> Tensor:
    scores: Tensor = torch.matmul(q, k.transpose(2, 3)).float() * q.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    return scores
