"""Fusion: which neighbours a compiler makes one kernel of, by rule, where a region was recorded as eager runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from estimator.operations.aten import elementwise, indexing, kernels_of_table, reductions
from estimator.operations.aten.operands import count, kernel, moved_bytes
from estimator.operations.op import Op
from estimator.scenario.op_list import Call, Operand, OpList, Signature

POINTWISE: tuple[Callable[[Signature], list[Op]], ...] = (
    elementwise.arithmetic, elementwise.choice, elementwise.copy, elementwise.write, elementwise.dropout,
    elementwise.padded, elementwise.concatenation, indexing.rows,
)  # fmt: skip
REDUCING: tuple[Callable[[Signature], list[Op]], ...] = (
    reductions.reduction, reductions.softmax, reductions.softmax_backward, reductions.log_softmax_backward,
    reductions.norm, reductions.norm_backward, reductions.nll_loss, reductions.nll_loss_backward,
)  # fmt: skip

ASSUMED = (
    "Compiled regions are fused by rule: neighbouring element-wise ops, reductions and norms of a phase that pass their"
    " results on are one kernel, which reads what it is given and writes what it does not itself use up."
)


@dataclass
class _Group:
    """A kernel in the making: what it reads, and results that no member has taken up yet."""

    last: int
    size: int
    phase: str
    members: int = 0
    read: list[Operand] = field(default_factory=list)
    open: list[Operand] = field(default_factory=list)
    flops: float = 0.0
    name: str = ""


def fusible(op: str) -> bool:
    """Whether a compiler makes its own kernel of an op, and may join it to its neighbours."""
    found = kernels_of_table(op)
    return found in POINTWISE or found in REDUCING


def fused(found: OpList, phases: Sequence[str]) -> dict[int, list[Op]]:
    """The kernels of compiled calls: of each group at its last member, none at its others; other calls are left out.

    A run of neighbours ends at a product, at an exchange, and where the phase changes.
    """
    kernels: dict[int, list[Op]] = {}
    run: list[int] = []
    for index, call in enumerate(found.calls):
        joins = call.kind == "kernel" and call.compiled and fusible(found.of(call).op) and not _moves(found, call)
        if not joins or (run and (phases[index] != phases[run[-1]] or call.stream != found.calls[run[-1]].stream)):
            _close(found, run, phases, kernels)
            run = []
        if joins:
            run.append(index)
    _close(found, run, phases, kernels)
    return kernels


def _moves(found: OpList, call: Call) -> bool:
    return "direction" in found.of(call).arguments


def _close(found: OpList, run: Sequence[int], phases: Sequence[str], kernels: dict[int, list[Op]]) -> None:
    groups: list[_Group] = []
    for index in run:
        s = found.of(found.calls[index])
        outputs = s.outputs or s.inputs[:1]
        size = max(map(count, (*s.inputs, *outputs)), default=0)
        group = next((one for one in reversed(groups) if one.size == size and _passes_on(one, s)), None)
        if group is None:
            group = _Group(last=index, size=size, phase=phases[index])
            groups.append(group)
        group.last, group.members = index, group.members + 1
        for one in s.inputs:
            if one in group.open:
                group.open.remove(one)
            elif one not in group.read:
                group.read.append(one)
        group.open += outputs
        group.flops += float(size)
        group.name = f"{group.name} {s.op.rpartition('::')[2]}".strip()
        kernels[index] = []
    for group in groups:
        if group.size:
            moved = sum(map(moved_bytes, group.read)) + sum(map(moved_bytes, group.open))
            kernels[group.last] = [kernel(_shown(group.name), stream=moved, flops=group.flops)]


def _passes_on(group: _Group, s: Signature) -> bool:
    return any(one in group.open for one in s.inputs)


def _shown(name: str) -> str:
    words = name.replace("aten::", "").split()
    return f"fused {' '.join(words[:4])}{' …' if len(words) > 4 else ''}"
