"""Fusion: which neighbours a compiler makes one kernel of, by rule, where a region was recorded as eager runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from estimator.operations.aten import elementwise, indexing, kernels_of_table, reductions
from estimator.operations.aten.operands import count, kernel, moved_bytes
from estimator.operations.op import Op
from estimator.scenario.op_list import Operand, OpList, Signature

POINTWISE: tuple[Callable[[Signature], list[Op]], ...] = (
    elementwise.arithmetic, elementwise.choice, elementwise.copy, elementwise.write, elementwise.dropout,
    elementwise.padded, elementwise.concatenation, indexing.rows,
)  # fmt: skip
REDUCING: tuple[Callable[[Signature], list[Op]], ...] = (
    reductions.reduction, reductions.softmax, reductions.softmax_backward, reductions.log_softmax_backward,
    reductions.norm, reductions.norm_backward, reductions.nll_loss, reductions.nll_loss_backward,
)  # fmt: skip

ASSUMED = (
    "Compiled regions are fused by rule: element-wise ops, reductions and norms that pass their results on to one"
    " another are one kernel, until a product takes one of them; it reads what it is given and writes what it does not"
    " itself use up. What it does not write is not kept for backward either, as compilers compute it again."
)


@dataclass
class Joined:
    """What becomes of the calls of compiled regions.

    ``kernels``: of each group at its last member, none at its others; other calls are not in it. ``unwritten``: calls
    whose results never reach memory.
    """

    kernels: dict[int, list[Op]] = field(default_factory=dict)
    unwritten: set[int] = field(default_factory=set)


@dataclass
class _Group:
    """A kernel in the making: what it reads, and results that no member has taken up yet, each with who made it."""

    phase: str
    last: int = 0
    read: list[Operand] = field(default_factory=list)
    open: list[tuple[Operand, int]] = field(default_factory=list)
    made: set[tuple[int, str]] = field(default_factory=set)
    flops: float = 0.0
    names: list[str] = field(default_factory=list)


def fusible(op: str) -> bool:
    """Whether a compiler makes its own kernel of an op, and may join it to its neighbours."""
    found = kernels_of_table(op)
    return found in POINTWISE or found in REDUCING


def fused(found: OpList, phases: Sequence[str]) -> Joined:
    """Join the compiled calls of each phase and stream."""
    joined = Joined()
    groups: list[_Group] = []
    copies: dict[Operand, set[Signature]] = {}
    state = ("", -1)
    for index, call in enumerate(found.calls):
        if call.kind != "kernel" or not call.compiled or (phases[index], call.stream) != state:
            _close(groups, joined)
            groups, copies, state = [], {}, (phases[index], call.stream)
        if call.kind != "kernel" or not call.compiled:
            continue
        s = found.of(call)
        if not fusible(s.op) or "direction" in s.arguments:
            _taken_by_product(groups, s, joined)
            continue
        outputs = s.outputs or s.inputs[:1]
        source = s.inputs[0] if s.inputs else None
        if source in copies and kernels_of_table(s.op) is elementwise.copy:
            # The same cast of the same tensor, made anew for every product in eager mode.
            if s in copies[source]:
                joined.kernels[index] = []
                joined.unwritten.add(index)
                continue
            copies[source].add(s)
        group = next((one for one in reversed(groups) if _passes_on(one, s)), None)
        if group is None:
            group = _Group(phase=phases[index])
            groups.append(group)
        _add(group, s, index, joined)
        for one in outputs:
            copies[one] = set()
    _close(groups, joined)
    return joined


def _add(group: _Group, s: Signature, index: int, joined: Joined) -> None:
    outputs = s.outputs or s.inputs[:1]
    for one in s.inputs:
        maker = next((pair for pair in group.open if pair[0] == one), None)
        if maker is not None:
            group.open.remove(maker)
            joined.unwritten.add(maker[1])
        elif one not in group.read:
            group.read.append(one)
    group.open += [(one, index) for one in outputs]
    group.made |= {(count(one), one.dtype) for one in outputs}
    group.flops += float(max(map(count, (*s.inputs, *outputs)), default=0))
    group.names.append(s.op.rpartition("::")[2])
    group.last = index
    joined.kernels[index] = []


def _taken_by_product(groups: list[_Group], s: Signature, joined: Joined) -> None:
    """End the groups whose results another kernel reads."""
    read = {(count(one), one.dtype) for one in s.inputs}
    taken = [one for one in groups if one.made & read]
    _close(taken, joined)
    groups[:] = [one for one in groups if one not in taken]


def _close(groups: Sequence[_Group], joined: Joined) -> None:
    for group in groups:
        written = [one for one, _ in group.open]
        joined.unwritten -= {index for _, index in group.open}
        moved = sum(map(moved_bytes, group.read)) + sum(map(moved_bytes, written))
        if moved:
            joined.kernels[group.last] = [kernel(_shown(group.names), stream=moved, flops=group.flops)]


def _passes_on(group: _Group, s: Signature) -> bool:
    return any(pair[0] in s.inputs for pair in group.open)


def _shown(names: Sequence[str]) -> str:
    return f"fused {' '.join(names[:4])}{' …' if len(names) > 4 else ''}"
