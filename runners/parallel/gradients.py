"""Data parallel training with whole copies: the ways to average gradients, from one call per tensor to buckets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from runners.model.training import optimizer_of
from runners.model.transformer import build
from runners.parallel.variants import MIB, Spread, Variant, VariantSetting, held, step_of
from runners.ranks import Ranks
from runners.train_step import empty


def prepare(variant: Variant, setting: VariantSetting, ranks: Ranks) -> Spread:
    """Build one copy per rank, equal everywhere, and the chosen exchange of its gradients."""
    module: nn.Module = build(setting.model, setting.training, setting.plan, ranks.device)
    exchange: Callable[[bool], AbstractContextManager[Any]] = lambda communicate: nullcontext()  # noqa: E731
    finish: Callable[[], None] | None = None
    count = held(module)
    if variant.kind == "torch-ddp":
        wrapped = DistributedDataParallel(
            module,
            device_ids=[torch.device(ranks.device).index] if ranks.cuda else None,
            bucket_cap_mb=variant.bucket_bytes / MIB,
        )
        module = wrapped
        exchange = lambda communicate: nullcontext() if communicate else wrapped.no_sync()  # noqa: E731
    elif variant.kind in ("naive", "flat"):
        parameters = list(module.parameters())
        finish = lambda: (_one_by_one if variant.kind == "naive" else _flat)(parameters, ranks)  # noqa: E731
    elif variant.kind != "single":
        limit = variant.bucket_bytes if variant.kind == "bucketed" else 0
        buckets = Buckets(module, limit, ranks)
        exchange, finish = buckets.exchange, buckets.finish
    # Alone, every rank sees the same data, so that its loss is what tensor parallel ranks must find too
    seed = setting.seed + 1 + (ranks.rank if variant.kind != "single" else 0)
    optimizer = optimizer_of(module, setting.training)
    step, loss = step_of(module, optimizer, setting, ranks, seed=seed, exchange=exchange, finish=finish)
    copies = ranks.world_size if variant.kind != "single" else 1
    return Spread(
        step=step,
        silent=True,
        global_batch=copies * setting.plan.micro_batch,
        parameters=count,
        last_loss=loss,
        discard=partial(empty, module, optimizer),
    )


def _one_by_one(parameters: list[nn.Parameter], ranks: Ranks) -> None:
    """One all-reduce per tensor, each waited for before the next is asked for."""
    for parameter in parameters:
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad.div_(ranks.world_size)


def _flat(parameters: list[nn.Parameter], ranks: Ranks) -> None:
    """All gradients copied into one tensor, one all-reduce, and copied back."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = flattened(gradients)
    dist.all_reduce(flat)
    flat.div_(ranks.world_size)
    copy_back(flat, gradients)


class Buckets:
    """Gradients all-reduced while backward still runs, as soon as a bucket of neighbours is complete.

    ``limit_bytes`` 0 makes every tensor a bucket of its own, which is sent as it is, without a copy.
    """

    def __init__(self, module: nn.Module, limit_bytes: int, ranks: Ranks) -> None:
        self.ranks, self.active = ranks, True
        self.buckets = in_buckets(list(module.parameters()), limit_bytes)
        self.missing: list[int] = []
        self.sent: list[tuple[int, Tensor, dist.Work]] = []
        self.reset()
        for index, bucket in enumerate(self.buckets):
            for parameter in bucket:
                hook = lambda _, index=index: self.ready(index)  # noqa: E731
                parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]

    def reset(self) -> None:
        """Forget what was sent in the last step."""
        self.missing = [len(bucket) for bucket in self.buckets]
        self.sent = []

    def exchange(self, communicate: bool) -> AbstractContextManager[Any]:
        """Called before forward: whether this step's gradients are exchanged."""
        self.active = communicate
        self.reset()
        return nullcontext()

    def ready(self, index: int) -> None:
        """One more gradient of this bucket is there; with the last of them the bucket is sent."""
        if not self.active:
            return
        self.missing[index] -= 1
        if self.missing[index] == 0:
            gradients = _gradients(self.buckets[index])
            flat = gradients[0] if len(gradients) == 1 else flattened(gradients)
            work = dist.all_reduce(flat, async_op=True)
            self.sent.append((index, flat, work))

    def finish(self) -> None:
        """Wait for all buckets and copy the means back."""
        for index, flat, work in self.sent:
            work.wait()
            flat.div_(self.ranks.world_size)
            gradients = _gradients(self.buckets[index])
            if len(gradients) > 1:
                copy_back(flat, gradients)
        self.reset()


def flattened(tensors: list[Tensor]) -> Tensor:
    """One new tensor with the numbers of all of them."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def copy_back(flat: Tensor, tensors: list[Tensor]) -> None:
    """The other way round."""
    pieces = torch.split(flat, [tensor.numel() for tensor in tensors])
    for tensor, piece in zip(tensors, pieces, strict=True):
        tensor.copy_(piece.view_as(tensor))


def in_buckets(parameters: list[nn.Parameter], limit_bytes: int) -> list[list[nn.Parameter]]:
    """Neighbours of one type up to ``limit_bytes`` together, from the last to the first, as backward makes them."""
    buckets: list[list[nn.Parameter]] = []
    size = 0
    for parameter in reversed(parameters):
        bytes_ = parameter.numel() * parameter.element_size()
        full = not buckets or size + bytes_ > limit_bytes or buckets[-1][0].dtype != parameter.dtype
        if full:
            buckets.append([])
            size = 0
        buckets[-1].append(parameter)
        size += bytes_
    return buckets


def _gradients(bucket: list[nn.Parameter]) -> list[Tensor]:
    return [parameter.grad for parameter in bucket if parameter.grad is not None]
