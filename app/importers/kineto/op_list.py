"""Op list: the ops of a trace's typical step with what each was called with, and the device time that each one took."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from app.importers.kineto.aten_call import (
    AtenCall,
    aten_call,
    dtype_of_kernel,
    filled,
    kineto_dtype,
    typed,
)
from app.importers.kineto.aten_results import signature
from app.importers.kineto.called_ops import (
    COMMUNICATES,
    StepOps,
    Works,
    device_works,
    dispatches,
    host_works,
    step_ops,
)
from app.importers.kineto.categories import category_behind
from app.importers.kineto.events import BROKEN
from app.importers.kineto.intervals import Floats, Wholes, groups
from app.importers.kineto.launches import Launches, matched, phases
from app.importers.kineto.nesting import enclosing, parents
from app.importers.kineto.steps import StepWindow
from app.importers.kineto.trace_columns import MODULE_PREFIX, NO_ID, Shape, Trace
from app.importers.kineto.work_spans import PHASE
from estimator.operations.aten import is_known
from estimator.scenario.aten_cost import plain
from estimator.scenario.breakdown import PHASES, Category, Phase
from estimator.scenario.op_list import NONE, Call, Operand, OpList, Signature
from runners.trace.kernel_category import on_device

MOST_CALLS = 200_000
_LONGEST_S = 1e8
_MOST_ELEMENTS = 1 << 40
_MOST_RANKS = 1_000_000
_LONGEST_OP = 200
_SYNCS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "hipStreamSynchronize", "hipDeviceSynchronize")
_WAITS = ("cudaStreamWaitEvent", "hipStreamWaitEvent")
_ACCUMULATE = "torch::autograd::AccumulateGrad"
_BACKENDS = ("flash", "efficient", "cudnn")
_TF32 = re.compile(r"tf32|s1688(?:gemm|fprop|dgrad|wgrad)", re.IGNORECASE)
"""Kernels that round fp32 operands, by cuBLAS's and CUTLASS's names; those of 16 bits that match have no fp32 ones."""
_COUNTED = re.compile(r"_(\d+)$")
"""The profiler counts the modules of a class: Linear_3 is written as a traced program's layers are, Linear.3."""


_STATES = {"_fused_adam_": 4, "_fused_adamw_": 4, "_fused_sgd_": 3, "_amp_foreach_non_finite_check_and_unscale_": 1}
"""Lists of an optimizer's kernel that have a tensor for each parameter; others are empty or of scalars."""


class _CutLists:
    """What an optimizer's lists held that were too long to be recorded: the parameters, shared by its groups."""

    def __init__(self, trace: Trace, ops: StepOps, works: Works, gradients: tuple[Operand, ...]) -> None:
        self.turns: Counter[str] = Counter()
        many: Counter[str] = Counter()
        for place in works.op[works.op >= 0].tolist():
            op = int(ops.index[place])
            name, shape = trace.names[trace.ops.name[op]], trace.ops.extra[op]
            if shape >= 0 and _is_cut(name, trace.shapes[shape]):
                many[name] += 1
        groups = min(many.values(), default=1)
        matrices = tuple(one for one in gradients if len(one.shape) > 1)
        vectors = tuple(one for one in gradients if len(one.shape) < 2)
        if groups == 2 and matrices and vectors:  # with weight decay, and without
            self.shares: list[tuple[Operand, ...]] = [matrices, vectors]
        else:
            self.shares = [gradients[first::groups] for first in range(groups)]

    def of(self, name: str, shape: Shape) -> tuple[Operand, ...] | None:
        """Tensors of the next call of an op, None where its lists were recorded."""
        if not _is_cut(name, shape):
            return None
        turn = self.turns[name]
        self.turns[name] += 1
        return self.shares[turn % len(self.shares)]


def _is_cut(name: str, shape: Shape) -> bool:
    return plain(name).startswith(("_foreach_", "_fused_", "_amp_")) and shape[0].lstrip(b"[ \n\r\t").startswith(b"]")


@dataclass(kw_only=True)
class _Tables:
    """The tables of the list while it grows, and what its tensors were last seen as."""

    lists: _CutLists
    numbers: dict[Any, int] = field(default_factory=dict)
    signatures: list[Signature] = field(default_factory=list)
    groups: dict[tuple[int, ...], int] = field(default_factory=dict)
    dtypes: dict[tuple[int, ...], str] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    assumptions: dict[str, None] = field(default_factory=dict)


def op_list(
    trace: Trace, launched: Launches, step: StepWindow, *, program: str, chip: str, ranks: tuple[int, int],
    loop_s: float | None, versions: Mapping[str, str],
) -> OpList | None:  # fmt: skip
    """List the calls of one step of ``ranks`` (size, rank); None where it lacks shapes or types, or has too many."""
    if all(types in (b"", b"[]") for _, types, *_ in trace.shapes):  # PyTorch 1.8 wrote shapes alone
        return None
    ops = step_ops(trace, step)
    works = device_works(trace, launched, step, ops) if len(trace.device) else host_works(trace, ops)
    if not 0 < len(works) <= MOST_CALLS or works.seconds.max() > _LONGEST_S or (loop_s or 0.0) > _LONGEST_S:
        return None
    phase = phases(trace, works.at, works.thread)
    gradients = _gradients(trace, ops, works.at[phase == PHASE[Phase.FORWARD]])
    tables = _Tables(lists=_CutLists(trace, ops, works, gradients))
    found = [_signature(trace, ops, works, at, tables) for at in range(len(works))]
    stream, names = _streams(trace, works, [collective for _, collective in found])
    module, paths = _modules(trace, ops, works)
    dispatched = dispatches(trace, ops, works)
    again = _recomputed(trace, ops, works) & (phase == PHASE[Phase.BACKWARD])
    waits = _waits(trace, step)
    calls: list[Call] = []
    running: list[int] = []  # collectives that nothing has waited for yet
    compute = NONE
    for at, (number, collective) in enumerate(found):
        while waits and waits[-1][0] <= works.at[at]:
            if waits.pop()[1]:
                calls.append(Call(kind="sync", dispatches=0))
            elif running:
                calls.append(Call(kind="wait", waits_for=running.pop(0), dispatches=0))
        aside = collective and stream[at] != 0
        if aside and compute != NONE:
            calls.append(Call(kind="wait", stream=stream[at], waits_for=compute, dispatches=0))
        if aside:
            running.append(len(calls))
        elif stream[at] == 0:
            compute = len(calls)
        calls.append(
            Call(
                kind="collective" if collective else "kernel",
                signature=number,
                phase=PHASES[phase[at]],
                module=int(module[at]),
                stream=stream[at],
                dispatches=int(dispatched[at]),
                recomputed=bool(again[at]),
                measured_s=float(works.seconds[at]),
            )
        )
    return OpList(
        source="profile",
        program=program,
        calls=tuple(calls),
        signatures=tuple(tables.signatures),
        modules=paths,
        streams=names,
        groups=tuple(tables.groups),
        chip=chip,
        world_size=ranks[0],
        rank=ranks[1],
        parameters=sum(min(math.prod(one.shape), _MOST_ELEMENTS) for one in gradients),
        loop_s=loop_s,
        versions=dict(versions),
        assumptions=tuple(tables.assumptions),
    )


def _signature(trace: Trace, ops: StepOps, works: Works, at: int, tables: _Tables) -> tuple[int, bool]:
    """Number of the signature of a work, and whether it is a collective."""
    place, event = int(works.op[at]), int(works.event[at])
    kernel = trace.names[trace.device.name[event]] if event >= 0 else ""
    message = trace.device.extra[event] if event >= 0 else -1
    name, shape = kernel, -1
    if place >= 0:
        op = int(ops.index[place])
        name, shape = trace.names[trace.ops.name[op]], trace.ops.extra[op]
    known = is_known(name)
    longest = trace.names[trace.device.name[int(works.longest[at])]] if event >= 0 else ""
    main = kernel if known else longest
    tf32 = bool(_TF32.search(longest))
    category = "" if known else on_device(category_behind(main or name, name))
    collective = bool(
        message >= 0
        or name.startswith(COMMUNICATES)
        or (category or category_behind(kernel, "")) == Category.COMMUNICATION
    )
    dtype = _message_dtype(trace, message) or dtype_of_kernel(kernel)
    share = tables.lists.of(name, trace.shapes[shape]) if shape >= 0 else None
    direction = next((way for way in ("HtoD", "DtoH") if way in kernel), "")
    key = (name, shape, dtype, direction, category, tf32, trace.collectives[message] if message >= 0 else None, share)
    number = tables.numbers.get(key)
    if number is None:
        made = aten_call(name[:_LONGEST_OP], trace.shapes[shape]) if shape >= 0 else AtenCall(name=name[:_LONGEST_OP])
        if share is not None:
            made = filled(made, share, _STATES.get(plain(name), len(made.arguments)))
            said = "Lists of more than 30 tensors are not recorded; an optimizer's are taken to hold all parameters"
            tables.assumptions[said] = None
        if any(not one.dtype for one in made.inputs):
            made = typed(made, lambda sizes: dtype or tables.dtypes.get(sizes) or _usual(tables.seen))
        written = (
            _collective(trace, made, message, tables)
            if collective
            else signature(made, backend=_backend(name), direction=direction, category=category, tf32=tf32)
        )
        number = tables.numbers[key] = len(tables.signatures)
        tables.signatures.append(written)
    for one in (*tables.signatures[number].inputs, *tables.signatures[number].outputs):
        tables.dtypes[one.shape] = one.dtype
        tables.seen[one.dtype] += 1
    return number, collective


def _backend(name: str) -> str:
    return next((one for one in _BACKENDS if f"{one}_attention" in name), "")


def _usual(seen: Counter[str]) -> str:
    return next((dtype for dtype, _ in seen.most_common() if "float" in dtype), "float32")


def _message_dtype(trace: Trace, message: int) -> str:
    return kineto_dtype(trace.collectives[message].dtype) if message >= 0 else ""


def _collective(trace: Trace, made: AtenCall, message: int, tables: _Tables) -> Signature:
    """A collective as its op was called, or as its kernel says; its group by number."""
    if message < 0:
        return Signature(op=made.name, inputs=made.inputs)
    said = trace.collectives[message]
    dtype = kineto_dtype(said.dtype) or "uint8"
    name = made.name if made.name.startswith(COMMUNICATES[::2]) else f"c10d::{said.name}"
    arguments: dict[str, Any] = {}
    members = _members(said.members) or tuple(range(min(said.ranks, _MOST_RANKS)))
    if members:
        arguments["group"] = tables.groups.setdefault(members, len(tables.groups))
    sent, received = (
        Operand(shape=(min(max(count, 0), _MOST_ELEMENTS),), dtype=dtype)
        for count in (said.in_elements, said.out_elements)
    )
    return Signature(op=name, inputs=(sent,), outputs=(received,), arguments=arguments)


def _members(text: str) -> tuple[int, ...]:
    try:
        found = msgspec.json.decode(text, type=list[int])
    except BROKEN:
        return ()
    return tuple(found) if all(0 <= rank < _MOST_RANKS for rank in found) else ()


def _gradients(trace: Trace, ops: StepOps, forward_at: Floats) -> tuple[Operand, ...]:
    """Every trainable tensor once: what one backward pass accumulates; passes have forward work between them."""
    names = [i for i, name in enumerate(trace.names) if name == _ACCUMULATE]
    mine = ops.index[np.isin(trace.ops.wholes("name")[ops.index], names)]
    mine = mine[trace.ops.wholes("extra")[mine] >= 0]
    if not len(mine):
        return ()
    block = np.searchsorted(np.sort(forward_at), trace.ops.floats("ts")[mine])
    last = mine[block == block[-1]]
    read = [aten_call(_ACCUMULATE, trace.shapes[trace.ops.extra[op]]).inputs for op in last.tolist()]
    return tuple(one[0] for one in read if one)


def _streams(trace: Trace, works: Works, collective: list[bool]) -> tuple[list[int], tuple[str, ...]]:
    """Stream of each work, the one with most compute being 0, and their names."""
    if not len(trace.device):
        return [0] * len(works), ("default",)
    threads = trace.device.wholes("thread")[works.event].tolist()
    usual = Counter(thread for thread, one in zip(threads, collective, strict=True) if not one).most_common(1)
    numbers: dict[int, int] = {usual[0][0]: 0} if usual else {}
    stream = [numbers.setdefault(thread, len(numbers)) for thread in threads]
    names = trace.thread_names()
    return stream, tuple(f"stream {names[thread]}"[:_LONGEST_OP] for thread in numbers)


def _recomputed(trace: Trace, ops: StepOps, works: Works) -> NDArray[np.bool_]:
    """Whether an op builds autograd's graph: in backward only what is computed again does."""
    sequence = np.frombuffer(trace.sequence, dtype=np.int64)[ops.index] if len(ops.index) else np.zeros(0, np.int64)
    return (works.op >= 0) & (sequence[np.maximum(works.op, 0)] >= 0) if len(sequence) else works.op > 0


def _modules(trace: Trace, ops: StepOps, works: Works) -> tuple[Wholes, tuple[str, ...]]:
    """Module of each work and the modules' paths; a gradient's is that of the op that it is the gradient of."""
    found = np.full(len(works), NONE, dtype=np.int64)
    if not len(trace.modules) or not len(ops.index):
        return found, ()
    inner = np.full(len(ops.index), -1, dtype=np.int64)
    around = np.full(len(trace.modules), -1, dtype=np.int64)
    begin = trace.modules.floats("ts")
    end = begin + trace.modules.floats("dur")
    starts, threads = trace.ops.floats("ts")[ops.index], trace.ops.wholes("thread")[ops.index]
    of_thread = dict(groups(trace.modules.wholes("thread")))
    for thread, mine in groups(threads):
        if (there := of_thread.get(thread)) is not None:
            outer = parents(begin[there], end[there])
            around[there] = np.where(outer >= 0, there[np.maximum(outer, 0)], -1)
            index = enclosing(begin[there], end[there], starts[mine])
            inner[mine] = np.where(index >= 0, there[np.maximum(index, 0)], -1)
    sequence = np.frombuffer(trace.sequence, dtype=np.int64)[ops.index].tolist()
    forward = {number: op for op, number in enumerate(sequence) if number >= 0 and inner[op] >= 0}
    paths: dict[str, int] = {}
    for at, op in enumerate(works.op.tolist()):
        module = _module_of(op, inner, ops.parent, sequence, forward) if op >= 0 else -1
        if module >= 0:
            found[at] = paths.setdefault(_path(trace, module, around), len(paths))
    return found, tuple(paths)


def _module_of(op: int, inner: Wholes, parent: Wholes, sequence: list[int], forward: Mapping[int, int]) -> int:
    if inner[op] >= 0:
        return int(inner[op])
    while op >= 0:
        number = sequence[op]
        if NO_ID < number < 0:
            behind = forward.get(~number)
            return -1 if behind is None else int(inner[behind])
        op = int(parent[op])
    return -1


def _path(trace: Trace, module: int, around: Wholes) -> str:
    parts: list[str] = []
    while module >= 0 and len(parts) < 64:
        name = trace.names[trace.modules.name[module]].removeprefix(MODULE_PREFIX)
        parts.append(_COUNTED.sub(r".\1", name))
        module = int(around[module])
    return ".".join(reversed(parts))


def _waits(trace: Trace, step: StepWindow) -> list[tuple[float, bool]]:
    """Times at which a stream waits, and whether it is the host instead; the first last. Those that a collective makes
    before it begins are left out.
    """
    kinds = {i: name in _SYNCS for i, name in enumerate(trace.names) if name in _SYNCS + _WAITS}
    if not kinds:
        return []
    times, names = trace.launches.floats("ts"), trace.launches.wholes("name")
    mine = np.flatnonzero(np.isin(names, list(kinds)) & (times >= step.host_begin) & (times <= step.host_end))
    behind = matched(trace.launches.wholes("external")[mine], trace.ops.wholes("external"))
    found = []
    for event, op in zip(mine.tolist(), behind.tolist(), strict=True):
        sync = kinds[int(names[event])]
        own = op >= 0 and trace.names[trace.ops.name[op]].startswith(COMMUNICATES)
        if sync or not own:
            found.append((float(times[event]), sync))
    return sorted(found, reverse=True)
