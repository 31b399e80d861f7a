"""Op-list report: a priced op list written out for people: rows by op and module, collectives, what was assumed."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from estimator.cost.efficiency import Efficiencies
from estimator.estimate.call_times import new_sizes_s
from estimator.estimate.estimate import Memory, ModuleCost
from estimator.estimate.explain import hot_node, needed, reached, shared_cpu, slowed_clock
from estimator.estimate.recorded import Recorded
from estimator.estimate.report import Collective, OpCost, axis_of_ranks, op_cost
from estimator.operations.aten.fusion import ASSUMED as FUSED
from estimator.scenario.aten_cost import is_inductors, plain
from estimator.scenario.breakdown import SHOWN_MEMORY_KINDS, WORK_PHASES, Category, Phase
from estimator.scenario.hardware import Cluster
from estimator.scenario.op_list import NONE
from estimator.scenario.op_rows import loss_rows
from estimator.scenario.problems import Problem
from estimator.scenario.units import bytes_text
from estimator.scenario.units import seconds as seconds_text
from estimator.schedule.queue import DEFAULT_STREAM, Queue

INDUCTOR = "What Inductor fused (triton_…)"
UNKNOWN = "is not in the table of ops: taken as one kernel that reads its inputs and writes its outputs once"
AS_MEASURED = "is not in the table of ops: it stands as measured"
PASSED = "is taken as one kernel through which each of its tensors passes once"
PASSES_ONCE = {
    "triton::rotary_kernel", "triton::_layer_norm_fwd_1pass_kernel", "triton::_layer_norm_bwd_kernel",
    "triton::cross_entropy_fwd_kernel", "triton::cross_entropy_bwd_kernel",
}  # fmt: skip
"""Kernels of the package flash_attn that memory binds: that price is an assumption, not something that lacks."""
WORTH_FRAC = 0.01
"""Share of a step from which an op without a rate is a problem of the prediction, not only an assumption."""

OUTSIDE = "(outside of modules)"
NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


@lru_cache(maxsize=1 << 14)
def alike(path: str) -> str:
    """A module's path with the numbers of its layers left open: layers.*.mlp for layers.3.mlp."""
    return NUMBER.sub("*", path)


def op_costs(priced: Recorded) -> tuple[OpCost, ...]:
    """Return the kernels of every op, those of like modules (the same place in every layer) added, longest first."""
    found = priced.found
    times: Counter[tuple[int, str, str, bool]] = Counter()
    for index, call in enumerate(found.calls):
        at = priced.of_call[index]
        if at >= 0 and priced.work[at].exchange is None:
            module = alike(found.modules[call.module]) if call.module != NONE else OUTSIDE
            times[at, priced.phases[index], module, call.recomputed] += 1
    merged: dict[tuple[str, ...], OpCost] = {}
    for (at, phase, module, again), count in times.items():
        for one in priced.work[at].kernels:
            row = op_cost(one, count, 0.0)
            row.layer, row.phase, row.recomputed = module, phase, again
            if phase == Phase.OPTIMIZER:
                row.category = Category.OPTIMIZER
            key = (module, row.name, phase, row.shape, row.category, row.bound, str(again))
            same = merged.get(key)
            if same is None:
                merged[key] = row
            else:
                for name in ("count", "flops", "bytes", "launches", "saved_bytes", "seconds"):
                    setattr(same, name, getattr(same, name) + getattr(row, name))
                same.intensity_flops_per_byte = same.flops / same.bytes if same.bytes else 0.0
    return tuple(sorted(merged.values(), key=lambda row: -row.seconds))


def module_costs(priced: Recorded, queue: Queue) -> tuple[ModuleCost, ...]:
    """Return every module's own kernels, in the order in which the program first came to it.

    Seconds are those that the step has of them: what a collective or another stream hides behind other kernels counts
    to no module, so that all modules add to the step less its waits for the host.
    """
    found = priced.found
    times: dict[int, Counter[tuple[int, str]]] = {}
    shown: dict[int, dict[str, float]] = {}
    for index, call in enumerate(found.calls):
        if priced.of_call[index] < 0:
            continue
        phase = priced.phases[index]
        times.setdefault(call.module, Counter())[priced.of_call[index], phase] += 1
        seconds = shown.setdefault(call.module, dict.fromkeys(WORK_PHASES, 0.0))
        if call.kind == "kernel" and call.stream == DEFAULT_STREAM:
            seconds[phase] += priced.work_of(index).seconds
    for beyond in (queue.exposed_s, queue.beside_s):
        for index, one_s in beyond.items():
            shown[found.calls[index].module][priced.phases[index]] += float(one_s[0])
    rows = []
    for module, counted in times.items():
        phases_s = shown[module]
        launches = flops = moved = 0.0
        for (at, _), count in counted.items():
            one = priced.work[at]
            launches += count * one.launches
            flops += count * sum(float(k.executed_flops * k.op.count) for k in one.kernels if k.op.kind != "kernels")
            moved += count * sum(float(k.op.bytes * k.op.count) for k in one.kernels)
        path = found.modules[module] if module != NONE else OUTSIDE
        rows.append(
            ModuleCost(
                path=path, phases_s=phases_s, seconds=sum(phases_s.values()), launches=launches, flops=flops,
                bytes=moved,
            )
        )  # fmt: skip
    return tuple(rows)


def collectives_of(priced: Recorded, queue: Queue) -> tuple[Collective, ...]:
    """Return the collectives of a step, equal ones added, and the copies beside them as far as they show."""
    found = priced.found
    rows: dict[tuple[int, str], list[float]] = {}
    copies = 0.0
    for index, seconds in queue.exposed_s.items():
        if found.calls[index].kind == "collective":
            rows.setdefault((priced.of_call[index], priced.phases[index]), [0.0, 0.0])[1] += float(seconds[0])
        else:
            copies += float(seconds[0])
    for index, call in enumerate(found.calls):
        if call.kind == "collective":
            rows.setdefault((priced.of_call[index], priced.phases[index]), [0.0, 0.0])[0] += 1
    names = {at: plain(found.of(call).op) for at, call in zip(priced.of_call, found.calls, strict=True)
             if call.kind == "collective"}  # fmt: skip
    made = []
    for (at, phase), (count, exposed) in rows.items():
        one = priced.work[at]
        assert one.exchange is not None
        ranks = int(one.exchange.group.ranks)
        made.append(
            Collective(
                name=names[at], kind=one.exchange.kind, axis=axis_of_ranks(ranks), phase=phase, ranks=ranks,
                bytes=one.exchange.payload_bytes, count=count, seconds=count * one.seconds, exposed_s=exposed,
            )
        )  # fmt: skip
    if copies > 0:
        made.append(
            Collective(name="copies on the streams of collectives", kind="copy", axis="", phase=Phase.BACKWARD, ranks=1,
                       bytes=0.0, count=1.0, seconds=copies, exposed_s=copies)
        )  # fmt: skip
    return tuple(made)


def tokens_of(priced: Recorded) -> float:
    """Rows that the losses of a step are taken over on this rank, 0 where it has none that is known."""
    return float(loss_rows(priced.found, priced.phases))


def assumptions_of(
    priced: Recorded, e: Efficiencies, step_s: float, cluster: Cluster, ranks: int
) -> tuple[str, ...]:  # fmt: skip
    """List what the prediction of so many ranks takes for granted, the list's own assumptions among it."""
    found = priced.found
    said = [
        *shared_cpu(cluster),
        reached(e, _precisions(priced)),
        *hot_node(e, min(ranks, cluster.chips_per_node)),
        *slowed_clock(e, priced.clock_frac),
        "The host starts a step together with the device, as where it reads a loss; every rank takes as long as this"
        " one.",
        "MFU counts the products that this rank runs and the full attention square, nothing recomputed.",
    ]
    if any(call.compiled for call in found.calls):
        said.append(FUSED)
    if any(one.exchange is not None and one.exchange.kind == "p2p" for one in priced.work):
        said.append(
            "What this rank waits for others to send, as a pipeline's bubble, is in no rank's list: not counted."
        )
    if any(one.exchange for one in priced.work) and not e.lower_bound:
        said.append(
            f"Collectives hide behind memory-bound kernels, not behind matrix products"
            f" (contention {e.contention_frac:.0%})."
        )
    if any(
        k.op.efficiency == "attention_flash1_frac" and k.op.precision not in ("fp32", "tf32")
        for one in priced.work
        for k in one.kernels
    ):
        said.append("Memory-efficient attention is taken to be as fast as FlashAttention 1.")
    new_s = sum(new_sizes_s(priced, e).values())
    if new_s:
        said.append(
            "Products whose size the data chose, as rows of an expert, are in part new to the library, as in the first"
            f" {e.new_products_steps:.0f} steps of a run: {e.host_new_product_s * 1e6:.0f} µs to find the kernel of"
            f" each, {seconds_text(float(new_s))} of the host in this step; a long training ends without."
        )
    if not found.storages:
        said.append("The list holds no storages, so nothing is said of memory.")
    measured = {
        found.of(call).op
        for at, call in zip(priced.of_call, found.calls, strict=True)
        if at >= 0 and priced.work[at].as_measured
    }
    said += [
        f"{name} {AS_MEASURED if name in measured else PASSED if name in PASSES_ONCE else UNKNOWN}"
        f" ({frac:.1%} of the step)."
        for name, frac, worth in _unknown(priced, step_s)
        if not worth
    ]
    return (*said, *found.assumptions)


TOLD_FRAC = 0.05
"""Products in a precision that take less of the time of all products are not told."""


def _precisions(priced: Recorded) -> list[str]:
    """Precisions that products are taken in, those of most time first."""
    counts = Counter(at for at in priced.of_call if at >= 0)
    seconds: dict[str, float] = {}
    for at, count in counts.items():
        for one in priced.work[at].kernels:
            if one.op.kind == "gemm":
                name = one.op.precision.removesuffix("-amp")
                seconds[name] = seconds.get(name, 0.0) + count * float(one.seconds * one.op.count)
    least_s = TOLD_FRAC * sum(seconds.values())
    return sorted((name for name, taken_s in seconds.items() if taken_s >= least_s), key=lambda name: -seconds[name])


def _unknown(priced: Recorded, step_s: float) -> list[tuple[str, float, bool]]:
    """Ops that the table lacks, with the share of the step that they are taken to be; the longest first.

    The third says whether that is worth a problem: a profile has measured them, a compiler's kernels are what they say,
    those of a package that are known to be bound by memory are priced so.
    """
    unknown: dict[str, float] = {}
    for at, call in zip(priced.of_call, priced.found.calls, strict=True):
        if at >= 0 and not priced.work[at].known:
            name = priced.found.of(call).op
            name = INDUCTOR if is_inductors(name) else name
            unknown[name] = unknown.get(name, 0.0) + priced.work[at].seconds
    traced = priced.found.source == "trace"
    shares = {name: unknown[name] / max(step_s, 1e-30) for name in sorted(unknown, key=lambda name: -unknown[name])}
    priced_so = {INDUCTOR, *PASSES_ONCE}
    return [(name, frac, traced and name not in priced_so and frac >= WORTH_FRAC) for name, frac in shares.items()]


def problems_of(priced: Recorded, memory: Memory, step_s: float) -> tuple[Problem, ...]:
    """Report what the list itself could not tell, ops and units that have no rate, and a step that does not fit."""
    problems = list(priced.found.problems)
    for name, frac, worth in _unknown(priced, step_s):
        if worth:
            message = f"{UNKNOWN}: {frac:.1%} of the step, at the least"
            remedy = "Import a profile of the step made with record_shapes=True: its kernels are measured there."
            problems.append(Problem(field=name, message=message, remedy=remedy))
    for precision in priced.lacking:
        problems.append(
            Problem(
                field="chip",
                message=f"has no matrix unit for {precision}, which the program multiplies in",
                remedy="Its products are priced as fp32; choose another chip.",
            )
        )
    if not memory.fits:
        kind = max(memory.by_kind, key=lambda name: memory.by_kind[name])
        problems.append(
            Problem(
                field="memory",
                message=f"{needed(memory.peak_bytes, memory.reserved_bytes)} do not fit into"
                f" {bytes_text(memory.capacity_bytes)}; the largest part, {SHOWN_MEMORY_KINDS[kind].label}, is"
                f" {bytes_text(memory.by_kind[kind])}",
                remedy="Trace it with a smaller batch, with activation checkpointing, or with its states sharded.",
            )
        )
    return tuple(problems)
