"""What if: another op list, as the program would make it under another chip, precision, attention or compiler."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from estimator.estimate.recorded import phases_of
from estimator.operations.aten import indexing, kernels_of_table, products
from estimator.operations.aten.optimizer import arithmetic_of
from estimator.operations.op import VOCABULARY_OF, WHOLE, fetched_at_once, filled_up
from estimator.scenario import catalog
from estimator.scenario.aten_cost import is_inductors, op_name
from estimator.scenario.breakdown import MemoryKind, Phase
from estimator.scenario.op_list import NONE, Operand, OpList, Signature
from estimator.scenario.problems import InputProblems, Problem


@dataclass(frozen=True, kw_only=True)
class ListChange:
    """One question: how people call it, the list that answers it, the ``precision`` that its chip must have."""

    label: str
    of: Callable[[OpList], OpList]
    precision: str = ""


def without_communication(found: OpList) -> OpList:
    """No collective takes any time; copies beside them stay."""
    exchanges = {index for index, call in enumerate(found.calls) if call.kind == "collective"}
    return _saying(without_calls(found, exchanges), "Collectives are left out.")


def is_compiled(found: OpList) -> bool:
    """Whether a compiler has all of a forward pass already: what is left are numbers, and what brings its data.

    Sums that autograd accumulates are outside of any region, in backward.
    """
    if any(is_inductors(s.op) for s in found.signatures):
        return True
    kernels = [
        (call, found.of(call))
        for call, phase in zip(found.calls, phases_of(found), strict=True)
        if call.kind == "kernel" and phase == Phase.FORWARD
    ]
    left = [s for call, s in kernels if not call.compiled and any(math.prod(one.shape) > 1 for one in s.inputs)]
    return any(call.compiled for call, _ in kernels) and not left


def compiled(found: OpList) -> OpList:
    """Forward and backward compiled: neighbours fuse, and the host passes over Python; as it is where they are."""
    if is_compiled(found):
        return found
    phases = phases_of(found)
    calls = tuple(
        replace(call, compiled=True) if call.kind == "kernel" and phase != Phase.OPTIMIZER else call
        for call, phase in zip(found.calls, phases, strict=True)
    )
    return replace(found, calls=calls)


def _saying(found: OpList, words: str) -> OpList:
    return replace(found, assumptions=(*found.assumptions, words))


PRODUCTS = (
    products.mm, products.addmm, products.bmm, products.baddbmm, products.matmul, products.linear, products.grouped_mm,
    products.convolution, products.convolution_backward,
)  # fmt: skip


def with_products_in(precision: str) -> Callable[[OpList], OpList]:
    """Products in another precision, all else as it was: "fp4", "fp8", "bf16", "fp16", "tf32" or "fp32"."""
    types = {
        "fp4": "float4_e2m1fn",
        "fp8": "float8_e4m3fn",
        "bf16": "bfloat16",
        "fp16": "float16",
        "tf32": "float32",
        "fp32": "float32",
    }
    if precision not in types:
        remedy = f"One of: {', '.join(types)}."
        raise InputProblems([Problem(field="precision", message=f"is {precision!r}", remedy=remedy)])
    floats = ("float32", "float16", "bfloat16")

    def of(s: Signature) -> Signature:
        if kernels_of_table(s.op) not in PRODUCTS:
            return s
        inputs = tuple(replace(one, dtype=types[precision]) if one.dtype in floats else one for one in s.inputs)
        return replace(s, inputs=inputs, arguments={**s.arguments, "tf32": precision == "tf32"})

    words = f"Products are taken in {precision}; casts that it would need are not added."
    return lambda found: _saying(replace(found, signatures=tuple(map(of, found.signatures))), words)


def with_vocabulary_filled_up(found: OpList) -> OpList:
    """A table of so many words that its products have rows at odd addresses has rows more, which nothing uses.

    Every tensor with as many columns or rows as such a table has words has those of the larger one.
    """
    tables = {
        s.inputs[0] for s in found.signatures if kernels_of_table(s.op) is indexing.rows and len(s.inputs[0].shape) == 2
    }
    odd = {one.shape[0] for one in tables if fetched_at_once(one.shape[0], NARROW_BYTES) != WHOLE}
    multiplied = {
        size for s in found.signatures if kernels_of_table(s.op) in PRODUCTS for one in s.inputs for size in one.shape
    }
    sizes = {size: filled_up(size) for size in odd & multiplied if size >= VOCABULARY_OF}
    if not sizes:
        return found

    def of(one: Operand) -> Operand:
        size = next((size for size in one.shape if size in sizes), 0)
        if not size:
            return one
        shape = tuple(sizes.get(each, each) for each in one.shape)
        if one.strides is None:
            return replace(one, shape=shape)
        strides = tuple(each // size * sizes[size] if each and each % size == 0 else each for each in one.strides)
        return replace(one, shape=shape, strides=strides)

    signatures = tuple(
        replace(s, inputs=tuple(map(of, s.inputs)), outputs=tuple(map(of, s.outputs))) for s in found.signatures
    )
    words = ", ".join(f"{size:,} as {filled:,}" for size, filled in sorted(sizes.items()))
    return _saying(
        replace(found, signatures=signatures), f"Vocabularies are taken filled up ({words}); memory is as it was."
    )


NARROW_BYTES = 2
"""Of the numbers that matrix units multiply in 16 bits: a row of 8 of them lies as a unit wants it."""


def with_fused_attention(found: OpList) -> OpList:
    """Scores, softmax and weighted values become one fused kernel, forward and backward; the scores are not kept.

    A run from the product that makes scores to the product that uses them is attention; so is its mirror in backward.
    Where all heads had a mask of queries by keys, the fused kernel takes it as causal; a bias of each head it does not.
    """
    calls, signatures = list(found.calls), list(found.signatures)
    dropped: set[int] = set()
    sizes: set[int] = set()
    place = 0
    names = [op_name(found.of(call).op) if call.kind == "kernel" else "" for call in calls]
    masked = {_scores(found, place) for place in range(len(calls)) if _is_masked(found, names, place)}
    while place < len(calls):
        if names[place] in ("_softmax", "_softmax_backward_data"):
            run = _around(found, names, place, causal=_scores(found, place) in masked)
            if run is not None:
                first, last, signature = run
                if signature not in signatures:
                    signatures.append(signature)
                calls[last] = replace(calls[last], signature=signatures.index(signature))
                dropped |= set(range(first, last))
                scores = found.of(calls[place]).inputs[0]
                sizes.add(math.prod(scores.shape))
                place = last
        place += 1
    kept = without_calls(replace(found, calls=tuple(calls), signatures=tuple(signatures)), dropped)
    if not sizes:
        return found
    squares = {size * width for size in sizes for width in (1, 2, 4)}
    kept = replace(kept, storages=tuple(one for one in kept.storages if one.bytes not in squares or one.born == NONE))
    kernel = "one fused, causal kernel" if masked else "one fused kernel without a mask"
    return _saying(kept, f"Attention is taken as {kernel}; its scores are not kept.")


def _scores(found: OpList, softmax: int) -> tuple[int, ...]:
    return found.of(found.calls[softmax]).inputs[0].shape


def _is_masked(found: OpList, names: list[str], softmax: int) -> bool:
    """Whether scores, on their way to a softmax, meet a mask of queries by keys, one for all heads."""
    if names[softmax] != "_softmax" or len(shape := _scores(found, softmax)) < 3:
        return False
    for index in range(softmax - 1, max(softmax - REACH, 0) - 1, -1):
        if names[index] in ("bmm", "baddbmm"):
            return False
        place = MASKS.get(names[index], -1)
        operands = found.of(found.calls[index]).inputs if place >= 0 else ()
        mask = operands[place].shape if len(operands) > 1 else ()
        if mask[-2:] == shape[-2:] and (mask[-3:-2] in ((), (1,)) or shape[-3] == 1):
            return True
    return False


MASKS = {"add": 1, "masked_fill": 1, "where": 0}
"""Ops that bring a mask to scores, and which of their operands it is."""


def _around(found: OpList, names: list[str], softmax: int, *, causal: bool) -> tuple[int, int, Signature] | None:
    """First and last call of the attention around a softmax, and the fused op in their stead."""
    s = found.of(found.calls[softmax])
    shape = s.inputs[0].shape
    backward = names[softmax] == "_softmax_backward_data"
    if len(shape) < 3:
        return None
    batch, queries, keys = math.prod(shape[:-2]), shape[-2], shape[-1]
    before = _product(found, names, softmax, -1, batch * queries * keys)
    after = _product(found, names, softmax, +1, batch * queries * keys)
    if before is None or after is None:
        return None
    made = found.of(found.calls[before])
    dim, dtype = made.inputs[0].shape[-1], made.inputs[0].dtype
    heads = shape[1] if len(shape) == 4 else batch
    wide = Operand(shape=(batch // heads, heads, queries, dim), dtype=dtype)
    narrow = Operand(shape=(batch // heads, heads, keys, dim), dtype=dtype)
    arguments = {"is_causal": causal and queries == keys, "backend": "cudnn"}
    if not backward:
        op, inputs, outputs = FUSED.get(found.chip, CUDNN), (wide, narrow, narrow), (wide,)
        return before, after, Signature(op=op, inputs=inputs, outputs=outputs, arguments=arguments)
    # Backward: two products of the values before, two of the scores after.
    first = _product(found, names, before, -1, 0) if before else None
    last = _product(found, names, after, +1, 0)
    op = f"{FUSED.get(found.chip, CUDNN)}_backward"
    signature = Signature(
        op=op, inputs=(wide, wide, narrow, narrow), outputs=(wide, narrow, narrow), arguments=arguments
    )  # fmt: skip
    return before if first is None else first, after if last is None else last, signature


CUDNN = "aten::_scaled_dot_product_cudnn_attention"
FUSED = {catalog.THIS_CPU: "aten::_scaled_dot_product_flash_attention_for_cpu"}
"""The op that torch takes on a GPU, and on others, by the chip of a list."""

REACH = 12
"""Calls between a softmax and the products on its sides: scale, mask, casts, dropout."""


def _product(found: OpList, names: list[str], start: int, step: int, elements: int) -> int | None:
    """The next batched product from a call on, one of whose operands has so many elements (0: any)."""
    for index in range(start + step, start + step * (REACH + 1), step):
        if not 0 <= index < len(names):
            return None
        if names[index] in ("bmm", "baddbmm"):
            s = found.of(found.calls[index])
            fits = not elements or any(math.prod(one.shape) == elements for one in (*s.inputs, *s.outputs))
            return index if fits else None
        if names[index] in ("mm", "addmm"):
            return None
    return None


ADAM = ("mul", "lerp", "addcmul", "sqrt", "div", "add", "addcdiv")
"""The arithmetic of Adam's update, each op over lists of tensors or over one of them; "mul" decays weights, too."""


def with_fused_update(found: OpList) -> OpList:
    """Adam's update becomes the two kernels of PyTorch's fused one: counts of steps, then all else in one pass.

    For each list of tensors, or once where it went over one tensor after another; values that it kept apart go.
    """
    run = _update_of(found)
    of = {index: found.of(found.calls[index]) for index in run}
    ends, lerps = ([at for at, s in of.items() if arithmetic_of(s) == name] for name in ("addcdiv", "lerp"))
    # parameters are a third of what the last op takes, gradients half of what the averages are drawn to
    lists = [(of[at].inputs[: len(of[at].inputs) // 3], of[to].inputs[len(of[to].inputs) // 2 :])
             for at, to in zip(ends, lerps, strict=False)]  # fmt: skip
    if not ends or len(ends) != len(lerps) or any(len(one) != len(other) for one, other in lists):
        return found
    if not of[ends[0]].op.startswith("aten::_foreach_"):
        alone = tuple(zip(*(one + other for one, other in lists), strict=True))
        ends, lists = ends[-1:], [(alone[0], alone[1])]
    calls, signatures, kept = list(found.calls), list(found.signatures), set[int]()
    for end, (parameters, gradients) in zip(ends, lists, strict=True):
        steps = (Operand(shape=(), dtype="float32"),) * len(parameters)
        moments = parameters + parameters
        for index, op, inputs in (
            (run[run.index(end) - 1], "aten::_foreach_add_.Scalar", steps),
            (end, "aten::_fused_adamw_", parameters + gradients + moments + steps),
        ):
            calls[index] = replace(calls[index], signature=len(signatures), dispatches=1, measured_s=None)
            signatures.append(Signature(op=op, inputs=inputs))
            kept.add(index)
    storages = tuple(one for one in found.storages if one.born not in of or one.kind != MemoryKind.TEMPORARIES)
    changed = replace(found, calls=tuple(calls), signatures=tuple(signatures), storages=storages)
    return _saying(without_calls(changed, set(run) - kept), "Parameters are updated by PyTorch's fused kernel.")


def _update_of(found: OpList) -> list[int]:
    """Calls of Adam's arithmetic in the optimizer, none where it keeps the largest moments, which no list says."""
    eager = [
        index
        for index, (call, phase) in enumerate(zip(found.calls, phases_of(found), strict=True))
        if phase == Phase.OPTIMIZER and call.kind == "kernel" and not call.compiled
    ]
    names = {index: arithmetic_of(found.of(found.calls[index])) for index in eager}
    return [] if "maximum" in names.values() else [index for index, name in names.items() if name in ADAM]


def without_calls(found: OpList, dropped: set[int]) -> OpList:
    """The list without some calls; indices of waits and storages follow."""
    if not dropped:
        return found
    place, moved = [], 0
    for index in range(len(found.calls)):
        place.append(moved)
        moved += index not in dropped
    place.append(moved)

    def now(index: int) -> int:
        return index if index == NONE else place[index]

    calls = [
        call if call.waits_for == NONE else replace(call, waits_for=max(now(call.waits_for + 1) - 1, NONE))
        for index, call in enumerate(found.calls)
        if index not in dropped
    ]
    storages = tuple(
        one
        for one in (replace(one, born=now(one.born), died=now(one.died)) for one in found.storages)
        if one.died == NONE or one.died > one.born
    )
    return replace(found, calls=tuple(calls), storages=storages)


CHANGES: Mapping[str, ListChange] = {
    "no-communication": ListChange(label="no exposed communication", of=without_communication),
    "compile": ListChange(label="compiled", of=compiled),
    "fused-attention": ListChange(label="fused attention", of=with_fused_attention),
    "fused-update": ListChange(label="fused optimizer", of=with_fused_update),
    "filled-vocabulary": ListChange(label="vocabulary a multiple of 64", of=with_vocabulary_filled_up),
    "fp4-products": ListChange(label="products in fp4", of=with_products_in("fp4"), precision="fp4"),
    "fp8-products": ListChange(label="products in fp8", of=with_products_in("fp8"), precision="fp8"),
    "bf16-products": ListChange(label="products in bf16", of=with_products_in("bf16"), precision="bf16"),
    "tf32-products": ListChange(label="products in tf32", of=with_products_in("tf32"), precision="tf32"),
}
"""What can be asked of any list by name; another chip is an argument of the estimate, more ranks have a function."""
