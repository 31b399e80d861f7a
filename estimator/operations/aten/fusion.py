"""Fusion: which neighbours a compiler makes one kernel of, by rule, where a region was recorded as eager runs it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from estimator.operations.aten import elementwise, indexing, kernels_of, kernels_of_table, products, reductions
from estimator.operations.aten.operands import contiguous_strides, count, kernel, moved_bytes, size_and_type, width
from estimator.operations.op import WHOLE, Op, fetched_at_once
from estimator.scenario.aten_cost import plain
from estimator.scenario.breakdown import Phase
from estimator.scenario.op_list import Operand, OpList, Signature

POINTWISE: tuple[Callable[[Signature], list[Op]], ...] = (
    elementwise.arithmetic, elementwise.choice, elementwise.copy, elementwise.write, elementwise.dropout,
    elementwise.padded, elementwise.concatenation, indexing.rows,
)  # fmt: skip
REDUCING: tuple[Callable[[Signature], list[Op]], ...] = (
    reductions.reduction, reductions.softmax, reductions.softmax_backward, reductions.log_softmax_backward,
    reductions.norm, reductions.norm_backward, reductions.nll_loss, reductions.nll_loss_backward,
)  # fmt: skip

SOFTMAXES = (reductions.softmax, reductions.softmax_backward, reductions.log_softmax_backward)
LOOPED_SOFTMAX = "looped_softmax_elements_per_unit_cycle"
AT_ONCE = 1024
"""Values of a row that a compiled reduction holds at once (torch._inductor: persistent reductions); it loops over more,
and a softmax then keeps a running maximum and sum: two exponentials for each value."""

COMPILED_GELU = 1.1
"""GELUs of torch's own that a compiled one costs (H200, alone: 2.6 elements per SM and clock for 2.8)."""

DRAWN_GELUS = 4.6
"""GELUs that one place of a compiled dropout costs to draw: 6.2 to 6.6 ps on an H100 and two H200 (norms of 768 and 832
columns, which a compiled reduction holds as 1024 places)."""

SAFE_SOFTMAX_GELUS = 22.0
"""GELUs of an element that a compiled softmax with dropout and a mask costs beside its draw: rows of 256 take 37.9 ps
an element on an H100 and 35.7 on an H200, whose memory is faster (11 to 13 heads; of 18 the same kernel takes 4.7). Of
what these cycles are made is not known."""

TURN_GELUS = 1.33
"""GELUs of a sine or cosine, which a compiled kernel computes anew for each element that it turns: queries and keys of
Llama take 3.4 and 3.8 ps an element forward (a cosine and a sine), 5.0 to 5.8 backward (another sine, as each half is
computed apart), on H100 and H200, of whose memory they need 1.4 and 1.0: 1.24 to 1.45, their geometric mean."""

SHORT_LIVED = 16
"""Calls within which a result that nobody reads is gone, as attention's weights that a library gives beside: what lives
longer is not looked for in each call of its region. The longest such life seen is 14 calls (positions that GPT-2 and
Llama of transformers 5.23 number and drop); compiled traces of these two, of BERT and of ViT, with eager and with fused
attention, have no further one without the bound."""

PADDED = (products.mm, products.addmm, products.bmm, products.baddbmm)
"""Products whose operands a compiler copies into rows that a matrix unit can fetch (torch._inductor, pad_mm)."""

PADDED_FROM = 192.0
"""FLOPs for each element of the operands from which copying pays: what a matrix unit does while memory moves one.
A100 and H200 do 153 and 206 FLOPs a byte at bf16; torch._inductor takes the chip's own figure, then measures."""

ASSUMED = (
    "Compiled regions are fused by rule: element-wise ops, reductions and norms that pass their results on to one"
    " another are one kernel, until a product takes one of them; it reads what it is given and writes what it does not"
    " itself use up. What backward needs of the rest is computed again, from the smallest tensors that are enough."
)


@dataclass
class Joined:
    """What becomes of the calls of compiled regions.

    ``kernels``: of each group at its last member, none at its others, and of padded products; other calls are not in
    it. ``unwritten``: calls whose results never reach memory. ``copies``: bytes of a padded operand, with the
    calls that it is made for and that reads it last. ``inner``: results, each with its call, that a call of the same
    kernel takes, whether they are written for backward or not. ``flow``: what each call reads, results of calls of its
    kernel or operands from memory; ``ends``: the last call of its kernel; ``same``: casts that are made once, each with
    the first. ``written``, ``origins``: sizes and types of results that are in memory, and of those that are not, with
    the phase and operands of their kernel and the number of the forward that made them first, ``forwards`` of them so
    far: each micro-batch has results of its own. ``by_products``: sizes and types of products' results;
    ``read_later``: those that a later phase reads from memory; ``first``: the first result of each that a kernel makes
    and does not write, with its call and the kernel's last; ``turns``: tables of sines and cosines.
    """

    kernels: dict[int, list[Op]] = field(default_factory=dict)
    unwritten: set[int] = field(default_factory=set)
    copies: list[tuple[float, int, int]] = field(default_factory=list)
    written: set[tuple[int, str]] = field(default_factory=set)
    by_products: set[tuple[int, str]] = field(default_factory=set)
    read_later: set[tuple[int, str]] = field(default_factory=set)
    first: list[tuple[tuple[int, str], int, Operand, int]] = field(default_factory=list)
    origins: dict[tuple[int, str], tuple[str, tuple[Operand, ...], int]] = field(default_factory=dict)
    forwards: int = 0
    flow: dict[int, tuple[int | Operand, ...]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    same: dict[int, int] = field(default_factory=dict)
    inner: set[tuple[Operand, int]] = field(default_factory=set)
    turns: set[tuple[int, str]] = field(default_factory=set)


@dataclass(eq=False)
class _Group:
    """A kernel in the making: what it reads, and results that no member has taken up yet, each with who made it."""

    phase: str
    last: int = 0
    read: list[Operand] = field(default_factory=list)
    open: list[tuple[Operand, int]] = field(default_factory=list)
    made: set[tuple[int, str]] = field(default_factory=set)
    flops: float = 0.0
    looped: float = 0.0
    gelus: float = 0.0
    drawn: list[Operand] = field(default_factory=list)
    reduces: bool = False
    turned: float = 0.0
    halves: float = 0.0
    names: list[str] = field(default_factory=list)
    results: list[tuple[Operand, int]] = field(default_factory=list)
    first: dict[tuple[int, str], tuple[int, Operand]] = field(default_factory=dict)


def fusible(op: str) -> bool:
    """Whether a compiler makes its own kernel of an op, and may join it to its neighbours."""
    found = kernels_of_table(op)
    return found in POINTWISE or found in REDUCING


def results_of(s: Signature) -> tuple[Operand, ...]:
    """What a call leaves: its outputs, or, where it has none, its first input, which it writes in place."""
    return s.outputs or s.inputs[:1]


def fused(found: OpList, phases: Sequence[str]) -> Joined:
    """Join the compiled calls of each phase and stream."""
    joined = Joined()
    groups: list[_Group] = []
    copies: dict[Operand, dict[Signature, int]] = {}
    padded: dict[tuple[int, str], int] = {}
    unread = _unread(found, phases)
    state = ("", -1)
    for index, call in enumerate(found.calls):
        if call.kind != "kernel" or not call.compiled or (phases[index], call.stream) != state:
            _close(groups, joined)
            joined.forwards += phases[index] == Phase.FORWARD != state[0]
            groups, copies, state = [], {}, (phases[index], call.stream)
            padded = {}
        if call.kind != "kernel" or not call.compiled:
            continue
        if call.graphs:
            _close(groups, joined)
            groups = []
        s = found.of(call)
        if not fusible(s.op) or "direction" in s.arguments:
            _taken_by_product(groups, s, joined)
            made = {size_and_type(one) for one in s.outputs}
            joined.written |= made
            joined.by_products |= made
            if kernels_of_table(s.op) in PADDED:
                _pad(s, index, padded, joined)
            continue
        outputs = results_of(s)
        if index in unread:  # which a compiler leaves out
            joined.kernels[index] = []
            joined.unwritten.add(index)
            joined.inner |= {(one, index) for one in outputs}
            continue
        source = s.inputs[0] if s.inputs else None
        casts = source is not None and any(one.dtype != source.dtype for one in outputs)
        if casts and source in copies and kernels_of_table(s.op) is elementwise.copy:
            # The same cast of the same tensor, made anew for every product in eager mode. A copy of the same type is
            # of another tensor that looks alike (queries, values): nobody lays one out anew twice.
            if s in copies[source]:
                joined.kernels[index] = []
                joined.unwritten.add(index)
                joined.same[index] = copies[source][s]
                joined.inner |= {(one, index) for one in outputs}
                continue
            copies[source][s] = index
        _add(_group_of(groups, s, phases[index]), s, index, joined)
        for one in outputs:
            copies[one] = {}
    _close(groups, joined)
    _write_what_is_read_later(joined)
    return joined


def _unread(found: OpList, phases: Sequence[str]) -> set[int]:
    """Compiled calls whose only result dies within their region without having been read."""
    unread: set[int] = set()
    for one in found.storages:
        if one.born < 0 or not one.born < one.died < min(one.born + SHORT_LIVED, len(found.calls)):
            continue
        between = found.calls[one.born : one.died + 1]
        inside = all(call.kind == "kernel" and call.compiled for call in between)
        outputs = found.of(between[0]).outputs
        if not inside or len(outputs) != 1 or phases[one.born] != phases[one.died]:
            continue
        read = any(_may_show(each, outputs[0]) for call in between[1:] for each in found.of(call).inputs)
        if int(moved_bytes(outputs[0])) == one.bytes and fusible(found.of(between[0]).op) and not read:
            unread.add(one.born)
    return unread


def _may_show(one: Operand, made: Operand) -> bool:
    """Whether an operand may be a result or a slice of it, whose neighbours lie apart for what is left out."""
    if one.dtype != made.dtype:
        return False
    elements = count(one)
    if elements == count(made):
        return True
    strides = contiguous_strides(one.shape) if one.strides is None else one.strides
    reach = 1 + sum((size - 1) * stride for size, stride in zip(one.shape, strides, strict=True))
    return elements < reach <= count(made)


def _write_what_is_read_later(joined: Joined) -> None:
    """A kernel writes the first of its results that a later phase reads from memory and does not compute again.

    What is of a product's size and type is taken for the product's.
    """
    for key, index, made, last in joined.first:
        later = key in joined.read_later and key not in joined.by_products
        if later and index in joined.unwritten and joined.kernels[last]:
            joined.unwritten.remove(index)
            (op,) = joined.kernels[last]
            op.stream_bytes += moved_bytes(made) * (not op.strided_elements)
            op.bytes += moved_bytes(made)


def _group_of(groups: list[_Group], s: Signature, phase: str) -> _Group:
    """The group whose results an op reads; where it reads those of several, they become one."""
    found = [one for one in groups if _passes_on(one, s)]
    if not found:
        groups.append(_Group(phase=phase))
        return groups[-1]
    group, *others = found
    for one in others:
        for operand in dict.fromkeys(one.read):
            group.read += [operand] * (one.read.count(operand) - group.read.count(operand))
        group.open += one.open
        group.made |= one.made
        group.first = one.first | group.first
        group.flops += one.flops
        group.looped = max(group.looped, one.looped)
        group.gelus += one.gelus
        group.drawn += one.drawn
        group.reduces |= one.reduces
        group.turned += one.turned
        group.halves += one.halves
        group.names += one.names
        group.results = sorted(group.results + one.results, key=lambda pair: pair[1])
    groups[:] = [one for one in groups if one not in others]
    return group


def _pad(s: Signature, index: int, padded: dict[tuple[int, str], int], joined: Joined) -> None:
    """Align an unaligned product where that pays: its operands are copied once, for all products that read them."""
    ops = kernels_of(s)
    if len(ops) != 1 or ops[0].kind != "gemm" or ops[0].fetched == WHOLE or ops[0].precision == "fp32":
        return
    op = ops[0]
    elements = float(op.batch * (op.m * op.k + op.k * op.n + op.m * op.n))
    if op.flops < PADDED_FROM * elements:
        return
    op.fetched = WHOLE
    for one in s.inputs[-2:]:
        if WHOLE == products.fetched_of(one) == fetched_at_once(one.shape[-1], width(one)):
            continue
        key = size_and_type(one)
        if key in padded:
            size, made, _ = joined.copies[padded[key]]
            joined.copies[padded[key]] = (size, made, index)
        else:
            padded[key] = len(joined.copies)
            joined.copies.append((moved_bytes(one), index, index))
            ops.append(kernel("pad", stream=2 * moved_bytes(one)))
    joined.kernels[index] = ops


def _add(group: _Group, s: Signature, index: int, joined: Joined) -> None:
    outputs = results_of(s)
    read: list[Operand] = []
    taken: set[int] = set()
    joined.flow[index] = tuple(_source(group, one, taken) for one in s.inputs)
    group.results += [(one, index) for one in outputs]
    for one, source in zip(_touched(s), joined.flow[index], strict=True):
        maker = next((pair for pair in group.open if _same(pair[0], one)), None)
        if maker is not None:
            group.open.remove(maker)
            joined.unwritten.add(maker[1])
            joined.inner.add(maker)
            continue
        key = size_and_type(one)
        phase, sources, _ = joined.origins.get(key, (group.phase, (), 0))
        if sources and phase == group.phase == Phase.FORWARD and not isinstance(source, int):
            joined.written.add(key)  # what the next kernel reads, as a sum over layers, is in memory
            joined.read_later.add(key)
        if kernels_of_table(s.op) is reductions.norm_backward and key not in joined.by_products:
            sources = ()  # to compute a residual again, all before it would have to be
        if not sources or key in joined.written or phase == group.phase:
            sources = (one,)
            if group.phase == Phase.BACKWARD:
                joined.read_later.add(key)
        read += sources
    # What two members read may be one tensor; what one of them reads twice, as a sum does, is two.
    for source in dict.fromkeys(read):
        group.read += [source] * (read.count(source) - group.read.count(source))
    group.open += [(one, index) for one in outputs]
    for one in outputs:
        group.first.setdefault(size_and_type(one), (index, one))
    group.made |= {size_and_type(one) for one in outputs}
    group.flops += float(max(map(count, (*s.inputs, *outputs)), default=0))
    group.gelus += COMPILED_GELU * elementwise.gelus_of(s) * max(map(count, outputs), default=0)
    _turn(group, s, joined)
    group.names.append(plain(s.op))
    group.reduces |= kernels_of_table(s.op) in REDUCING
    if kernels_of_table(s.op) is elementwise.dropout:
        group.drawn += outputs[:1]
    if kernels_of_table(s.op) in SOFTMAXES and s.inputs and s.inputs[0].shape[-1:] > (AT_ONCE,):
        group.looped = max(group.looped, float(count(s.inputs[0])))
    group.last = index
    joined.kernels[index] = []


def _turn(group: _Group, s: Signature, joined: Joined) -> None:
    """Count the elements for which a call computes a sine or cosine: a compiler keeps no table of them.

    A product with one computes it, and each of the two halves of its gradient does so again.
    """
    made = float(max(map(count, s.outputs), default=0))
    tables = [one for one in s.inputs if size_and_type(one) in joined.turns]
    if kernels_of_table(s.op) is elementwise.padded:
        group.halves += made / 2.0
    elif s.op in ("aten::cos", "aten::sin") or (tables and len(tables) == len(s.inputs)):
        joined.turns |= set(map(size_and_type, s.outputs))
    elif tables and s.op == "aten::mul" and made > max(map(count, tables)):
        group.turned += made


def _source(group: _Group, one: Operand, taken: set[int]) -> int | Operand:
    """The last call of a kernel that made an operand, or the operand: two of a call that look alike are two tensors."""
    for at in range(len(group.results) - 1, -1, -1):
        if at not in taken and _same(group.results[at][0], one):
            taken.add(at)
            return group.results[at][1]
    return one


def _touched(s: Signature) -> tuple[Operand, ...]:
    """What a call reads: of a table whose rows it picks, as an embedding does, these rows alone."""
    if kernels_of_table(s.op) is not indexing.rows or not s.inputs or not s.outputs:
        return s.inputs
    picked = replace(s.outputs[0], dtype=s.inputs[0].dtype, strides=None)
    return (picked if count(picked) < count(s.inputs[0]) else s.inputs[0], *s.inputs[1:])


def _taken_by_product(groups: list[_Group], s: Signature, joined: Joined) -> None:
    """End the groups whose results another kernel reads."""
    read = {size_and_type(one) for one in s.inputs}
    taken = [one for one in groups if one.made & read]
    _close(taken, joined)
    groups[:] = [one for one in groups if one not in taken]


def _close(groups: Sequence[_Group], joined: Joined) -> None:
    for group in groups:
        joined.ends |= dict.fromkeys((index for _, index in group.results), group.last)
        written = [one for one, _ in group.open]
        joined.unwritten -= {index for _, index in group.open}
        for key in group.made:
            if any(size_and_type(one) == key for one in written):
                joined.written.add(key)
            else:
                if group.phase == Phase.FORWARD:
                    index, made = group.first[key]
                    joined.first.append((key, index, made, group.last))
                before = joined.origins.get(key)
                if before is None or before[-1] != joined.forwards:
                    joined.origins[key] = (group.phase, tuple(group.read), joined.forwards)
        group.gelus += _drawing_gelus(group)
        group.gelus += TURN_GELUS * (group.turned + group.halves * (group.turned > 0.0))
        moved = sum(map(moved_bytes, group.read)) + sum(map(moved_bytes, written))
        if moved:
            name, looped = _shown(group.names), group.looped
            joined.kernels[group.last] = [
                kernel(name, strided=looped, moved=moved, flops=group.flops, efficiency=LOOPED_SOFTMAX)
                if looped
                else kernel(name, stream=moved, gelus=group.gelus, flops=group.flops)
            ]


def _drawing_gelus(group: _Group) -> float:
    """What a kernel's dropout computes, in GELUs: one draw for each place of its rows, which a reduction fills up."""
    found = 0.0
    for one in group.drawn:
        row = max(one.shape[-1:], default=1)
        places = 2.0 ** math.ceil(math.log2(row)) / row if group.reduces and 0 < row <= AT_ONCE else 1.0
        found += DRAWN_GELUS * places * count(one)
        found += SAFE_SOFTMAX_GELUS * count(one) * ("_safe_softmax" in group.names)
    return found


def _passes_on(group: _Group, s: Signature) -> bool:
    return any(_same(pair[0], one) for pair in group.open for one in s.inputs)


def _same(made: Operand, read: Operand) -> bool:
    """Whether an operand is what was made, perhaps seen in another shape."""
    if made == read:
        return True
    if read.strides is not None and 0 in read.strides:  # heads that several share: expanded, then laid out anew
        return made.dtype == read.dtype and moved_bytes(made) == moved_bytes(read) and 1 < count(made) < count(read)
    viewed = made.strides is None and read.strides is None and made.shape != read.shape
    return viewed and made.dtype == read.dtype and count(made) == count(read) > 1


def _shown(names: Sequence[str]) -> str:
    return f"fused {' '.join(names[:4])}{' …' if len(names) > 4 else ''}"
