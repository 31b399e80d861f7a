"""Call times: how long device and host take for each call of an op list, whose kernels are priced.

What the host takes beside the launch of a call's kernels is found in the list itself: modules that it enters, gradients
that backward hands over, graphs of a compiler, an optimizer's walk over its tensors, numbers that DTensor has not seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from estimator.cost.efficiency import Efficiencies
from estimator.cost.host import graphs_s, new_products_s, slowest_of, taken_apart_s
from estimator.cost.recorded_host import handed_over_s, recorded_launch_s
from estimator.estimate.interval import VARIANTS, variants
from estimator.estimate.recorded import Recorded
from estimator.operations.aten import table_name
from estimator.operations.aten.optimizer import tensors_of
from estimator.scenario.breakdown import Phase
from estimator.scenario.units import Number
from estimator.schedule.queue import Times

Floats = NDArray[np.float64]


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
    hosts: dict[_Launched, int] = {}
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
        launched = _Launched(
            phase=found.phases[index],
            launches=count,
            compiled=call.compiled,
            again=call.recomputed,
            # Backward counts none, so that its calls share what was priced
            dispatches=0 if not counted else call.dispatches if forward else min(call.dispatches, 1),
            dtensor=call.dtensor,
            modules=entered[index],
            saved=call.module in twice and not call.recomputed and found.phases[index] == Phase.FORWARD,
            graphs=call.graphs,
            # None of a wait, and of a collective from below Python, is no kernel that is launched there
            bare=counted and not call.dispatches and call.kind == "kernel",
        )
        at = hosts.get(launched)
        if at is None:
            at = hosts[launched] = len(columns)
            columns.append(np.broadcast_to(np.asarray(_launch_s(launched, e_all, library=library), float), (rows,)))
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
    for mark, constant in FSDP_MODULES.items():
        indices = _marked(found, *mark)
        each = np.asarray(getattr(e_all, constant), dtype=float)
        if constant == "host_fsdp_backward_s":
            # Of modules that backward gathers no more, their hooks have less to do.
            kept = 1.0 - min(len(_marked(found, *GATHERED_AGAIN)) / max(len(indices), 1), 1.0)
            each = each * (1.0 - kept * (1.0 - np.asarray(e_all.host_fsdp_kept_factor, dtype=float)))
        host[:, indices] += np.reshape(each, (-1, 1))
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


class _Launched(NamedTuple):
    """What of a call tells how long the host takes for it: calls alike in it are priced once.

    ``launches``: of kernels; ``again``: run again in backward; ``dispatches``: ops that the host went through, 0 where
    they are not counted; ``modules``: that it enters; ``saved``: hooks keep what it saves; ``graphs``: of a compiler,
    that begin with it; ``bare``: launched without a dispatch.
    """

    phase: str
    launches: float
    compiled: bool
    again: bool
    dispatches: int
    dtensor: int
    modules: int
    saved: bool
    graphs: int
    bare: bool


def _launch_s(one: _Launched, e: Efficiencies, *, library: bool) -> Number:
    """Host seconds of such calls: launching their kernels, taking DTensors apart, beginning graphs."""
    launching = recorded_launch_s(
        one.phase, one.launches, e, compiled=one.compiled, again=one.again, dispatches=one.dispatches,
        library=library, modules=one.modules, saved=one.saved, bare=one.bare,
    )  # fmt: skip
    apart = taken_apart_s(one.phase, one.dtensor, e, compiled=one.compiled)
    return launching + apart + graphs_s(one.graphs, e, forward=True)


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
GATHERED_AGAIN = ("all_gather_copy_in", Phase.BACKWARD)
"""What it runs for each that backward gathers once more, as forward had given it back."""


def _marked(found: Recorded, name: str, phase: str) -> list[int]:
    """Calls of an op in a phase."""
    marks = {at for at, s in enumerate(found.found.signatures) if table_name(s.op).lstrip("_") == name}
    return [at for at, call in enumerate(found.found.calls) if call.signature in marks and found.phases[at] == phase]


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
                name = table_name(signature.op).strip("_")
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
        if apart and table_name(found.found.of(call).op).rstrip("_") == "addcdiv":
            first.setdefault(call.signature, index)
    return list(first.values())
