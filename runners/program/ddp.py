"""DistributedDataParallel's reducer, whose C++ wants real memory: its buckets, hooks, copies and exchanges.

Source: torch/csrc/distributed/c10d/reducer.cpp of torch 2.13.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.autograd import Variable
from torch.nn.parallel import distributed as wrapper

from estimator.scenario.breakdown import MemoryKind
from runners.program.recording import Recording

if TYPE_CHECKING:
    from runners.program.distributed import Collectives


def install(collectives: Collectives, recording: Recording) -> None:
    """Replace what DistributedDataParallel is built on, for the rest of the process."""
    anywhere: Any = dist
    around: Any = wrapper

    class Reducer(_Reducer):
        made_for = (collectives, recording)

    for name, answer in {
        "Reducer": Reducer,
        "Logger": _Silent,
        "_compute_bucket_assignment_by_size": buckets,
        "_register_comm_hook": lambda reducer, state, hook: reducer.set_hook(recording, hook),
        "_register_builtin_comm_hook": lambda reducer, kind: reducer.set_hook(recording, kind),
    }.items():
        setattr(anywhere, name, answer)
    around._verify_param_shape_across_processes = lambda *_, **__: True
    around._sync_module_states = lambda *_, **__: None


def buckets(
    tensors: Sequence[torch.Tensor], limits_bytes: Sequence[int], *_: Any, order: Sequence[int] | None = None
) -> tuple[list[list[int]], list[int]]:
    """Divide tensors among buckets of one type each, closed as soon as they reach their limit, the last one repeating.

    Without an order, buckets are sorted by their first tensor. Returns indices, and the limit that closed each.
    """
    open_: dict[torch.dtype, tuple[list[int], int]] = {}
    at: dict[torch.dtype, int] = {}
    found: list[tuple[list[int], int]] = []
    for place, tensor in enumerate(tensors):
        members, size = open_.get(tensor.dtype, ([], 0))
        limit = limits_bytes[min(at.get(tensor.dtype, 0), len(limits_bytes) - 1)]
        members = [*members, order[place] if order is not None else place]
        size += tensor.numel() * tensor.element_size()
        if size >= limit:
            found.append((members, limit))
            open_.pop(tensor.dtype, None)
            at[tensor.dtype] = at.get(tensor.dtype, 0) + 1
        else:
            open_[tensor.dtype] = (members, size)
    for dtype, (members, _size) in open_.items():
        found.append((members, limits_bytes[min(at.get(dtype, 0), len(limits_bytes) - 1)]))
    if order is None:
        found.sort(key=lambda one: min(one[0]))
    return [members for members, _ in found], [limit for _, limit in found]


FIRST_BUCKET_BYTES = 1 << 20
"""torch.distributed._DEFAULT_FIRST_BUCKET_BYTES."""


def graphs_of(module: torch.nn.Module) -> int:
    """Graphs that a compiled module becomes: beneath DDP one for each bucket, so that exchanges can begin in backward.

    Source: torch/_dynamo/backends/distributed.py (DDPOptimizer), which cuts behind the parameters that fill a bucket.
    """
    around: Any = wrapper.DistributedDataParallel
    ddp = module if isinstance(module, around) else around._get_active_ddp_module()
    if ddp is None:
        return 1
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    members, _ = buckets(trained[::-1], [FIRST_BUCKET_BYTES, ddp.bucket_bytes_cap])
    return max(len(members), 1)


class _Silent:
    """Stands where DDP logs its runs."""

    def __init__(self, *_: Any) -> None: ...

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: None

    def _get_ddp_logging_data(self) -> Any:
        return SimpleNamespace(strs_map={}, ints_map={})


class _Bucket:
    def __init__(self, parameters: list[torch.Tensor], recording: Recording) -> None:
        self.parameters = parameters
        with torch.no_grad():
            self.flat = torch.empty(
                sum(p.numel() for p in parameters), dtype=parameters[0].dtype, device=parameters[0].device
            )
        recording.storages.mark([self.flat], MemoryKind.GRADIENTS)
        self.views: dict[int, torch.Tensor] = {}
        begin = 0
        for parameter in parameters:
            part = self.flat[begin : begin + parameter.numel()]
            self.views[id(parameter)] = part.view(parameter.shape)
            begin += parameter.numel()
        self.missing = set(self.views)
        self.work: Any = None


class _Reducer:
    """Hooks on every parameter's gradient: copies it into its bucket, and exchanges a bucket that is full."""

    made_for: tuple[Any, Recording]

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        bucket_indices: Sequence[Sequence[int]],
        limits: Sequence[int],
        process_group: Any,
        expect_sparse: Any = None,
        bucket_bytes: int = 25 << 20,
        find_unused: bool = False,
        as_views: bool = False,
        names: Any = None,
        first_bytes: int = 1 << 20,
        *more: Any,
    ) -> None:
        self._collectives, self._recording = type(self).made_for
        self._parameters = list(parameters)
        self._group = process_group
        self._world = dist.get_world_size(process_group)
        self._limits = [first_bytes, bucket_bytes]
        self._as_views = as_views
        self._find_unused = find_unused
        self._expects = False
        self._hooked = False
        self._rebuilt = False
        self._order: list[int] = []
        self._lay_out([[int(index) for index in members] for members in bucket_indices])
        trained: list[Any] = [parameter for parameter in self._parameters if parameter.requires_grad]
        self._handles = [parameter.register_post_accumulate_grad_hook(self._ready) for parameter in trained]
        self._index = {id(parameter): index for index, parameter in enumerate(self._parameters)}

    def _lay_out(self, members: list[list[int]]) -> None:
        self._buckets: list[_Bucket] = []
        for indices in members:
            self._buckets.append(_Bucket([self._parameters[index] for index in indices], self._recording))
        self._of = {key: bucket for bucket in self._buckets for key in bucket.views}

    def set_hook(self, recording: Recording, hook: Any) -> None:
        """Take a communication hook: gradients are exchanged in its stead."""
        self._hooked = True
        name = getattr(hook, "__qualname__", str(hook))
        recording.assume(f"DDP's communication hook {name} is recorded as the plain all-reduce of its buckets")

    def prepare_for_forward(self) -> None:
        """Nothing is done before a forward."""

    def prepare_for_backward(self, outputs: Sequence[torch.Tensor]) -> None:
        """The next backward exchanges."""
        self._expects = True
        self._next = 0
        for bucket in self._buckets:
            bucket.missing = set(bucket.views)
            bucket.work = None

    def _rebuild_buckets(self) -> bool:
        if self._rebuilt or self._find_unused or len(self._order) != len(self._of):
            return False
        self._rebuilt = True
        members, _ = buckets([self._parameters[index] for index in self._order], self._limits, order=self._order)
        self._buckets.clear()
        self._lay_out(members)
        return True

    def _ready(self, parameter: torch.Tensor) -> None:
        if not self._expects:
            return
        bucket = self._of[id(parameter)]
        if not self._rebuilt:
            self._order.append(self._index[id(parameter)])
        with torch.no_grad(), self._recording.below_python():
            self._copy_in(parameter, bucket.views[id(parameter)])
        bucket.missing.discard(id(parameter))
        if not any(one.work for one in self._buckets) and self._next == 0 and not self._called():
            Variable._execution_engine.queue_callback(self._finish)
        while self._next < len(self._buckets) and not self._buckets[self._next].missing:
            self._exchange(self._buckets[self._next])
            self._next += 1

    _queued = -1

    def _called(self) -> bool:
        task = torch._C._current_graph_task_id()
        if self._queued == task:
            return True
        self._queued = task
        return False

    def _copy_in(self, parameter: torch.Tensor, view: torch.Tensor) -> None:
        gradient = parameter.grad
        assert gradient is not None
        same = gradient.untyped_storage()._cdata == view.untyped_storage()._cdata
        if same:
            if not self._hooked:
                view.div_(self._world)
            return
        if self._hooked:
            view.copy_(gradient)
        else:
            torch.mul(gradient, 1.0 / self._world, out=view)
        if self._as_views:
            parameter.grad = view

    def _exchange(self, bucket: _Bucket) -> None:
        flat = bucket.flat
        group = self._collectives.group(self._group)
        bucket.work = self._collectives.exchange("c10d::allreduce_", (flat,), (flat,), group, apart=True)

    def _finish(self) -> None:
        self._queued = -1
        with torch.no_grad(), self._recording.below_python():
            for bucket in self._buckets[self._next :]:  # of parameters that had no gradient in this backward
                self._exchange(bucket)
            for bucket in self._buckets:
                bucket.work.wait()
                if self._as_views:
                    continue
                for parameter in bucket.parameters:
                    if parameter.grad is not None:
                        parameter.grad.copy_(bucket.views[id(parameter)])
        self._expects = False

    def _remove_autograd_hooks(self) -> None:
        for handle in self._handles:
            handle.remove()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None
