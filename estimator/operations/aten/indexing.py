"""Indexing: embeddings, gathers, scatters, masks by index, pooling and resampling, forward and backward."""

from __future__ import annotations

import math

from estimator.operations.aten.operands import count, kernel, moved_bytes, total_bytes
from estimator.operations.aten.products import name
from estimator.operations.op import WALKER_THREADS, Op
from estimator.operations.torch_kernels import FEW_INDICES, SORTED_LAUNCHES, SORTED_PASSES, WARP
from estimator.scenario.aten_cost import torch_name
from estimator.scenario.op_list import Operand, Signature


def rows(s: Signature) -> list[Op]:
    """Whole rows picked by index (embedding, index_select): each is read and written once."""
    leaving = s.outputs[0] if s.outputs else None
    moved = 2 * moved_bytes(leaving) if leaving else _picked_bytes(s)
    return [kernel(name(s), stream=moved)] if moved else []


def _picked_bytes(s: Signature) -> float:
    """Bytes read and written where only a table of rows and the indices are known."""
    if len(s.inputs) < 2 or not s.inputs[0].shape or not s.inputs[0].shape[0]:
        return total_bytes(s.inputs)
    table, indices = s.inputs[0], s.inputs[-1]
    return 2 * moved_bytes(table) / table.shape[0] * count(indices)


def embedding_backward(s: Signature) -> list[Op]:
    """A table of zeros, and the tokens' gradients added to their rows: many tokens in an order that is sorted first."""
    gradient = s.inputs[0]
    elements = float(count(gradient))
    if not elements:
        return []
    table = s.outputs[0] if s.outputs else None
    ops = [kernel(f"{name(s)} fill", stream=moved_bytes(table))] if table else []
    tokens = elements / max(gradient.shape[-1], 1)
    if tokens <= FEW_INDICES:
        # One kernel walks all indices for every slice of the width.
        return [*ops, kernel(name(s), mixed=elements, moved=2 * moved_bytes(gradient))]
    return [*ops, kernel(name(s), mixed=SORTED_PASSES * elements, moved=SORTED_PASSES * moved_bytes(gradient),
                          launches=SORTED_LAUNCHES)]  # fmt: skip


def picked(s: Signature) -> list[Op]:
    """Single elements picked by index (gather, advanced indexing, take): bound by elements."""
    leaving = s.outputs[0] if s.outputs else s.inputs[-1]
    elements = float(count(leaving))
    return [kernel(name(s), strided=elements, moved=2 * moved_bytes(leaving) + _indices(s))] if elements else []


def _indices(s: Signature) -> float:
    return total_bytes(one for one in s.inputs if torch_name(one.dtype) in ("int64", "int32", "bool"))


def put(s: Signature) -> list[Op]:
    """Elements put, or added, where indices say; an op that leaves its input alone copies that first."""
    if not s.inputs:
        return []
    target = s.inputs[0]
    source = _source(s)
    ops = [] if name(s).endswith("_") else [kernel(f"{name(s)} copy", stream=2 * moved_bytes(target))]
    elements = float(count(source))
    return [*ops, kernel(name(s), strided=elements, moved=2 * moved_bytes(source) + _indices(s))] if elements else ops


def index_put(s: Signature) -> list[Op]:
    """The same by advanced indices; of equal ones that add up, which are sorted, a warp adds one after another."""
    ops = put(s)
    if not ops or not s.arguments.get("accumulate"):
        return ops
    ops[-1].launches = 10.0
    target = s.inputs[0].shape
    indices = [one for one in s.inputs[1:] if torch_name(one.dtype) == "int64"]
    places = math.prod(target[: len(indices)])
    width = math.prod(target[len(indices) :])
    if indices and places and width > WARP:
        ops[-1].walkers = places * math.ceil(width / (WARP * PER_THREAD)) * WARP / WALKER_THREADS
        ops[-1].walked_elements = LOADS_TO_ADD * count(indices[0]) / places * WALKER_THREADS * ops[-1].walkers
    return ops


PER_THREAD = 4
"""Columns of a place that each thread of a warp adds up (aten/src/ATen/native/cuda/Indexing.cu)."""

LOADS_TO_ADD = 4.0
"""Accesses that one of equal indices waits for behind the last: whether it is equal, whose it is, its gradient, the sum
that the last has stored (2.2 µs each on H200: biases of 16 experts for 16,384 rows, torch 2.11)."""


def _source(s: Signature) -> Operand:
    others = [one for one in s.inputs[1:] if torch_name(one.dtype) == torch_name(s.inputs[0].dtype)]
    return others[-1] if others else (s.inputs[1] if len(s.inputs) > 1 else s.inputs[0])


def found(s: Signature) -> list[Op]:
    """Places where a condition holds: counted, summed up, written; the host waits for their number."""
    moved = 2 * total_bytes(s.inputs) + total_bytes(s.outputs)
    return [kernel(name(s), stream=moved, launches=4.0)] if moved else []


def windows(s: Signature) -> list[Op]:
    """Pooling and resampling: one kernel, bound by the elements that it writes and the bytes that it reads."""
    leaving = s.outputs[0] if s.outputs else s.inputs[0]
    moved = total_bytes(s.inputs) + total_bytes(s.outputs)
    return [kernel(name(s), strided=float(count(leaving)), moved=moved)] if moved else []


def windows_backward(s: Signature) -> list[Op]:
    """A gradient of zeros, to which every window adds."""
    leaving = s.outputs[0] if s.outputs else s.inputs[0]
    gradient = s.inputs[0] if s.inputs else leaving
    moved = total_bytes(s.inputs) + moved_bytes(leaving)
    if not moved:
        return []
    return [
        kernel(f"{name(s)} fill", stream=moved_bytes(leaving)),
        kernel(name(s), strided=float(max(count(gradient), count(leaving))), moved=moved),
    ]
