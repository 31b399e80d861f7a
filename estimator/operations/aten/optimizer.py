"""Optimizers: multi-tensor (foreach) ops and fused steps, by how many launches their tensors need."""

from __future__ import annotations

import math
from collections.abc import Sequence

from estimator.operations.aten.operands import count, kernel, total_bytes
from estimator.operations.aten.products import name as name_of
from estimator.operations.op import Op
from estimator.scenario.breakdown import Category
from estimator.scenario.op_list import Operand, Signature

CHUNK_ELEMENTS = 65_536
CHUNKS = 320
TENSORS = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}
"""torch's multi-tensor kernels: elements of a chunk, chunks of a launch, and tensors of a launch by how many lists it
walks (aten/src/ATen/native/cuda/MultiTensorApply.cuh)."""

LISTS = {"lerp": 2, "addcmul": 3, "addcdiv": 3, "copy": 2}
"""Lists of tensors that a foreach op reads, where it is not one; binary ops are told by their inputs."""

PAIRED = ("add", "sub", "maximum", "minimum", "clamp_max", "clamp_min")
"""Binary ops that take two lists where both halves of their tensors are alike and no overload tells; others take
numbers: optimizers scale by numbers and add lists."""

FUSED = {"adam": 4, "adamw": 4, "sgd": 2, "adagrad": 3}
"""Lists of a fused step as large as the parameters: parameters, gradients, moments."""


def arithmetic_of(s: Signature) -> str:
    """The name of the arithmetic in a foreach op: mul of _foreach_mul_.Scalar."""
    return name_of(s).removeprefix("_foreach_").rstrip("_")


def launches(tensors: Sequence[Operand], lists: int) -> float:
    """Launches of a multi-tensor kernel over tensors of each of ``lists`` lists.

    A launch ends when it has all its chunks or tensors; a tensor that is cut goes on in the next one.
    """
    most = TENSORS[min(max(lists, 1), max(TENSORS))]
    done, chunks, held = 0, 0, 0
    for one in tensors:
        left = math.ceil(count(one) / CHUNK_ELEMENTS)
        if not left:
            continue
        held += 1
        while left:
            taken = min(left, CHUNKS - chunks)
            chunks, left = chunks + taken, left - taken
            if chunks == CHUNKS or (held == most and not left):
                done, chunks, held = done + 1, 0, 1 if left else 0
    return float(done + (chunks > 0))


def foreach(s: Signature) -> list[Op]:
    """One arithmetic op over lists of tensors: all lists read, the result written."""
    name = arithmetic_of(s)
    tensors = [one for one in s.inputs if one.shape or name in ("copy",)] or list(s.inputs)
    if not tensors:
        return []
    lists = _lists(s, name, tensors)
    each = max(len(tensors) // lists, 1)
    first = tensors[:each]
    in_place = s.op.partition(".")[0].endswith("_")
    outputs = list(s.outputs) if s.outputs and not in_place else first
    if name in ("norm", "max"):
        moved, walked = total_bytes(first), 1
        own = kernel(name_of(s), stream=moved, launches=launches(first, walked) + 1, category=Category.OPTIMIZER)
        return [own]
    # The factors of addcmul are the gradient twice, wherever an optimizer calls it: one of them is read from cache.
    read = total_bytes(tensors[: 2 * each] if name == "addcmul" else tensors)
    moved = read + total_bytes(outputs)
    walked = lists if in_place else lists + 1
    elements = float(sum(map(count, first)))
    return [
        kernel(name_of(s), stream=moved, launches=launches(first, walked), flops=elements, category=Category.OPTIMIZER)
    ]


def tensors_of(s: Signature) -> int:
    """How many tensors of one list an op walks; the host looks at each."""
    name = arithmetic_of(s)
    if not name_of(s).startswith("_foreach_"):
        return max(len(s.inputs) // (_fused_lists(s) + 1), 1)
    tensors = [one for one in s.inputs if one.shape] or list(s.inputs)
    return max(len(tensors) // _lists(s, name, tensors), 1)


def fused(s: Signature) -> list[Op]:
    """A whole step in one pass: parameters and moments read and written, gradients read."""
    lists = _fused_lists(s)
    each = max(len(s.inputs) // (lists + 1), 1) if len(s.inputs) > lists else 1
    parameters = s.inputs[:each]
    own = total_bytes(s.inputs[: each * lists])
    written = own - total_bytes(s.inputs[each : 2 * each])
    elements = float(sum(map(count, parameters)))
    return [
        kernel(name_of(s), stream=own + written, launches=launches(parameters, lists), flops=12 * elements,
               category=Category.OPTIMIZER, chunk_bytes=(own + written) / elements * CHUNK_ELEMENTS)
    ] if elements else []  # fmt: skip


def unscale(s: Signature) -> list[Op]:
    """Gradients divided by the loss scale, and looked through for what is not finite."""
    tensors = [one for one in s.inputs if one.shape and count(one) > 1] or list(s.inputs)
    moved = 2 * total_bytes(tensors)
    return [kernel(name_of(s), stream=moved, launches=launches(tensors, 1), category=Category.OPTIMIZER)]


def _fused_lists(s: Signature) -> int:
    return FUSED.get(name_of(s).strip("_").removeprefix("fused_"), 4)


def _lists(s: Signature, name: str, tensors: Sequence[Operand]) -> int:
    """How many lists of tensors a foreach op reads, by its overload where the name has it."""
    if name in LISTS:
        return LISTS[name]
    overload = s.op.partition(".")[2]
    if overload:
        return 2 if overload == "List" else 1
    return 2 if name in PAIRED and _pairs(tensors) else 1


def _pairs(tensors: Sequence[Operand]) -> bool:
    """Whether the second half repeats the shapes of the first: two lists, not one and a scalar."""
    half = len(tensors) // 2
    return len(tensors) % 2 == 0 and half > 0 and all(
        a.shape == b.shape for a, b in zip(tensors[:half], tensors[half:], strict=True)
    )  # fmt: skip
