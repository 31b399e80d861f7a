"""Kept: which storages of compiled regions are in memory, and until when, as a compiler saves them for backward."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from estimator.operations.aten import fusion
from estimator.operations.aten.operands import moved_bytes
from estimator.scenario.breakdown import Phase
from estimator.scenario.op_list import NONE, Operand, OpList, Storage


@dataclass(kw_only=True)
class _Plan:
    """The storages of a list by the call that they were born in, those that are dropped, and how long others live."""

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
    tensors are saved that it can be computed from: the result itself, or others of its kernel, or what that reads. A
    sum over layers is not followed beyond its kernel, and what a product or attention reads is written where it is
    made. ``flow``, ``ends`` and ``same`` are what fusion says of its calls.
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
            plan.dropped.discard(first)
            plan.until[first] = max(one.died, plan.until.get(first, 0))
            continue
        if fusion.fusible(found.of(found.calls[last]).op):
            _save(plan, one.born, ends.get(last, last) + 1)
        else:
            plan.dropped.discard(at)
    return [
        replace(one, died=max(one.died, plan.until.get(at, one.died))) if one.died != NONE else one
        for at, one in enumerate(found.storages)
        if at not in plan.dropped
    ]


def _results(found: OpList, call: int) -> tuple[Operand, ...]:
    s = found.of(found.calls[call])
    return s.outputs or s.inputs[:1]


def _own(plan: _Plan, call: int) -> int | None:
    """The storage of a call's first result."""
    size = int(moved_bytes(_results(plan.found, call)[0])) if _results(plan.found, call) else 0
    return next((at for at in plan.born.get(call, ()) if plan.found.storages[at].bytes == size), None)


def _read(plan: _Plan, operand: Operand, call: int) -> int | None:
    """The storage that a call reads from memory: of those of its size that live then, the one born last."""
    storages = plan.found.storages
    alive = [
        at
        for at in plan.by_bytes.get(int(moved_bytes(operand)), ())
        if storages[at].born < call and (storages[at].died == NONE or storages[at].died > call)
    ]
    return max(alive, key=lambda at: storages[at].born, default=None)


def _is_saved(plan: _Plan, at: int) -> bool:
    """Whether a storage is in memory in backward."""
    one = plan.found.storages[at]
    return at not in plan.dropped and (at in plan.until or one.died == NONE or _lives_in_backward(plan, one))


def _lives_in_backward(plan: _Plan, one: Storage) -> bool:
    """Whether backward begins before it dies: in it, or in the next forward, as logits that a loop's name holds do."""
    begins = bisect_right(plan.backwards, one.born)
    return begins < len(plan.backwards) and plan.backwards[begins] < min(one.died, len(plan.phases))


def _bytes_for(plan: _Plan, source: int | Operand, call: int) -> float:
    """Bytes to save so that backward has a result, or what a kernel reads."""
    if isinstance(source, int):
        return _cost(plan, source)[0]
    at = _read(plan, source, call)
    if at is None or plan.found.storages[at].born < 0 or _is_saved(plan, at):
        return 0.0
    one = plan.found.storages[at]
    return math.inf if at in plan.inner else float(one.bytes)


def _cost(plan: _Plan, call: int) -> tuple[float, bool]:
    """Bytes to save so that backward has a call's result, and whether that is the result itself."""
    own = _own(plan, call)
    if own is not None and _is_saved(plan, own):
        return 0.0, True
    size = math.inf if own is None else float(plan.found.storages[own].bytes)
    sources = plan.flow.get(call)
    again = math.inf if sources is None else sum(_bytes_for(plan, one, call) for one in sources)
    return (again, False) if again < size else (size, True)


def _save(plan: _Plan, call: int, died: int) -> None:
    """Save what backward has a call's result from until then."""
    itself = _cost(plan, call)[1]
    if itself:
        own = _own(plan, call)
        if own is not None:
            plan.dropped.discard(own)
            plan.until[own] = max(died, plan.until.get(own, 0))
        return
    for source in plan.flow[call]:
        if isinstance(source, int):
            _save(plan, source, died)
            continue
        at = _read(plan, source, call)
        if at is not None and plan.found.storages[at].born >= 0:
            plan.until[at] = max(died, plan.until.get(at, 0))
