"""Kept: which storages of compiled regions are in memory, and until when, as a compiler saves them for backward."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from estimator.operations.aten import fusion
from estimator.operations.aten.operands import moved_bytes, size_and_type, width
from estimator.scenario.breakdown import Phase
from estimator.scenario.op_list import NONE, Operand, OpList, Storage

_SAVED = ("aten::embedding",)
"""Ops that a compiler joins to its neighbours and never computes again (torch._functorch.partitioners)."""


@dataclass(kw_only=True)
class _Plan:
    """The storages of a list by the call that they were born in, those that are dropped, and how long others live.

    ``costs``: what ``_cost`` found of each call, as long as nothing else is saved.
    """

    found: OpList
    phases: Sequence[str]
    inner: frozenset[int]
    flow: Mapping[int, Sequence[int | Operand]]
    backwards: Sequence[int]
    """Calls of backward, in order."""
    born: dict[int, list[int]] = field(default_factory=dict)
    by_bytes: dict[int, list[int]] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    until: dict[int, int] = field(default_factory=dict)
    costs: dict[int, tuple[float, bool]] = field(default_factory=dict)


def kept(
    found: OpList,
    phases: Sequence[str],
    inner: Collection[tuple[Operand, int]],
    flow: Mapping[int, Sequence[int | Operand]],
    *,
    ends: Mapping[int, int],
    same: Mapping[int, int],
) -> list[Storage]:
    """Return the storages without what no kernel writes, but with what backward needs of it, as min-cut would save it.

    What backward reads of a kernel's inner results is computed again from what is in memory, or else the smallest
    tensors are saved that it can be computed from: the result itself, or others of its kernel, or what that reads.
    What reads an earlier kernel's result, as a sum over layers does, is not computed again, and what a product or
    attention reads is written where it is made; where backward reads that in a narrower type alone, it is saved in
    that. ``flow``, ``ends`` and ``same`` are what fusion says of its calls.
    """
    sizes = {(index, int(moved_bytes(one))) for one, index in inner}
    taken = frozenset(at for at, one in enumerate(found.storages) if (one.born, one.bytes) in sizes)
    backwards = [at for at, phase in enumerate(phases) if phase == Phase.BACKWARD]
    plan = _Plan(found=found, phases=phases, inner=taken, flow=flow, backwards=backwards, dropped=set(taken))
    for at, one in enumerate(found.storages):
        plan.born.setdefault(one.born, []).append(at)
        plan.by_bytes.setdefault(one.bytes, []).append(at)
    for at in sorted(plan.dropped, key=lambda at: found.storages[at].born):
        one = found.storages[at]
        last = len(found.calls) - 1 if one.died == NONE else one.died - 1
        if at not in plan.dropped or phases[one.born] != Phase.FORWARD or phases[last] != Phase.BACKWARD:
            continue
        first = _own(plan, same[one.born]) if one.born in same else None
        if first is not None and found.storages[first].died != one.died:  # else one call reads both: two tensors
            _keep(plan, first, one.died)
            continue
        if fusion.fusible(found.of(found.calls[last]).op):
            _save(plan, one.born, ends.get(last, last) + 1)
        else:
            plan.dropped.discard(at)
            plan.costs.clear()
    narrowed = _narrowed(plan)
    return [
        part
        for at, one in enumerate(found.storages)
        if at not in plan.dropped
        for part in (at not in plan.until and narrowed.get(at)) or (_until(plan, at, one),)
    ]


def _until(plan: _Plan, at: int, one: Storage) -> Storage:
    """A storage that is in memory, and until when."""
    return one if one.died == NONE else replace(one, died=max(one.died, plan.until.get(at, one.died)))


def _narrowed(plan: _Plan) -> dict[int, tuple[Storage, ...]]:
    """Storages that products read, and that backward reads only to cast them: each until then, and as it is cast.

    Without the cast where what is saved anyway is enough to compute it again, as a dropout of a softmax.
    """
    casts: dict[tuple[int, str], list[int]] = {}
    for call in plan.backwards:
        s = plan.found.of(plan.found.calls[call]) if call in plan.flow else None
        if s is None or not len(s.inputs) == len(s.outputs) == 1 or isinstance(plan.flow[call][0], int):
            continue
        if width(s.outputs[0]) < width(s.inputs[0]):
            casts.setdefault(size_and_type(s.inputs[0]), []).append(call)
    found: dict[int, tuple[Storage, ...]] = {}
    for at, one in enumerate(plan.found.storages) if casts else ():
        if one.born < 0 or one.died == NONE or at in plan.dropped or at in plan.until:
            continue
        results = fusion.results_of(plan.found.of(plan.found.calls[one.born]))
        kind = next((size_and_type(made) for made in results if int(moved_bytes(made)) == one.bytes), (0, ""))
        before = casts.get(kind, ())
        last = bisect_left(before, one.died) - 1
        if last < 0 or before[last] < one.born or not _only_cast(plan, kind, before[last], one.died):
            continue
        read = next((by for by in range(one.born + 1, before[last]) if _takes(plan, kind, by)), None)
        if read is not None:
            (cast,) = plan.found.of(plan.found.calls[before[last]]).outputs
            narrow = replace(one, bytes=int(moved_bytes(cast)), born=read)
            parts = () if _is_computable(plan, one.born) else (narrow,)
            found[at] = (replace(one, died=read + 1), *parts)
    return found


def _is_computable(plan: _Plan, call: int) -> bool:
    """Whether a call reads nothing but results of its kernel that are saved anyway."""
    sources = plan.flow.get(call, ())
    return bool(sources) and all(isinstance(one, int) and _cost(plan, one) == (0.0, True) for one in sources)


def _takes(plan: _Plan, kind: tuple[int, str], call: int) -> bool:
    """Whether a kernel of its own, as a product, reads such a tensor."""
    one = plan.found.calls[call]
    return one.kind == "kernel" and call not in plan.flow and kind in map(size_and_type, plan.found.of(one).inputs)


def _only_cast(plan: _Plan, kind: tuple[int, str], first: int, end: int) -> bool:
    """Whether all that reads such tensors from memory between a cast and where they die is that cast's module's."""
    calls = plan.found.calls
    if calls[first].module != calls[end - 1].module:
        return False
    for call in range(first + 1, end):
        sources = plan.flow.get(call, ())
        if _takes(plan, kind, call) or any(not isinstance(one, int) and size_and_type(one) == kind for one in sources):
            return False
    return True


def _own(plan: _Plan, call: int) -> int | None:
    """The storage of a call's first result."""
    results = fusion.results_of(plan.found.of(plan.found.calls[call]))
    size = int(moved_bytes(results[0])) if results else 0
    return next((at for at in plan.born.get(call, ()) if plan.found.storages[at].bytes == size), None)


def _read(plan: _Plan, operand: Operand, call: int) -> int | None:
    """The storage that a call reads from memory: of those of its size that live then, the one born last."""
    storages = plan.found.storages
    alive = [
        at
        for at in plan.by_bytes.get(_whole_bytes(operand), ())
        if storages[at].born < call and (storages[at].died == NONE or storages[at].died > call)
    ]
    return max(alive, key=lambda at: storages[at].born, default=None)


def _whole_bytes(operand: Operand) -> int:
    """Bytes of the tensor that an operand is a slice of, as gate and up of one product: by its longest stride."""
    if operand.strides is None:
        return int(moved_bytes(operand))
    reach = max((size * stride for size, stride in zip(operand.shape, operand.strides, strict=True)), default=1)
    return int(reach * width(operand))


def _is_saved(plan: _Plan, at: int) -> bool:
    """Whether a storage is in memory in backward."""
    one = plan.found.storages[at]
    return at not in plan.dropped and (at in plan.until or one.died == NONE or _lives_in_backward(plan, one))


def _lives_in_backward(plan: _Plan, one: Storage) -> bool:
    """Whether backward begins before it dies: in it, or in the next forward, as logits that a loop's name holds do."""
    begins = bisect_right(plan.backwards, one.born)
    return begins < len(plan.backwards) and plan.backwards[begins] < min(one.died, len(plan.phases))


def _keep(plan: _Plan, at: int, died: int) -> None:
    """Have a storage in memory until then, or longer where it is already."""
    if at in plan.dropped or at not in plan.until:
        plan.costs.clear()
    plan.dropped.discard(at)
    plan.until[at] = max(died, plan.until.get(at, 0))


def _bytes_for(plan: _Plan, source: int | Operand, call: int) -> float:
    """Bytes to save so that backward has a result, whose cost is known, or what a kernel reads."""
    if isinstance(source, int):
        return plan.costs[source][0]
    at = _read(plan, source, call)
    if at is None or plan.found.storages[at].born < 0 or _is_saved(plan, at):
        return 0.0
    one = plan.found.storages[at]
    return math.inf if at in plan.inner else float(one.bytes)


def _cost(plan: _Plan, call: int) -> tuple[float, bool]:
    """Bytes to save so that backward has a call's result, and whether that is the result itself.

    Each call that it is computed from is looked at once: a kernel may read one result many times, and have any depth.
    """
    waiting = [call]
    while call not in plan.costs:
        lacking = [one for one in plan.flow.get(waiting[-1], ()) if isinstance(one, int) and one not in plan.costs]
        if lacking:
            waiting += lacking
        else:
            of = waiting.pop()
            plan.costs[of] = _cost_of(plan, of)
    return plan.costs[call]


def _cost_of(plan: _Plan, call: int) -> tuple[float, bool]:
    """As ``_cost``, where those of the results that the call reads are known."""
    own = _own(plan, call)
    if own is not None and _is_saved(plan, own):
        return 0.0, True
    size = math.inf if own is None else float(plan.found.storages[own].bytes)
    sources = None if plan.found.of(plan.found.calls[call]).op in _SAVED else plan.flow.get(call)
    if sources is None or (own is not None and _is_far(plan, sources, call)):
        return size, True
    again = sum(_bytes_for(plan, one, call) for one in sources)
    return (again, False) if again < size else (size, True)


def _is_far(plan: _Plan, sources: Sequence[int | Operand], call: int) -> bool:
    """Whether a call reads what an earlier compiled kernel made: torch's partitioner computes no such call again.

    Torch 2.11, min_cut_rematerialization_partition: a tensor that is used before a product and again behind it bans
    the later use, or a sum over layers would be computed from its beginning.
    """
    memory = [_read(plan, one, call) for one in sources if not isinstance(one, int)]
    return any(at is not None and plan.found.storages[at].born in plan.flow for at in memory)


def _save(plan: _Plan, call: int, died: int) -> None:
    """Save what backward has a call's result from until then."""
    waiting: list[tuple[int | Operand, int]] = [(call, call)]
    seen: set[int] = set()
    while waiting:
        source, reader = waiting.pop()
        if not isinstance(source, int):
            at = _read(plan, source, reader)
            if at is not None and plan.found.storages[at].born >= 0:
                _keep(plan, at, died)
        elif source not in seen:
            seen.add(source)
            if not _cost(plan, source)[1]:
                waiting += [(one, source) for one in reversed(plan.flow[source])]
            elif (own := _own(plan, source)) is not None:
                _keep(plan, own, died)
