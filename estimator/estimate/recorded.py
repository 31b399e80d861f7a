"""Recorded: the calls of an op list with their kernels, priced; each distinct call once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.communication.recorded import Exchange, exchange_of
from estimator.cost.collectives import collective_s, p2p_s
from estimator.cost.device_time import as_alone, at_factor
from estimator.cost.efficiency import Efficiencies
from estimator.cost.host import graphs_s, handed_over_s, new_products_s, recorded_launch_s, slowest_of, taken_apart_s
from estimator.cost.price import UNALIGNED, Priced, price
from estimator.estimate.interval import VARIANTS, factor, product_efficiency, variants
from estimator.operations.aten import fusion, is_told, kernels_of, plain
from estimator.operations.aten.operands import moved_bytes
from estimator.operations.aten.optimizer import tensors_of
from estimator.operations.op import Op
from estimator.scenario.aten_cost import torch_name
from estimator.scenario.breakdown import ARITHMETIC, CATEGORIES, WORK_PHASES, Category, Phase
from estimator.scenario.hardware import Chip, Cluster, peak_flops_per_s
from estimator.scenario.op_list import Operand, OpList, Signature
from estimator.schedule.queue import Times

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

    ``lacking``: precisions that the chip has no unit for, priced as fp32. ``inner``: results that a compiled
    kernel takes itself. ``copies``: bytes that a compiler adds, with the first and the last call that they are for.
    ``flow``, ``ends``, ``same``: as fusion says.
    """

    found: OpList
    work: tuple[CallWork, ...]
    of_call: tuple[int, ...]
    phases: tuple[str, ...]
    lacking: tuple[str, ...]
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
    unpriced = _unpriced(found)
    table: dict[tuple[int, bool], int] = {}
    work: list[CallWork] = []
    of_call = []
    for index, call in enumerate(found.calls):
        if call.kind not in ("kernel", "collective"):
            of_call.append(-1)
            continue
        key = (call.signature, index in joined)
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
                work.append(_kernels(ops, signature, cluster.rank_chip, e, varied, lacking, scores, weights))
        of_call.append(at)
    if not as_alone(e):
        work = [_at_factor(one, e.gemm_in_step_factor, e) for one in work]
    return Recorded(found=found, work=tuple(work), of_call=tuple(of_call), phases=phases, lacking=tuple(lacking),
                    inner=frozenset(fusing.inner), copies=tuple(fusing.copies),
                    flow=fusing.flow, ends=fusing.ends, same=fusing.same)  # fmt: skip


def _at_factor(work: CallWork, factor: float, e: Efficiencies) -> CallWork:
    kernels = tuple(at_factor(one, factor, e) for one in work.kernels)
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
    return s.op.startswith("triton_") and bool(s.inputs) and s.arguments.get("category") not in ARITHMETIC


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


def times_of(found: Recorded, e: Efficiencies, *, interval: bool) -> Times:
    """Seconds of every call on device and host, under the efficiencies and, for an interval, under their ends.

    An optimizer that works on lists of tensors walks over all of them before its first kernel.
    """
    calls = found.found.calls
    e_all = variants(e) if interval else e
    rows = VARIANTS if interval else 1
    which = np.array(found.of_call, dtype=np.int64)
    works = which >= 0
    table = np.zeros((rows, len(found.work) + 1))
    launches = np.zeros(len(found.work) + 1)
    products = np.zeros(len(found.work) + 1)
    for index, one in enumerate(found.work):
        table[:, index] = one.varied_s if interval and one.varied_s is not None else one.seconds
        launches[index] = one.launches if one.exchange is None else 0.0
        products[index] = one.products_frac
    gap = np.asarray(e_all.kernel_gap_s, dtype=float).reshape(-1, 1)
    hosts: dict[tuple[str, float, bool, bool, int, int, int, bool, int, bool], int] = {}
    twice = {call.module for call in calls if call.recomputed}
    columns: list[Floats] = []
    of_host = np.zeros(len(calls), dtype=np.int64)
    # Who did not count them leaves one for each call.
    counted = any(call.dispatches > 1 for call in calls)
    library = "transformers" in found.found.versions
    entered = entered_modules(found) if library and counted else [0] * len(calls)
    for index, call in enumerate(calls):
        count = found.work[which[index]].launches if which[index] >= 0 else 0.0
        forward = found.phases[index] == Phase.FORWARD or call.recomputed
        key = (
            found.phases[index],
            count,
            call.compiled,
            call.recomputed,
            # Backward counts none, so that its calls share what was priced
            0 if not counted else call.dispatches if forward else min(call.dispatches, 1),
            call.dtensor,
            entered[index],
            call.module in twice and not call.recomputed and found.phases[index] == Phase.FORWARD,
            call.graphs,
            # None of a wait, and of a collective from below Python, is no kernel that is launched there
            counted and not call.dispatches and call.kind == "kernel",
        )
        at = hosts.get(key)
        if at is None:
            at = hosts[key] = len(columns)
            phase, count, compiled, again, dispatches, dtensor, modules, saved, graphs, bare = key
            own = recorded_launch_s(phase, count, e_all, compiled=compiled, again=again, dispatches=dispatches,
                                    library=library, modules=modules, saved=saved, bare=bare)  # fmt: skip
            own = own + taken_apart_s(phase, dtensor, e_all, compiled=compiled) + graphs_s(graphs, e_all, forward=True)
            columns.append(np.broadcast_to(np.asarray(own, dtype=float), (rows,)))
        of_host[index] = at
    host = np.stack(columns, axis=1)[:, of_host] if columns else np.zeros((rows, 0))
    walk = np.asarray(e_all.host_tensor_s, dtype=float)
    sharded = np.asarray(e_all.host_sharded_tensor_s, dtype=float)
    for index, (tensors, dtensors, share) in _walks(found).items():
        whole = tensors * walk + dtensors * sharded + np.asarray(e_all.host_optimizer_s, dtype=float)
        host[:, index] += share * whole
    host[:, _new_values(found)] += np.reshape(np.asarray(e_all.host_dtensor_value_s, dtype=float), (-1, 1))
    handing, gradients = _gradients(found) if counted else ([], 0.0)
    host[:, handing] += np.reshape(handed_over_s(gradients, e_all, library=library), (-1, 1))
    begun, backward = _graphs(found)
    host[:, backward] += np.reshape(graphs_s(begun, e_all, forward=False), (-1, 1))
    for (name, phase), constant in FSDP_MODULES.items():
        marks = {at for at, s in enumerate(found.found.signatures) if plain(s.op).lstrip("_") == name}
        if marks:
            each = np.asarray(getattr(e_all, constant), dtype=float)
            for index, call in enumerate(calls):
                if call.signature in marks and found.phases[index] == phase:
                    host[:, index] += each
    for index, longer in new_sizes_s(found, e_all).items():
        host[:, index] += longer
    # Every exchange waits for the slowest rank's host.
    host *= np.reshape(slowest_of(max(found.found.world_size, 1), e_all), (-1, 1))
    return Times(
        device=table[:, which],
        gap=np.where(works, launches[which], 0.0) * gap + np.zeros((rows, 1)),
        host=host,
        products_frac=products[which],
        contention_frac=np.broadcast_to(np.asarray(e_all.contention_frac, dtype=float), (rows,)),
        last_s=np.broadcast_to(np.asarray(0.0 if e.lower_bound else e_all.host_step_s, dtype=float), (rows,)),
    )


def new_sizes_s(found: Recorded, e: Efficiencies) -> dict[int, Any]:
    """Host seconds that calls with products of a size that the data chose take longer, by their index."""
    calls = found.found.calls
    varying = [
        at for at, call in enumerate(calls) if call.varies and call.kind == "kernel" and found.work_of(at).products
    ]
    alike = Counter(calls[at].signature for at in varying)
    return {
        at: new_products_s(found.work_of(at).products, alike[calls[at].signature], calls[at].varies, e)
        for at in varying
    }


FSDP_MODULES = {
    ("all_gather_copy_in", Phase.FORWARD): "host_fsdp_forward_s",
    ("chunk_cat", Phase.BACKWARD): "host_fsdp_backward_s",
}
"""Ops that FSDP2 runs once for each module that it gathers: all that they stand for takes the host longer."""


def entered_modules(found: Recorded) -> list[int]:
    """Modules that the host entered before each forward call: the parts of its path that the call before had not."""
    paths = [tuple(path.split(".")) if path else () for path in found.found.modules]
    count = [0] * len(found.found.calls)
    last = -1
    before: tuple[str, ...] = ()
    for index, call in enumerate(found.found.calls):
        if call.module == last or not (found.phases[index] == Phase.FORWARD or call.recomputed):
            continue
        path: tuple[str, ...] = paths[call.module] if call.module >= 0 else ()
        parts = range(min(len(path), len(before)))
        count[index] = len(path) - next((at for at in parts if path[at] != before[at]), len(parts))
        last, before = call.module, path
    return count


def _gradients(found: Recorded) -> tuple[list[int], float]:
    """Calls of backward, and how many tensors' gradients each of them hands over: all of a pass, evenly."""
    backward = [index for index, phase in enumerate(found.phases) if phase == Phase.BACKWARD]
    calls = found.found.calls
    handing = [at for at in backward if calls[at].kind == "kernel" and not (calls[at].compiled or calls[at].recomputed)]
    worked = [phase for phase in found.phases if phase in (Phase.FORWARD, Phase.BACKWARD)]
    passes = sum(a == Phase.FORWARD and b == Phase.BACKWARD for a, b in pairwise(worked))
    tensors = sum(weight.trains for weight in found.found.weights)
    return handing, passes * tensors / len(handing) if handing else 0.0


def _graphs(found: Recorded) -> tuple[float, list[int]]:
    """Compiled calls of backward, and how many graphs' backwards begin with each of them: all of a pass, evenly."""
    calls = found.found.calls
    backward = [
        index
        for index, (call, phase) in enumerate(zip(calls, found.phases, strict=True))
        if phase == Phase.BACKWARD and call.compiled and call.kind == "kernel" and not call.recomputed
    ]
    entered = sum(call.graphs for call in calls if not call.recomputed)
    return (entered / len(backward), backward) if backward else (0.0, [])


WALKED_FIRST, CORRECTED = 0.6, 0.25
"""Of an optimizer's walk over lists of tensors, what goes before its first kernel, and what before the one that takes
the roots: Adam's bias corrections, a number of Python for each tensor. AdamW of 100 tensors, each kernel's call apart
(torch 2.13): 4.3, 1.8 and, behind its last kernel, 1.0 µs a tensor."""


def _walks(found: Recorded) -> Mapping[int, tuple[int, int, float]]:
    """Calls before which an optimizer walks over tensors: how many, the DTensors among them, and its share there.

    What comes behind its last kernel no kernel of the step waits for.
    """
    walks: dict[int, tuple[int, int, float]] = {}
    first, roots, before = -1, -1, ""
    for index, (call, phase) in enumerate(zip(found.found.calls, found.phases, strict=True)):
        if phase == Phase.OPTIMIZER and before != Phase.OPTIMIZER:
            first, roots = index, -1
        before = phase
        if phase == Phase.OPTIMIZER and call.kind == "kernel":
            signature = found.found.of(call)
            if "foreach" in signature.op or "fused" in signature.op:
                name = plain(signature.op).strip("_")
                if name == "foreach_sqrt" and roots < 0:
                    roots = index
                tensors = tensors_of(signature)
                most, dtensors, _ = walks.get(first, (0, 0, 0.0))
                both = max(most, tensors), max(dtensors, tensors if call.dtensor else 0)
                walks[first] = (*both, WALKED_FIRST if roots >= 0 else 1.0)
                if roots >= 0:
                    walks[roots] = (*both, CORRECTED + (WALKED_FIRST if roots == first else 0.0))
    return walks


def _new_values(found: Recorded) -> list[int]:
    """Calls that give a layout of DTensors a number which it has not seen: AdamW's step size, another at each step.

    DTensor looks up how an op is laid out by its operands' layouts and by the numbers named to it, so that each new
    one is worked out anew, once for all tensors of a layout.
    """
    first: dict[int, int] = {}
    for index, (call, phase) in enumerate(zip(found.found.calls, found.phases, strict=True)):
        apart = phase == Phase.OPTIMIZER and call.dtensor and not call.compiled
        if apart and plain(found.found.of(call).op).rstrip("_") == "addcdiv":
            first.setdefault(call.signature, index)
    return list(first.values())


def score_shapes(found: OpList) -> frozenset[tuple[int, int, int]]:
    """(elements, queries, keys) of the score matrices that a softmax runs over: what touches them is attention."""
    return frozenset(
        (_size(one.shape), one.shape[-2], one.shape[-1])
        for s in found.signatures
        if s.op.rpartition("::")[2] in ("_softmax", "_safe_softmax", "_softmax_backward_data")
        for one in s.inputs
        if len(one.shape) > 2 and one.shape[-2] > 1 and one.shape[-1] > 1
    )


def touches_scores(s: Signature, scores: frozenset[tuple[int, int, int]]) -> bool:
    """Whether a whole set of score matrices is among an op's operands."""
    return any(len(one.shape) > 2 and (_size(one.shape), *one.shape[-2:]) in scores for one in (*s.inputs, *s.outputs))


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size
