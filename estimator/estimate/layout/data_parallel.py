"""Data parallel: the list of one of many copies of a step, as DistributedDataParallel runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from estimator.estimate.layout.rewrite import Rewrite
from estimator.estimate.layout.units import alone
from estimator.scenario.breakdown import MemoryKind, Phase
from estimator.scenario.op_list import NONE, Call, Operand, OpList, Signature, Storage
from estimator.scenario.units import bytes_text
from estimator.schedule.queue import DEFAULT_STREAM

BUCKET_BYTES = 25 * 1024**2
"""Gradients that DistributedDataParallel sends in one all-reduce, its default."""
FIRST_BUCKET_BYTES = 1024**2
"""Those of its first one, so that it may begin early (torch.distributed, _DEFAULT_FIRST_BUCKET_BYTES)."""


def with_data_parallel(
    ranks: int, bucket_bytes: int = BUCKET_BYTES, group: tuple[int, ...] = ()
) -> Callable[[OpList], OpList]:
    """The step of one rank among ``ranks`` copies of it.

    Gradients are summed in buckets while backward goes on, from the moment at which a bucket's last one is born; the
    optimizer waits for all. The buckets' memory is the gradients' own, once more; where the list says which parameters
    they are of, they are copied there one by one, and back.
    """

    def of(found: OpList) -> OpList:
        if not group:
            alone(found, "plan.dp")
        return _with_buckets(found, group or tuple(range(ranks)), bucket_bytes)

    return of


@dataclass(frozen=True)
class _Bucket:
    """Gradients that travel together: when the last of them is born, their bytes, and which parameters they are of."""

    ready: int
    bytes: int
    weights: tuple[int, ...]


def _with_buckets(found: OpList, group: tuple[int, ...], bucket_bytes: int) -> OpList:
    # what a program does to its gradients behind backward, it does to their sums
    backward = [index for index, call in enumerate(found.calls) if call.phase == Phase.BACKWARD]
    if len(group) < 2 or not backward:
        return found
    buckets = _buckets(found, backward, bucket_bytes)
    ready = {bucket.ready: bucket for bucket in buckets}
    born = {one.born: one.weight for one in found.storages if one.kind == MemoryKind.GRADIENTS and one.weight != NONE}
    out, stream, sent = Rewrite(found), len(found.streams), dict[int, _Bucket]()

    def copied(call: Call, weight: int, op: str) -> None:
        one = found.weights[weight]
        gradient = Operand(shape=one.shape, dtype=one.dtype)
        now = replace(call, kind="kernel", phase=Phase.BACKWARD, stream=DEFAULT_STREAM, dispatches=0, dtensor=0,
                      recomputed=False, compiled=False, waits_for=NONE, measured_s=None)  # fmt: skip
        out.add(now, Signature(op=op, inputs=(gradient, gradient)))

    def received(call: Call) -> None:
        for index, bucket in sent.items():
            out.wait(DEFAULT_STREAM, index, Phase.BACKWARD)
            for weight in bucket.weights:
                copied(replace(call, module=NONE), weight, "aten::copy_")
        sent.clear()

    for index, call in enumerate(found.calls):
        if index > backward[-1] and sent:
            received(call)
        last = out.keep()
        if index > 0 and index in born and call.phase == Phase.BACKWARD:
            copied(call, born[index], "aten::mul")
            last = len(out.calls) - 1
        if index in ready:
            out.wait(stream, last, Phase.BACKWARD)
            exchange = Call(kind="collective", phase=Phase.BACKWARD, stream=stream)
            sent[out.add(exchange, _all_reduce(ready[index].bytes, len(found.groups)))] = ready[index]
    if sent:
        received(found.calls[-1])
    whole = Storage(bytes=sum(bucket.bytes for bucket in buckets), kind=MemoryKind.COMMUNICATION)
    return out.finish(
        [*(out.moved(one) for one in found.storages), whole],
        f"{len(group)} ranks sum their gradients in buckets of {bytes_text(bucket_bytes)}.",
        streams=(*found.streams, "all-reduce"),
        groups=(*found.groups, group),
        world_size=found.world_size * len(group),
    )


def _buckets(found: OpList, backward: list[int], bucket_bytes: int) -> list[_Bucket]:
    """Gradients in the order of their birth, a bucket closed as soon as it is full, the first one sooner."""
    last = backward[-1]
    made = sorted(
        (one.born, one.bytes, one.weight)
        for one in found.storages
        if one.kind == MemoryKind.GRADIENTS and one.bytes and one.born != NONE
    )
    trained = found.trained_parameters or found.parameters
    if not made and trained:
        # A profile names no storages: as many bytes as parameters, in fp32, spread over backward.
        step = max(len(backward) // max(trained * 4 // bucket_bytes, 1), 1)
        made = [(index, bucket_bytes, NONE) for index in backward[::step]]
    sizes: dict[int, int] = {}
    weights: dict[int, list[int]] = {}
    held, waiting, limit = 0, list[int](), min(FIRST_BUCKET_BYTES, bucket_bytes)
    for place, (born, size, weight) in enumerate(made):
        held += size
        waiting += [weight] if weight != NONE else []
        if held >= limit or place == len(made) - 1:
            at = last if held < limit else min(born, last)
            sizes[at] = sizes.get(at, 0) + held
            weights.setdefault(at, []).extend(waiting)
            held, waiting, limit = 0, [], bucket_bytes
    return [_Bucket(at, size, tuple(weights[at])) for at, size in sizes.items()]


def _all_reduce(size: int, group: int) -> Signature:
    return Signature(
        op="c10d::allreduce_",
        inputs=(Operand(shape=(size // 4,), dtype="float32"),),
        arguments={"group": group},
    )
