"""Op: what one rank computes, reads, keeps and launches, before anything is priced."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from estimator.scenario.arrays import maximum, where
from estimator.scenario.aten_cost import CAUSAL_FRAC
from estimator.scenario.breakdown import Category
from estimator.scenario.units import Number

KINDS = ("gemm", "attention", "kernels", "transfer")

FETCH_BYTES = 16
"""What a matrix unit's operands are fetched by, where every row begins at a multiple of it."""

WHOLE = 16
"""Elements fetched at once where rows lie as the unit wants them, whatever their type."""


Chained = tuple[tuple[Number, Number], ...]
"""Sizes of tensors that have just been written, each with how many kernels read one."""

WALKER_THREADS = 512
"""Threads of a block that walks: MAX_BLOCK_SIZE of aten/src/ATen/native/cuda/Normalization.cuh."""


def fetched_at_once(row: int, element_bytes: float) -> int:
    """Elements that a matrix unit can fetch at once of rows of ``row`` elements: WHOLE, 4, 2 or 1."""
    step = math.gcd(int(row * element_bytes), FETCH_BYTES)
    return WHOLE if step == FETCH_BYTES else max(int(step / element_bytes), 1)


VOCABULARY_OF = 64
"""Rows that a vocabulary is filled up to a multiple of: what nanoGPT and Megatron-LM take, or half of it."""


def filled_up(words: int, ranks: int = 1) -> int:
    """Rows of a vocabulary's table, of each rank that shares it a multiple of ``VOCABULARY_OF``; none uses the last."""
    every = VOCABULARY_OF * ranks
    return -(-words // every) * every


# Not frozen, as all its like are not: a scenario makes sixty ops, and a frozen one takes four times as long to make.
@dataclass(kw_only=True, slots=True)
class Op:
    """One logical operation of one phase, executed ``count`` times per micro-batch on one rank.

    ``gemm``: ``batch`` products (m × k)·(k × n). ``attention``: ``batch`` heads of m queries, n keys, k wide, fused.
    ``kernels``: memory-bound kernels: ``stream_bytes`` move in contiguous, vectorised kernels, of them
    ``reduced_bytes`` in norms, or as what softmax goes over again (in attention), ``column_bytes`` in kernels that
    sum over rows (gradients of biases and of norms' weights); ``strided_elements`` pass through kernels limited by
    elements, not bytes (broadcasts, upcasts, strided copies); ``mixed_elements`` through the slower ones whose operands
    differ in type; ``walked_elements`` are gone over by ``walkers`` blocks whose threads wait for one load before the
    next, ``load`` naming how long (torch's batch norm: a block for each channel); ``rows`` are taken one at a time by a
    block, whose threads meet before they go on (norms); ``gelus`` is what kernels compute, in GELUs. ``transfer``:
    ``bytes`` pass between host and device. All sizes are per execution.
    ``chained``: tensors that streaming kernels read as the one before has just written them, each size in bytes with
    how many kernels read one so large (of torch's own kernels: fused ones were not measured).
    ``efficiency`` names the efficiency that the rate takes where kind and precision leave a choice (of kernels, that of
    strided elements), ``slowed_by`` those that it is multiplied by. ``visible_frac`` is the share of its FLOPs that an
    attention kernel computes: of the score square, 1/2 under a causal mask; ``padded`` what it pads narrow values by,
    ``tile`` the queries and keys that its blocks take at most, ``side_bytes`` what the small kernels around its
    backward move. ``weight`` marks what only the gradients of weights need, so that a schedule may run it later.
    ``operand_bytes``: of a product's bytes, those of the two matrices that it multiplies.
    ``outer``: a product of two operands neither of whose rows runs along k, as gradients of weights are (Gᵀ·X);
    ``turned``: one of whose rows of the first alone do, as gradients of inputs are (G·W).
    ``fetched``: elements of a product's operands that its unit fetches at once, which rows at odd addresses make fewer.
    ``apart``: whether the products of the batch are kernels of their own, none of which fills the units that another
    leaves idle, ``grouped`` whether torch's grouped kernel runs them. Of ``kernels``, ``batch`` is how many each launch
    stands for, of a loop that is lean, and an optimizer's are ``apart`` where each is of one tensor. ``views``: ops
    around it that the host goes through and that launch nothing, counted on the runners' models. ``plain``: kernels of
    plain PyTorch beside its own, too small to take the device long. ``alike``: how many
    products of a micro-batch have its shape, on all stages, whose rows a router chooses anew each time; else 0.
    ``regions``: checkpointed pieces of the network that begin with it; ``packed``: tensors that their hooks keep for
    one execution of an op that runs again, or for ops of theirs that do not.
    ``chunk_bytes``: what a block of a launch streams where it does so much that few blocks are under way at a time, 0
    of other kernels. ``held``: of the streamed bytes those that are gone over again before the next tensor, and bytes
    of one tensor's set: where that fits a CPU's cache they are found there.
    """

    name: str
    layer: str
    phase: str
    category: str
    kind: str
    count: Number = 1.0
    batch: Number = 1.0
    m: Number = 0.0
    n: Number = 0.0
    k: Number = 0.0
    flops: Number = 0.0
    bytes: Number = 0.0
    operand_bytes: Number = 0.0
    stream_bytes: Number = 0.0
    reduced_bytes: Number = 0.0
    column_bytes: Number = 0.0
    strided_elements: Number = 0.0
    mixed_elements: Number = 0.0
    walked_elements: Number = 0.0
    walkers: Number = 1.0
    load: str = "walk_load_s"
    rows: Number = 0.0
    gelus: Number = 0.0
    chained: Chained = ()
    launches: Number = 1.0
    views: Number = 0.0
    plain: Number = 0.0
    alike: Number = 0.0
    regions: Number = 0.0
    packed: Number = 0.0
    saved_bytes: Number = 0.0
    precision: str = ""
    fetched: int = WHOLE
    recomputed: bool = False
    efficiency: str = ""
    slowed_by: tuple[str, ...] = ()
    weight: bool = False
    outer: bool = False
    turned: bool = False
    apart: bool = False
    grouped: bool = False
    visible_frac: Number = CAUSAL_FRAC
    padded: float = 1.0
    tile: float = 128.0
    side_bytes: Number = 0.0
    chunk_bytes: Number = 0.0
    held: tuple[Number, Number] = (0.0, 0.0)


def gemm(
    name: str,
    layer: str,
    phase: str,
    *,
    m: Number,
    n: Number,
    k: Number,
    element_bytes: float,
    precision: str,
    batch: Number = 1.0,
    output_bytes: float | None = None,
    count: Number = 1.0,
    saved_bytes: Number = 0.0,
    launches: Number = 1.0,
    views: Number = 0.0,
    alike: Number = 0.0,
    fetched: int = WHOLE,
    category: str = Category.MATMUL,
    weight: bool = False,
    outer: bool = False,
    turned: bool | None = None,
    apart: bool = False,
    grouped: bool = False,
) -> Op:
    """Describe ``batch`` matrix products: 2·batch·m·n·k FLOPs; each operand read and the result written once."""
    result = element_bytes if output_bytes is None else output_bytes
    operands = batch * (m * k + k * n) * element_bytes
    return Op(
        name=name,
        layer=layer,
        phase=phase,
        category=category,
        kind="gemm",
        count=count,
        batch=batch,
        m=m,
        n=n,
        k=k,
        flops=2.0 * batch * m * n * k,
        bytes=operands + batch * m * n * result,
        operand_bytes=operands,
        launches=launches,
        views=views,
        alike=alike,
        saved_bytes=saved_bytes,
        precision=precision,
        fetched=fetched,
        weight=weight,
        outer=outer or weight,
        turned=(phase == "backward" and not (outer or weight)) if turned is None else turned,
        apart=apart,
        grouped=grouped,
    )


def kernels(
    name: str,
    layer: str,
    phase: str,
    *,
    elements: Number,
    stream: Number = 0.0,
    reduced: Number = 0.0,
    column: Number = 0.0,
    strided: Number = 0.0,
    mixed: Number = 0.0,
    slow_bytes: Number = 0.0,
    rows: Number = 0.0,
    walked: Number = 0.0,
    walkers: Number = 1.0,
    gelus: Number = 0.0,
    chained: Chained = (),
    launches: Number = 1.0,
    views: Number = 0.0,
    regions: Number = 0.0,
    packed: Number = 0.0,
    saved_bytes: Number = 0.0,
    count: Number = 1.0,
    flops_per_element: float = 0.0,
    category: str = Category.ELEMENTWISE,
    weight: bool = False,
    times: Number = 1.0,
    apart: bool = False,
    chunk_bytes: Number = 0.0,
    held: tuple[Number, Number] = (0.0, 0.0),
) -> Op:
    """Describe memory-bound kernels over ``elements``: bytes per element streamed, passes per element that are slow.

    ``slow_bytes`` is the traffic per element of the slow passes, for the roofline; their time follows elements.
    ``rows``, ``walked`` by ``walkers``: what norms take one after another, as an Op has it, for each element; sizes in
    ``chained``, too, are for each element. Each launch stands for so many ``times`` kernels of a lean loop.
    """
    return Op(
        name=name,
        layer=layer,
        phase=phase,
        category=category,
        kind="kernels",
        count=count,
        flops=flops_per_element * elements,
        bytes=(stream + slow_bytes) * elements,
        stream_bytes=stream * elements,
        reduced_bytes=reduced * elements,
        column_bytes=column * elements,
        strided_elements=strided * elements,
        mixed_elements=mixed * elements,
        rows=rows * elements,
        walked_elements=walked * elements,
        walkers=walkers,
        load="norm_tile_s",
        gelus=gelus * elements,
        chained=tuple((size * elements, readers) for size, readers in chained),
        launches=launches,
        views=views,
        regions=regions,
        packed=packed,
        saved_bytes=saved_bytes,
        weight=weight,
        batch=times,
        apart=apart,
        chunk_bytes=chunk_bytes,
        held=held,
    )


def parted(chained: Chained, times: Number) -> Chained:
    """The same tensors in so many parts, each read by kernels of its own."""
    return tuple((size / maximum(times, 1.0), readers * times) for size, readers in chained)


def piece_of(name: str) -> str:
    """Name the piece that an op belongs to: "softmax" of "softmax: scale and mask"."""
    return name.partition(": ")[0]


HEAD_NORMS = "q, k norm"
"""The norms of queries and keys, which are two modules."""


def norms_of(op: Op) -> float:
    """Norms with weights that an execution of an op is."""
    if op.name == HEAD_NORMS:
        return 2.0
    return 1.0 if op.category == Category.ELEMENTWISE and op.kind == "kernels" and "norm" in op.name else 0.0


PACKED = {
    "rotary positions": 4.0, HEAD_NORMS: 12.0, "q, k casts": 0.0, "softmax": 1.0, "softmax: scale and mask": 0.0,
    "head copies": 0.0, "attention residual": 0.0, "activation: product": 2.0, "activation: tanh": 0.0,
    "ffn residual": 0.0, "gathered copies": 0.0, "ring sums": 0.0,
}  # fmt: skip
"""Tensors that autograd keeps of an op, by its name, whatever the precision: of positions cosines and sines of q and k,
of a product both factors; sums, casts, copies and factors that are numbers keep none."""
OF_LAYER_NORM, OF_NORM_IN_PIECES, OF_ACTIVATION_IN_PIECES = 5.0, 6.0, 4.0
"""The same of a layer norm (input, mean, deviation, weight, bias), of a norm in pieces, and of an activation in pieces
(GPT-2's GELU, its tanh with it)."""
OF_CORE, OF_PRODUCT = 5.0, 2.0
"""The same of a fused core (q, k, v, output, sums), and of a product."""


def packed_tensors(op: Op) -> Number:
    """Tensors that autograd keeps of one execution of a forward op (counted by hooks on the runners' blocks).

    Of ops that were not counted as many as their kernels.
    """
    if op.kind in ("attention", "gemm"):
        return op.launches * (OF_CORE if op.kind == "attention" else OF_PRODUCT)
    if op.name in PACKED:
        return PACKED[op.name]
    if "norm" in op.name:
        return where(op.launches == 1.0, OF_LAYER_NORM, OF_NORM_IN_PIECES)
    if op.name == "activation":
        return where(op.launches == 1.0, 1.0, OF_ACTIVATION_IN_PIECES)
    return 0.0 if op.name.endswith("cast") else op.launches


def again(op: Op, count: Number | None = None) -> Op:
    """Return a forward op as it runs once more, or so often, in backward under recomputation; it keeps nothing."""
    changes = {"phase": "backward", "recomputed": True, "saved_bytes": 0.0, "packed": packed_tensors(op)}
    return _changed(op, changes if count is None else {**changes, "count": count})


def unsaved(op: Op) -> Op:
    """Return an op that keeps nothing for backward."""
    return _changed(op, {"saved_bytes": 0.0})


_NAMES = tuple(f.name for f in fields(Op))
_values_of = attrgetter(*_NAMES)
_SETTERS = tuple((name, getattr(Op, name).__set__) for name in _NAMES)


def _changed(op: Op, changes: dict[str, Any]) -> Op:
    # dataclasses.replace takes three times as long, and recomputation copies every op of a block.
    new: Op = object.__new__(Op)
    for (name, set_), value in zip(_SETTERS, _values_of(op), strict=True):
        set_(new, changes.get(name, value))
    return new
