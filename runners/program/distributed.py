"""A process group of one rank among many: collectives return at once, and are recorded with their streams and waits."""

from __future__ import annotations

import datetime
import functools
import os
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.distributed._functional_collectives import AsyncCollectiveTensor

from estimator.scenario.breakdown import MemoryKind
from estimator.scenario.problems import InputProblems, Problem
from runners.program import ddp, objects, values
from runners.program.devices import DEVICE
from runners.program.peers import Peers
from runners.program.recorder import Recorder
from runners.program.recording import Recording
from runners.program.tensors import is_on_device, leaves
from runners.program.unimported import once_imported

if TYPE_CHECKING:
    from runners.program.fake import Route

FAKE = "fake"
_LOCAL = (MemoryKind.TEMPORARIES, MemoryKind.ACTIVATIONS)


class Done(c10d.Work):
    """A collective under way: who waits for it has its stream wait."""

    def __init__(self, recording: Recording, call: int) -> None:
        super().__init__()
        self._recording = recording
        self._call = call
        self._step = recording.step

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Let the present stream wait."""
        if self._step == self._recording.step:
            self._recording.wait(self._recording.stream, self._call)
        return True

    def block_current_stream(self) -> None:
        """As wait."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it is over."""
        return True

    def is_success(self) -> bool:
        """Whether it went well."""
        return True

    def synchronize(self) -> None:
        """As wait."""
        self.wait()

    def get_future(self) -> Any:
        """Return a future that is done."""
        future: Any = torch.futures.Future()
        future.set_result([])
        return future


class ProcessGroupNCCL:
    """NCCL's process group, of which CPU builds of torch have none: programs give it options, and ask for its kind."""

    class Options:
        """Takes whatever NCCL's does."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self.config = SimpleNamespace()


class Collectives:
    """Streams of process groups, and what waits for which exchange."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._streams: dict[int, int] = {}
        self._work: dict[int, Done] = {}
        self._kept: list[Done] = []

    def group(self, process_group: Any) -> int:
        """Return the index of a group's ranks."""
        return self.recording.group(dist.get_process_group_ranks(process_group))

    def exchange(
        self,
        op: str,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        group: int,
        *,
        apart: bool,
        more: tuple[tuple[str, Any], ...] = (),
    ) -> Done:
        """Record a collective: on its group's own stream behind the present work, or in line with it."""
        recording = self.recording
        stream = recording.stream
        if apart:
            stream = self._stream(group)
            recording.wait(stream, recording.last_on(recording.stream))
        call = recording.record("collective", op, inputs, outputs, (("group", group), *more), stream)
        work = Done(recording, call)
        self._kept = [*self._kept[-64:], work]
        return work

    def awaited_with(self, tensor: torch.Tensor, work: Done) -> None:
        """Who waits for the tensor waits for the work."""
        self._work[tensor.untyped_storage()._cdata] = work

    def wait_for(self, tensor: torch.Tensor) -> None:
        """Let the present stream wait for the collective that makes a tensor."""
        work = self._work.pop(tensor.untyped_storage()._cdata, None)
        if work is not None:
            work.wait()

    def _stream(self, group: int) -> int:
        if group not in self._streams:
            self._streams[group] = self.recording.new_stream(f"collectives of group {group}")
        return self._streams[group]


def install(route: Route, world_size: int, rank: int, peers: Peers) -> None:
    """Patch process groups, and take over the collectives' ops, for the rest of the process."""
    if not dist.is_available():
        return
    from torch.testing._internal.distributed import fake_pg

    store: Any = fake_pg.FakeStore
    collectives = Collectives(route.recording)
    route.recorder.handlers |= {
        "c10d": functools.partial(_on_group, collectives),
        "_c10d_functional": functools.partial(_functional, collectives),
        "_dtensor": functools.partial(_functional, collectives),
    }
    dist.Backend.backend_capability[FAKE].append(DEVICE)
    inner: Any = dist.distributed_c10d
    asked: dict[str, str] = {"default": "nccl"}
    begin, more = inner.init_process_group, inner.new_group

    @functools.wraps(begin)
    def begun(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        asked["default"] = backend if isinstance(backend, str) else "nccl"
        count = kwargs.get("world_size", -1)
        own = kwargs.get("rank", -1)
        count = count if count is not None and count > 0 else world_size or int(os.environ.get("WORLD_SIZE", "1"))
        own = own if own is not None and own >= 0 else rank
        kept = {name: value for name, value in kwargs.items() if name in ("timeout", "group_name")}
        route.recording.world_size = count
        begin(FAKE, store=store(), world_size=count, rank=own, **kept)

    @functools.wraps(more)
    def one_more(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        kept = {name: value for name, value in kwargs.items() if name in ("use_local_synchronization", "group_desc")}
        return more(ranks, timeout, FAKE, **kept)

    def named(group: Any = None) -> str:
        return asked["default"].split(",")[-1].split(":")[-1]

    def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
        index = collectives.group(group or dist.group.WORLD)
        work = collectives.exchange("c10d::barrier", (), (), index, apart=False)
        route.recording.sync()
        return work if async_op else None

    def nothing(*_: Any, **__: Any) -> None:
        return None

    votes: dict[Any, values.Numbers] = {}
    batch, one_send, one_receive = inner.batch_isend_irecv, inner.isend, inner.irecv

    def passed(op: str, tensor: torch.Tensor, other: int, group: Any) -> Done:
        given, made = ((tensor,), ()) if op == "c10d::send" else ((), (tensor,))
        values.forget(made)
        index = collectives.group(group or dist.group.WORLD)
        work = collectives.exchange(op, given, made, index, apart=True, more=(("peer", int(other)),))
        # ranks that vote are taken to vote alike: what one sends back is what it was sent
        kind = (index, other, tensor.shape, tensor.dtype)
        numbers = values.of(tensor) if given else votes.get(kind)
        if given and numbers is not None:
            votes[kind] = numbers
        elif numbers is not None:
            values.give(tensor, numbers.real.clone())
        return work

    def isend(tensor: Any, dst: Any = None, group: Any = None, tag: int = 0, group_dst: Any = None) -> Any:
        if not is_on_device(tensor):
            return one_send(tensor, dst, group, tag, group_dst)
        return passed("c10d::send", tensor, objects.rank_of(dst, group, group_dst), group)

    def irecv(tensor: Any, src: Any = None, group: Any = None, tag: int = 0, group_src: Any = None) -> Any:
        if not is_on_device(tensor):
            return one_receive(tensor, src, group, tag, group_src)
        return passed("c10d::recv_", tensor, objects.rank_of(src, group, group_src), group)

    def at_once(ops: list[Any]) -> list[Any]:
        """Sends and receives that C++ gathers without the ops of each."""
        if not all(is_on_device(one.tensor) for one in ops):
            return list(batch(ops))
        return [
            passed("c10d::send" if one.op is isend else "c10d::recv_", one.tensor, one.peer, one.group) for one in ops
        ]

    for name, answer in {
        "batch_isend_irecv": at_once, "isend": isend, "irecv": irecv,
        "init_process_group": begun, "new_group": one_more, "get_backend": named, "barrier": barrier,
        "monitored_barrier": nothing, "is_nccl_available": lambda: True,
        "_broadcast_coalesced": functools.partial(_broadcast_coalesced, collectives),
        **objects.answers(peers),
    }.items():  # fmt: skip
        _replace(name, answer)
    for module in (dist, inner):
        setattr(module, ProcessGroupNCCL.__name__, ProcessGroupNCCL)
    _patch_spawning(rank)
    ddp.install(collectives, route.recording)
    _patch_tensor_parallel(route)


def _patch_spawning(rank: int) -> None:
    """A program that starts its ranks itself: this process is one of them, and the others are not started."""

    def one(fn: Any, args: Any = (), nprocs: int = 1, *_: Any, **__: Any) -> None:
        if rank >= nprocs:
            remedy = f"Give 0 to {nprocs - 1}."
            raise InputProblems([Problem(field="--rank", message=f"the program starts {nprocs} ranks", remedy=remedy)])
        fn(rank, *args)

    for module in (torch.multiprocessing, sys.modules["torch.multiprocessing.spawn"]):
        for name in ("spawn", "start_processes"):
            setattr(module, name, one)


def _replace(name: str, answer: Any) -> None:
    """Put an answer in the place of a function of torch.distributed, wherever torch has imported it to."""
    before = getattr(dist, name, None) or getattr(dist.distributed_c10d, name)
    for path, module in list(sys.modules.items()):
        if path.startswith("torch.") and getattr(module, "__dict__", {}).get(name) is before:
            setattr(module, name, answer)


def _patch_tensor_parallel(route: Route) -> None:
    """DTensor works out whole shapes on fakes of its own, which do not mix with the program's and lie nowhere."""

    once_imported("torch.distributed.tensor._sharding_prop", functools.partial(_patch_propagation, route))


def _patch_propagation(route: Route, sharding: Any) -> None:
    sharding.detect_fake_mode = lambda *_: route.recorder.unrecorded()
    if hasattr(sharding, "_propagate_use_strided_shard_flag"):  # not in torch 2.11
        sharding._propagate_use_strided_shard_flag = _told_once(sharding)


def _told_once(sharding: Any) -> Callable[[Any, Any], None]:
    """Whether inputs are shards with strides, looked up once of an op and not for each of its tensors.

    An optimizer's ops have thousands of them, and torch looks through all for each.
    """
    inner, strided = sharding._propagate_use_strided_shard_flag, sharding._StridedShard
    last: list[Any] = [None, None]

    def flagged(strategy: Any, schema: Any) -> None:
        if last[0] is not schema:
            found: dict[Any, Any] = {}
            for spec in schema.args_spec:
                if any(type(one) is strided for one in spec.placements):
                    found.setdefault(spec.use_strided_shard_as_shard_order, spec)
            last[:] = schema, SimpleNamespace(args_spec=tuple(found.values()))
        if last[1].args_spec:
            inner(strategy, last[1])

    return flagged


_GROUP_TYPE = "ProcessGroup"
_REDUCTIONS = {
    int(getattr(c10d.ReduceOp.RedOpType, name)): name.lower() for name in ("SUM", "AVG", "MIN", "MAX", "BAND", "BOR")
}
"""Names of reductions by the numbers that C++ passes."""


@functools.cache
def _parts(func: Any) -> tuple[list[int], list[int], list[int], int | None, int | None]:
    """Positions among an op's arguments: tensors that go in, that come out, both; the group; whether it runs apart."""
    given: list[int] = []
    made: list[int] = []
    both: list[int] = []
    group = apart = None
    for index, one in enumerate(func._schema.arguments):
        kind, name = str(one.type), one.name
        if "Tensor" in kind:
            (made if name.startswith("output") else given if name.startswith("input") else both).append(index)
        elif _GROUP_TYPE in kind or name == "group_name":
            group = index
        elif name == "async_op":
            apart = index
    return given, made, both, group, apart


def _on_group(collectives: Collectives, recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    given, made, both, group_at, apart_at = _parts(func)
    tensors = list(leaves((args, kwargs)))
    if not any(is_on_device(tensor) for tensor in tensors):
        return func(*args, **kwargs)
    schema = func._schema
    listed = [
        args[index] if index < len(args) else kwargs.get(one.name, one.default_value)
        for index, one in enumerate(schema.arguments)
    ]
    assert group_at is not None
    process_group = c10d.ProcessGroup.unbox(listed[group_at])
    group = collectives.group(process_group)
    inputs = [tensor for index in (*given, *both) for tensor in leaves(listed[index])]
    outputs = [tensor for index in (*made, *both) for tensor in leaves(listed[index])]
    name = schema.name
    other: tuple[tuple[str, Any], ...] = ()
    if name in ("c10d::send", "c10d::recv_"):
        inputs, outputs = (inputs, []) if name == "c10d::send" else ([], outputs)
        other = (("peer", int(listed[2])),)
    # torch's asynchronous collectives run on a stream of the group, the others on the caller's
    apart = True if apart_at is None else bool(listed[apart_at])
    recorder.recording.dispatches += 1
    work = collectives.exchange(name, inputs, outputs, group, apart=apart, more=other)
    values.exchanged(name, inputs, outputs, process_group.size(), process_group.rank(), _reduction(schema, listed))
    if name in ("c10d::_allgather_base_", "c10d::_reduce_scatter_base_"):
        recorder.recording.storages.mark((*inputs, *outputs), MemoryKind.COMMUNICATION, _LOCAL)
    boxed = work.boxed()
    if len(schema.returns) == 1:
        return boxed
    return listed[(made or both)[0]], boxed


def _reduction(schema: Any, given: Sequence[Any]) -> str:
    """How a collective reduces, by name; "" where it does not."""
    how = next((one for one, said in zip(given, schema.arguments, strict=False) if said.name == "reduce_op"), "")
    return how or "" if how is None or isinstance(how, str) else _REDUCTIONS.get(how.op(), "other")


def _functional(collectives: Collectives, recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    tensors = list(leaves((args, kwargs)))
    name = func._schema.name
    if not any(is_on_device(tensor) for tensor in tensors):
        if name.endswith("wait_tensor"):
            return args[0]
        return func(*args, **kwargs)
    recorder.recording.dispatches += 1
    if name.endswith("wait_tensor"):
        collectives.wait_for(args[0])
        return args[0]
    if name.endswith("_wrap_tensor_autograd"):  # whoever uses it first waits
        return AsyncCollectiveTensor(args[0])
    *_, group_at, _ = _parts(func)
    if group_at is None:
        return recorder.on_fakes(func, args, kwargs)
    named = args[group_at] if group_at < len(args) else kwargs["group_name"]
    process_group = _resolved(named)
    group = collectives.group(process_group)
    if func._schema.is_mutable:
        result: Any = args[0]
    else:
        result = recorder.on_fakes(func, args, kwargs)
    outputs = list(leaves(result))
    phase = recorder.recording.phase(tensors)
    for tensor in outputs:
        recorder.recording.storages.add(tensor, phase)
    work = collectives.exchange(name, tensors, outputs, group, apart=name.startswith("_c10d"))
    for tensor in outputs:
        collectives.awaited_with(tensor, work)
    reduction = _reduction(func._schema, args)
    values.exchanged(name, tensors, outputs, process_group.size(), process_group.rank(), reduction)
    return result


def _resolved(named: Any) -> Any:
    resolve: Any = c10d._resolve_process_group
    return resolve(named) if isinstance(named, str) else named


def _broadcast_coalesced(
    collectives: Collectives, process_group: Any, tensors: Sequence[torch.Tensor], size: int, source: int = 0
) -> None:
    """As C++ does it for buffers: flat, exchanged, copied back."""
    found = [tensor for tensor in tensors if is_on_device(tensor)]
    if not found:
        return
    with torch.no_grad():
        flat = torch.cat([tensor.reshape(-1) for tensor in found])
        group = collectives.group(process_group)
        collectives.exchange("c10d::broadcast_", (flat,), (flat,), group, apart=True).wait()
        parts: Any = torch.split_with_sizes(flat, [tensor.numel() for tensor in found])
        for tensor, part in zip(found, parts, strict=True):
            tensor.copy_(part.view_as(tensor))
