"""Collectives that a backward pass runs through, each with its adjoint."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from runners.parallel.collectives import all_gather, reduce_scatter
from runners.parallel.mesh import Axis


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis, received: list[int] | None, sent: list[int] | None) -> Tensor:
        ctx.context = axis, received, sent
        x = x.contiguous()
        out = x.new_empty((sum(received) if received is not None else x.shape[0], *x.shape[1:]))
        dist.all_to_all_single(out, x, received, sent, group=axis.group)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        axis, received, sent = ctx.context
        back: Tensor = _AllToAll.apply(gradients[0], axis, sent, received)  # type: ignore[no-untyped-call]
        return back, None, None, None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis) -> Tensor:
        ctx.axis = axis
        out = x.new_empty((axis.size * x.shape[0], *x.shape[1:]))
        all_gather(out, x.contiguous(), group=axis.group)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        axis, gradient = ctx.axis, gradients[0].contiguous()
        out = gradient.new_empty((gradient.shape[0] // axis.size, *gradient.shape[1:]))
        reduce_scatter(out, gradient, dist.ReduceOp.SUM, group=axis.group)
        return out, None


def all_to_all(x: Tensor, axis: Axis, received: list[int] | None = None, sent: list[int] | None = None) -> Tensor:
    """Send the i-th part of the first dimension to the i-th rank; equal parts, or ``received`` and ``sent`` rows."""
    out: Tensor = _AllToAll.apply(x, axis, received, sent)  # type: ignore[no-untyped-call]
    return out


def gather(x: Tensor, axis: Axis) -> Tensor:
    """All ranks' parts one after another along the first dimension; gradients are summed and scattered."""
    out: Tensor = _Gather.apply(x, axis)  # type: ignore[no-untyped-call]
    return out
