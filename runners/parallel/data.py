"""What data parallel ranks do with gradients and states under a plan: DDP in its modes, and ZeRO-1 and 2.

FSDP and ZeRO-3 are torch's ``fully_shard``, which exchanges by itself (``plan.py``). Rajbhandari 2020 (arXiv
1910.02054), section 5, for ZeRO; Zhang 2022 (arXiv 2205.00119), section 3.3, for shards inside and copies outside.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from runners.parallel.collectives import all_gather, reduce_scatter
from runners.parallel.gradients import copy_back, flattened, in_buckets
from runners.parallel.mesh import Axis


@dataclass(kw_only=True)
class Exchange:
    """How a step's gradients meet: ``micro_batch(last)`` surrounds one, ``finish`` follows the last backward."""

    micro_batch: Callable[[bool], AbstractContextManager[Any]] = lambda last: nullcontext()
    finish: Callable[[], None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class Averaged:
    """Parameters whose gradients are summed over the ranks of ``axis`` and divided by ``divisor``."""

    parameters: list[nn.Parameter]
    axis: Axis
    divisor: int


def all_reduced(groups: list[Averaged], *, mode: str, bucket_bytes: int, beside_backward: bool) -> Exchange:
    """Gradients summed after backward in one flat tensor or one by one, or in buckets, beside backward if asked to."""
    groups = [group for group in groups if group.parameters and (group.axis.size > 1 or group.divisor > 1)]
    if mode == "naive":
        return Exchange(finish=lambda: _one_by_one(groups))
    limit = bucket_bytes if mode == "bucketed" else 2**62
    buckets = [_Bucket(tensors, group) for group in groups for tensors in in_buckets(group.parameters, limit)]
    beside = beside_backward and mode == "bucketed"
    return _bucketed(buckets, beside)


def _bucketed(buckets: list[Any], beside: bool) -> Exchange:
    active = False
    flying: Any = None

    def taken() -> None:
        nonlocal flying
        if flying is not None:
            flying.take()
        flying = None

    def micro_batch(last: bool) -> AbstractContextManager[Any]:
        nonlocal active
        active = last
        taken()
        for bucket in buckets:
            bucket.missing = len(bucket.parameters)
        return nullcontext()

    def ready(bucket: Any) -> None:
        nonlocal flying
        if active or bucket.every_time:
            bucket.missing -= 1
            if bucket.missing == 0:
                taken()  # gradients that are not kept are given back one bucket later, as fully_shard does it
                bucket.send()
                flying = bucket if bucket.every_time else None

    if beside:
        for bucket in buckets:
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(lambda _, bucket=bucket: ready(bucket))

    def finish() -> None:
        for bucket in buckets:
            if not bucket.sent:
                bucket.send()
        for bucket in buckets:
            bucket.receive()

    return Exchange(micro_batch=micro_batch, finish=finish)


class _Bucket:
    """Neighbouring gradients that are all-reduced together; one alone as it is, without a copy."""

    every_time = False

    def __init__(self, parameters: list[nn.Parameter], group: Averaged) -> None:
        self.parameters, self.group = parameters, group
        self.missing, self.sent, self.flat = len(parameters), False, torch.empty(0)
        self.work: dist.Work | None = None

    def send(self) -> None:
        tensors = [local_gradient(parameter) for parameter in self.parameters]
        self.flat = tensors[0] if len(tensors) == 1 and tensors[0].is_contiguous() else flattened(tensors)
        if self.group.axis.size > 1:
            self.work = dist.all_reduce(self.flat, group=self.group.axis.group, async_op=True)
        self.sent = True

    def receive(self) -> None:
        if self.work is not None:
            self.work.wait()
        self.flat.div_(self.group.divisor)
        tensors = [local_gradient(parameter) for parameter in self.parameters]
        if self.flat.data_ptr() != tensors[0].data_ptr():
            copy_back(self.flat, tensors)
        self.sent, self.work, self.flat = False, None, torch.empty(0)


def _one_by_one(groups: list[Averaged]) -> None:
    for group in groups:
        for parameter in group.parameters:
            gradient = local_gradient(parameter)
            if group.axis.size > 1:
                dist.all_reduce(gradient, group=group.axis.group)
            gradient.div_(group.divisor)


class ShardedStates:
    """ZeRO-1 and ZeRO-2: parameters in flat buckets, of which this rank updates one part each.

    ZeRO-1 keeps gradients until the last micro-batch and scatters their sum, ZeRO-2 scatters those of every micro-batch
    and keeps its share alone. Parameters become views of the buckets, so that gathering writes them in place.
    """

    def __init__(
        self, module: nn.Module, parameters: list[nn.Parameter], *, shard: Axis, replica: Axis, divisor: int,
        bucket_bytes: int, keeps_gradients: bool, beside_backward: bool,
    ) -> None:  # fmt: skip
        groups = in_buckets(parameters, bucket_bytes)
        made = [_StateBucket(group, shard, replica, divisor, not keeps_gradients) for group in groups]
        views = {
            id(old): new
            for group, bucket in zip(groups, made, strict=True)
            for old, new in zip(group, bucket.parameters, strict=True)
        }
        for owner in module.modules():
            for name, parameter in list(owner.named_parameters(recurse=False)):
                if id(parameter) in views:
                    setattr(owner, name, views[id(parameter)])
        self.buckets = made
        self.exchange = _bucketed(made, beside_backward)

    def owned(self) -> nn.Module:
        """This rank's parts of all buckets, for its optimizer."""
        return nn.ParameterList(bucket.owned for bucket in self.buckets)

    def gather(self) -> None:
        """Put all ranks' new parts together."""
        for bucket in self.buckets:
            all_gather(bucket.flat, bucket.owned.detach().clone(), group=bucket.shard.group)


class _StateBucket:
    def __init__(
        self, parameters: list[nn.Parameter], shard: Axis, replica: Axis, divisor: int, every_time: bool
    ) -> None:
        self.shard, self.replica, self.divisor = shard, replica, divisor
        self.every_time = every_time
        locals_ = [_local(parameter.detach()) for parameter in parameters]
        self.count = sum(tensor.numel() for tensor in locals_)
        size = -(-self.count // shard.size)
        self.flat = torch.zeros(size * shard.size, dtype=locals_[0].dtype, device=locals_[0].device)
        copy_back_into(self.flat[: self.count], locals_)
        views = torch.split(self.flat[: self.count], [tensor.numel() for tensor in locals_])
        self.parameters = [
            nn.Parameter(_like(view.view_as(tensor), old))
            for view, tensor, old in zip(views, locals_, parameters, strict=True)
        ]
        self.owned = nn.Parameter(self.flat[shard.rank * size : (shard.rank + 1) * size])
        self.missing, self.sent = len(parameters), False
        self.work: dist.Work | None = None
        self.whole, self.part = torch.empty(0), torch.empty(0)

    def send(self) -> None:
        """Scatter the gradients that are there; those of the micro-batch before must have come."""
        self.take()
        self.whole = torch.zeros_like(self.flat)
        gradients = [local_gradient(parameter) for parameter in self.parameters]
        copy_back_into(self.whole[: self.count], gradients)
        for parameter in self.parameters:
            parameter.grad = None
        self.part = torch.empty_like(self.owned)
        self.work = reduce_scatter(self.part, self.whole, dist.ReduceOp.SUM, group=self.shard.group, async_op=True)
        self.sent = True

    def receive(self) -> None:
        """Take what was scattered, and sum it over the copies."""
        self.take()
        assert self.owned.grad is not None
        if self.replica.size > 1:
            dist.all_reduce(self.owned.grad, group=self.replica.group)
        self.owned.grad.div_(self.divisor)
        self.sent = False

    def take(self) -> None:
        """Wait for what was scattered, if anything was, and add it to this rank's share; the whole is given back."""
        if self.work is None:
            return
        self.work.wait()
        self.owned.grad = self.part if self.owned.grad is None else self.owned.grad.add_(self.part)
        self.work, self.whole, self.part = None, torch.empty(0), torch.empty(0)


class ShardedOptimizer(torch.optim.Optimizer):
    """Steps this rank's shares and gathers all; ``zero_grad`` clears shares and parameters alike."""

    def __init__(self, inner: torch.optim.Optimizer, rest: torch.optim.Optimizer | None, states: ShardedStates) -> None:
        super().__init__([parameter for group in inner.param_groups for parameter in group["params"]], {})
        self.inner, self.rest, self.states = inner, rest, states
        self.param_groups = [*inner.param_groups, *(rest.param_groups if rest else [])]
        self.state = inner.state

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Step and gather; no closure."""
        assert closure is None
        self.inner.step()
        if self.rest is not None:
            self.rest.step()
        self.states.gather()


def local_gradient(parameter: nn.Parameter) -> Tensor:
    """This rank's part of a gradient, laid out as its parameter is; zeros where nothing reached it."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    gradient = parameter.grad
    if isinstance(gradient, DTensor) and isinstance(parameter, DTensor):
        if gradient.placements != parameter.placements:
            gradient = parameter.grad = gradient.redistribute(placements=parameter.placements)
        return gradient.to_local()
    return gradient


def copy_back_into(flat: Tensor, tensors: list[Tensor]) -> None:
    """Write tensors one after another into a flat one."""
    place = 0
    for tensor in tensors:
        flat[place : place + tensor.numel()] = tensor.detach().reshape(-1)
        place += tensor.numel()


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _like(local: Tensor, old: Tensor) -> Tensor:
    if not isinstance(old, DTensor):
        return local
    return DTensor.from_local(
        local, old.device_mesh, old.placements, run_check=False, shape=old.shape, stride=old.stride()
    )
