"""Recorded: the calls of an op list with their kernels, priced; each distinct call once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from estimator.communication.recorded import Exchange, exchange_of
from estimator.cost.collectives import collective_s, p2p_s
from estimator.cost.device_time import as_alone, at_clock
from estimator.cost.efficiency import Efficiencies
from estimator.cost.power import clock_frac
from estimator.cost.price import UNALIGNED, Priced, price
from estimator.estimate.interval import VARIANTS, factor, product_efficiency, variants
from estimator.operations.aten import fusion, is_told, kernels_of
from estimator.operations.aten.operands import moved_bytes
from estimator.operations.op import Op
from estimator.operations.optimizer import SET, UPDATES, fused_accesses, held_of
from estimator.scenario.aten_cost import is_inductors, plain, torch_name
from estimator.scenario.breakdown import ARITHMETIC, CATEGORIES, WORK_PHASES, Category, Phase
from estimator.scenario.hardware import Chip, Cluster, peak_flops_per_s
from estimator.scenario.op_list import Operand, OpList, Signature

Floats = NDArray[np.float64]


@dataclass(kw_only=True, slots=True)
class CallWork:
    """What one distinct call does: its kernels with their seconds, or its exchange.

    ``products``: matrix products outside attention; ``products_frac``: these and attention, of its time. ``category``
    is that of most of its time; ``known``: whether the table has the op or its shapes say which product it is;
    ``as_measured``: it has no price and takes what was measured.
    """

    kernels: tuple[Priced, ...] = ()
    exchange: Exchange | None = None
    seconds: float = 0.0
    varied_s: Floats | None = None
    launches: float = 0.0
    products_frac: float = 0.0
    products: float = 0.0
    category: str = Category.OTHER
    known: bool = True
    as_measured: bool = False


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """An op list and its distinct work: ``of_call`` says which each call does, −1 for waits; ``phases``: of each call.

    ``lacking``: precisions that the chip has no unit for, priced as fp32. ``clock_frac``: of the full clock,
    at which products run. ``inner``: results that a compiled
    kernel takes itself. ``copies``: bytes that a compiler adds, with the first and the last call that they are for.
    ``flow``, ``ends``, ``same``: as fusion says.
    """

    found: OpList
    work: tuple[CallWork, ...]
    of_call: tuple[int, ...]
    phases: tuple[str, ...]
    lacking: tuple[str, ...]
    clock_frac: float
    inner: frozenset[tuple[Operand, int]] = frozenset()
    copies: tuple[tuple[float, int, int], ...] = ()
    flow: Mapping[int, Sequence[int | Operand]] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    same: Mapping[int, int] = field(default_factory=dict)

    def work_of(self, index: int) -> CallWork:
        """The work of one call that is a kernel or a collective."""
        return self.work[self.of_call[index]]


def phases_of(found: OpList) -> tuple[str, ...]:
    """The phase that each call counts to; one outside of all counts to the phase before it, at first to forward."""
    phase: str = Phase.FORWARD
    phases = []
    for call in found.calls:
        phase = call.phase if call.phase in WORK_PHASES else phase
        phases.append(phase)
    return tuple(phases)


def recorded(found: OpList, cluster: Cluster, e: Efficiencies, *, interval: bool = True) -> Recorded:
    """Find and price the kernels of every distinct call."""
    phases = phases_of(found)
    fusing = fusion.fused(found, phases) if any(call.compiled for call in found.calls) else fusion.Joined()
    joined = fusing.kernels
    scores = score_shapes(found)
    weights = frozenset((one.shape, torch_name(one.dtype)) for one in found.weights)
    varied = variants(e) if interval and not e.lower_bound else None
    lacking: dict[str, None] = {}
    by_tensor = cluster.rank_chip.kind == "cpu" and any("addcdiv" in s.op for s in found.signatures)
    unpriced = _unpriced(found)
    table: dict[tuple[int, bool, bool], int] = {}
    work: list[CallWork] = []
    of_call = []
    for index, call in enumerate(found.calls):
        if call.kind not in ("kernel", "collective"):
            of_call.append(-1)
            continue
        updates = by_tensor and phases[index] == Phase.OPTIMIZER
        key = (call.signature, index in joined, updates)
        at = table.get(key, -1) if index not in joined else -1
        if at < 0:
            at = table[key] = len(work)
            signature = found.of(call)
            measured_s = unpriced.get(call.signature)
            if call.kind == "collective":
                made = _exchange(found, signature, cluster, e, varied)
                work.append(made if measured_s is None else _as_measured(made, measured_s, varied=interval))
            elif measured_s is not None:
                category = str(signature.arguments.get("category", Category.OTHER))
                made = CallWork(category=category if category in CATEGORIES else Category.OTHER, launches=1.0)
                work.append(_as_measured(made, measured_s, varied=interval))
            else:
                ops = joined[index] if index in joined else kernels_of(signature)
                if updates:
                    ops = [_of_update(op, signature) for op in ops]
                work.append(_kernels(ops, signature, cluster.rank_chip, e, varied, lacking, scores, weights))
        of_call.append(at)
    often = Counter(of_call)
    every = ((one, one.op.count * often[at]) for at, of in enumerate(work) for one in of.kernels)
    clock = float(clock_frac(every, cluster.rank_chip, e))
    if not as_alone(e) or clock < 1.0:
        work = [_at_clock(one, clock, e) for one in work]
    return Recorded(found=found, clock_frac=clock, work=tuple(work), of_call=tuple(of_call), phases=phases,
                    lacking=tuple(lacking),
                    inner=frozenset(fusing.inner), copies=tuple(fusing.copies),
                    flow=fusing.flow, ends=fusing.ends, same=fusing.same)  # fmt: skip


def _at_clock(work: CallWork, clock: float, e: Efficiencies) -> CallWork:
    kernels = tuple(at_clock(one, clock, e) for one in work.kernels)
    before, after = (sum(float(one.seconds * one.op.count) for one in of) for of in (work.kernels, kernels))
    if after == before:
        return work
    varied = None if work.varied_s is None else work.varied_s * (after / before)
    return replace(work, kernels=kernels, seconds=after, varied_s=varied)


def _unpriced(found: OpList) -> dict[int, float]:
    """What a profile measured and nothing can price: mean seconds of each signature.

    Ops that neither the table nor their shapes tell: which part of their operands they read, and what they compute, is
    not known; what Inductor fused touches each of its operands once. Exchanges of a number of ranks that nobody says.
    """
    measured = {call.signature for call in found.calls if call.measured_s is not None}
    untold = {at for at in measured if not (is_told(s := found.signatures[at]) or _is_fused(s))}
    seen: dict[int, tuple[float, int]] = {}
    for call in found.calls:
        if call.kind not in ("kernel", "collective") or call.measured_s is None:
            continue
        if _is_alone(found, found.of(call)) if call.kind == "collective" else call.signature in untold:
            seconds, count = seen.get(call.signature, (0.0, 0))
            seen[call.signature] = seconds + call.measured_s, count + 1
    return {at: seconds / count for at, (seconds, count) in seen.items()}


def _is_fused(s: Signature) -> bool:
    """Whether it is an element-wise kernel of Inductor's, with the tensors that it reads and writes."""
    return is_inductors(s.op) and bool(s.inputs) and s.arguments.get("category") not in ARITHMETIC


def _is_alone(found: OpList, s: Signature) -> bool:
    """Whether an exchange names no group and the list one rank, so that others ran of which it says nothing."""
    return "group" not in s.arguments and found.world_size == 1 and not s.op.startswith(("c10d::", "_c10d_functional"))


def _as_measured(work: CallWork, seconds: float, *, varied: bool) -> CallWork:
    several = np.full(VARIANTS, seconds) if varied else None
    return replace(work, seconds=seconds, varied_s=several, known=False, as_measured=True)


def _exchange(
    found: OpList, signature: Signature, cluster: Cluster, e: Efficiencies, varied: Efficiencies | None
) -> CallWork:
    one = exchange_of(signature, found.groups, found.rank, cluster.chips_per_node, found.world_size)

    def seconds(e: Efficiencies) -> Floats:
        if one.kind == "p2p":
            across = one.group.ranks > one.group.ranks_per_node
            return np.asarray(p2p_s(one.payload_bytes, across, cluster, e))
        return np.asarray(collective_s(one.kind, one.payload_bytes, one.group, cluster, e))

    own = float(seconds(e))
    return CallWork(
        exchange=one,
        seconds=own,
        varied_s=np.broadcast_to(seconds(varied), (VARIANTS,)) if varied else None,
        launches=1.0,
        category=Category.COMMUNICATION,
    )


def _kernels(
    ops: Sequence[Op], signature: Signature, chip: Chip, e: Efficiencies, varied: Efficiencies | None,
    lacking: dict[str, None], scores: frozenset[tuple[int, int, int]], weights: frozenset[tuple[tuple[int, ...], str]],
) -> CallWork:  # fmt: skip
    priced = []
    for op in ops:
        if op.precision and peak_flops_per_s(chip, op.precision) == 0:
            lacking[op.precision] = None
            op = replace(op, precision="fp32")
        if scores and op.category in (Category.MATMUL, Category.ELEMENTWISE) and touches_scores(signature, scores):
            op = replace(op, category=Category.ATTENTION)
        if op.chained and _reads_a_weight(signature, weights):
            op = replace(op, chained=())
        priced.append(price(op, chip, e))
    seconds = [float(one.seconds * one.op.count) for one in priced]
    total = sum(seconds)
    longest = max(range(len(priced)), key=seconds.__getitem__, default=None)
    moved = np.zeros(VARIANTS)
    if varied:
        for one, own in zip(priced, seconds, strict=True):
            moved = moved + own * factor(e, varied, _follows(one.op))
    products = sum(own for one, own in zip(priced, seconds, strict=True) if one.op.kind in ("gemm", "attention"))
    return CallWork(
        kernels=tuple(priced),
        seconds=total,
        varied_s=moved if varied else None,
        launches=sum(float(op.launches * op.count) for op in ops),
        products_frac=products / total if total else 0.0,
        products=sum(float(op.count) for op in ops if op.kind == "gemm"),
        category=priced[longest].op.category if longest is not None else Category.OTHER,
        known=not ops or is_told(signature),
    )


def _of_update(op: Op, s: Signature) -> Op:
    """An op of an Adam that goes over one tensor after another, as a CPU's does: a share of all of its accesses."""
    if op.kind != "kernels" or op.category == Category.OPTIMIZER:  # of lists, or fused
        return op
    adam = UPDATES["adamw"]
    again, _ = held_of(op.stream_bytes, 1.0, fused_accesses(adam) / adam.accesses)
    return replace(op, held=(again, SET * max(map(moved_bytes, s.inputs), default=0.0)))


def _reads_a_weight(s: Signature, weights: frozenset[tuple[tuple[int, ...], str]]) -> bool:
    """Whether the largest tensor that an op reads is a parameter, which the optimizer has written long ago."""
    largest = max(s.inputs, key=moved_bytes)
    return (largest.shape, torch_name(largest.dtype)) in weights


def _follows(op: Op) -> str:
    """The efficiency that an op's time moves with."""
    if op.kind == "gemm":
        return UNALIGNED.get(op.fetched) or product_efficiency(op.precision)
    if op.kind == "attention":
        return "attention_vector_frac" if op.precision in ("fp32", "tf32") else op.efficiency
    return op.efficiency if op.kind == "transfer" else "memory_frac"


def score_shapes(found: OpList) -> frozenset[tuple[int, int, int]]:
    """(elements, queries, keys) of the score matrices that a softmax runs over: what touches them is attention."""
    return frozenset(
        (math.prod(one.shape), one.shape[-2], one.shape[-1])
        for s in found.signatures
        if plain(s.op) in ("_softmax", "_safe_softmax", "_softmax_backward_data")
        for one in s.inputs
        if len(one.shape) > 2 and one.shape[-2] > 1 and one.shape[-1] > 1
    )


def touches_scores(s: Signature, scores: frozenset[tuple[int, int, int]]) -> bool:
    """Whether a whole set of score matrices is among an op's operands."""
    return any(
        len(one.shape) > 2 and (math.prod(one.shape), *one.shape[-2:]) in scores for one in (*s.inputs, *s.outputs)
    )
