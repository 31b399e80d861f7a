"""Seen: what the forward work of a profile's step holds: attention, products that carry all tokens, micro-batches.

Attention's queries give batch, sequence, heads and their width; ranks that add activations up share each product.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from estimator.scenario.aten_cost import is_by_length, is_inductors, packed, packed_elements, plain
from estimator.scenario.breakdown import Category, Phase
from estimator.scenario.op_list import Call, Operand, OpList, Signature
from estimator.scenario.units import counted


@dataclass(frozen=True, kw_only=True)
class Attention:
    """One kind of attention call of a forward pass."""

    batch: int
    heads: int
    kv_heads: int
    length: int
    dim: int
    calls: int
    how: str
    causal: bool | None
    dropout: float


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the forward work of a step holds."""

    ops: OpList
    forward: list[tuple[Call, Signature]]
    attention: Attention
    embeddings: list[Signature]
    products: Counter[tuple[int, int]]
    """(inputs, outputs) of the products that carry all tokens, by how often they run in one pass."""
    biased: Counter[tuple[int, int]]
    passes: int
    compiled: bool
    """Kernels of a compiler stand in place of the ops that it fused."""
    marked: bool
    """Ops stand one by one, those of compiled regions marked."""
    tp: int


class NoScenario(Exception):  # noqa: N818 - it is an answer
    """Raised with the reason why nothing is proposed."""


def seen_in(ops: OpList) -> Seen:
    """Collect it; raises NoScenario for what is no transformer."""
    forward = [
        (call, ops.of(call))
        for call in ops.calls
        if call.kind == "kernel" and call.phase in (Phase.FORWARD, "") and not call.recomputed
    ]
    attention = _attention(forward)
    if attention is None and _attends(ops, forward):
        raise NoScenario("It runs attention, but no op says its heads and their width, so no scenario is proposed.")
    if attention is None:
        raise NoScenario("It runs no attention, so it is no transformer, the only network that a scenario describes.")
    embeddings = [s for _, s in forward if name_of(s) == "embedding" and len(s.inputs) == 2]
    passes = _passes(forward, embeddings, attention)
    if attention.length > 1 and _recurs(forward, attention, passes):
        raise NoScenario("It runs attention beside a recurrent network, which a scenario has no layers for.")
    tokens = attention.batch * attention.length
    carrying = [s for _, s in forward if (shape := product_of(s)) is not None and shape[0] == tokens]
    products: Counter[tuple[int, int]] = Counter()
    biased: Counter[tuple[int, int]] = Counter()
    for s in carrying:
        shape = product_of(s)
        assert shape is not None
        products[shape[1:]] += 1
        biased[shape[1:]] += name_of(s) == "addmm" or (name_of(s) == "linear" and len(s.inputs) > 2)
    if not products:
        raise NoScenario("No product carries the tokens that attention reads, so its widths are not known.")
    return Seen(
        ops=ops,
        forward=forward,
        attention=attention,
        embeddings=embeddings,
        products=Counter({shape: count // passes for shape, count in products.items() if count >= passes}),
        biased=biased,
        passes=passes,
        compiled=any(is_inductors(s.op) for _, s in forward),
        marked=any(call.compiled for call, _ in forward),
        tp=_tensor_ranks(ops, forward),
    )


def name_of(s: Signature) -> str:
    """An op's name without its namespace."""
    return plain(s.op)


def product_of(s: Signature) -> tuple[int, int, int] | None:
    """Rows, inputs and outputs of a matrix product."""
    name = name_of(s)
    if name not in ("mm", "addmm", "linear", "_scaled_mm"):
        return None
    factors = s.inputs[1:3] if name == "addmm" else s.inputs[:2]
    if len(factors) < 2 or any(len(one.shape) < 2 for one in factors):
        return None
    rows = math.prod(factors[0].shape[:-1])
    width = factors[0].shape[-1] * packed_elements(factors[0].dtype)
    outputs = factors[1].shape[0] if name == "linear" else factors[1].shape[-1]
    return rows, width, outputs


def _attends(ops: OpList, forward: list[tuple[Call, Signature]]) -> bool:
    """Whether a kernel, a module or a softmax over what a batched product made is attention's, whatever its shapes."""
    if any("attention" in path.lower() for path in ops.modules):
        return True
    scores = set()
    for _, s in forward:
        factors = s.inputs[1:3] if name_of(s) == "baddbmm" else s.inputs[:2]
        if name_of(s) in ("bmm", "baddbmm") and len(factors) == 2 and all(len(one.shape) == 3 for one in factors):
            scores.add((*factors[0].shape[:2], factors[1].shape[-1]))

    def of_scores(shape: tuple[int, ...]) -> bool:
        return (
            len(shape) > 2 and (math.prod(shape[:-2]), *shape[-2:]) in scores
        )  # bmm sees all leading dimensions as one

    return any(
        s.arguments.get("category") == Category.ATTENTION
        or "attention" in name_of(s)
        or is_by_length(s.op)
        or (name_of(s) in ("_softmax", "_safe_softmax") and s.inputs and of_scores(s.inputs[0].shape))
        for _, s in forward
    )


def _recurs(forward: list[tuple[Call, Signature]], attention: Attention, passes: int) -> bool:
    """Whether something goes through the sequence step by step: an op for it, or a product of one step for each.

    A pooler's product is of one token of each sequence, too, but runs once in each of the ``passes``.
    """
    steps = Counter(shape for _, s in forward if (shape := product_of(s)) and shape[0] == attention.batch)
    named = any(word in name_of(s) for _, s in forward for word in ("_rnn", "lstm", "_gru"))
    return named or max(steps.values(), default=0) >= attention.length * passes


def _attention(forward: list[tuple[Call, Signature]]) -> Attention | None:
    """The attention that most tokens go through: a fused op, or the softmax over whole score matrices."""
    fused: Counter[int] = Counter()
    eager: Counter[int] = Counter()
    for call, s in forward:
        name = name_of(s)
        if "attention" in name or is_by_length(s.op):
            ranks = {len(one.shape) for one in s.inputs[:3]}
            fused[call.signature] += len(s.inputs) > 2 and (ranks == {4} or (ranks == {3} and is_by_length(s.op)))
        elif name in ("_softmax", "_safe_softmax") and s.inputs and len(s.inputs[0].shape) == 4:
            eager[call.signature] += 1
    known = {call.signature: s for call, s in forward}
    if found := [(number, count) for number, count in fused.items() if count]:
        number, _ = max(found, key=lambda one: one[1] * math.prod(known[one[0]].inputs[0].shape))
        s = known[number]
        q, k = s.inputs[0].shape, s.inputs[1].shape
        if is_by_length(s.op):
            longest = s.arguments.get("max_seqlen")
            q, k = ((*packed(one, longest), *one[-2:]) for one in (q, k))
            q, k = (q[0], q[2], q[1], q[3]), (k[0], k[2], k[1], k[3])
        causal = s.arguments.get("is_causal")
        return Attention(
            batch=q[0], heads=q[1], kv_heads=k[1], length=q[2], dim=q[3], calls=fused[number],
            how=name_of(s), causal=causal if isinstance(causal, bool) else None,
            dropout=float(s.arguments.get("dropout_p") or 0.0),
        )  # fmt: skip
    if not eager:
        return None
    number, count = max(eager.items(), key=lambda one: one[1] * math.prod(known[one[0]].inputs[0].shape))
    batch, heads, length, _ = known[number].inputs[0].shape
    dim = _dim_of_scores(forward, batch * heads, length)
    if dim is None:
        return None
    return Attention(
        batch=batch, heads=heads, kv_heads=heads, length=length, dim=dim, calls=count, how="bmm and softmax",
        causal=None, dropout=0.0,
    )  # fmt: skip


def _dim_of_scores(forward: list[tuple[Call, Signature]], matrices: int, length: int) -> int | None:
    """Width of a head, by the product that makes the scores; the length where every such product is a square."""
    square = None
    for _, s in forward:
        factors = s.inputs[1:3] if name_of(s) == "baddbmm" else s.inputs[:2]
        if name_of(s) in ("bmm", "baddbmm") and len(factors) == 2 and len(factors[0].shape) == 3:
            (many, rows, dim), columns = factors[0].shape, factors[1].shape[-1]
            if many == matrices and rows == columns == length:
                if dim != length:
                    return dim
                square = dim
    return square


def _passes(forward: list[tuple[Call, Signature]], embeddings: list[Signature], attention: Attention) -> int:
    """Micro-batches: how often the loss is taken, or the tokens are looked up."""
    losses = sum(name_of(s) == "nll_loss_forward" for _, s in forward)
    looked = Counter(s for s in map(_hashed, embeddings))
    found = losses or (max(looked.values()) if looked else 1)
    return found if found and attention.calls % found == 0 else 1


def _hashed(s: Signature) -> tuple[str, tuple[Operand, ...]]:
    return s.op, s.inputs


def _tensor_ranks(ops: OpList, forward: list[tuple[Call, Signature]]) -> int:
    """Ranks that share each product: those that add activations up in the forward pass."""
    floats = {"float32", "bfloat16", "float16"}
    sizes = {one.shape for _, s in forward for one in (*s.inputs, *s.outputs) if len(one.shape) > 1}
    elements = {math.prod(shape) for shape in sizes}
    for call in ops.calls:
        if call.kind != "collective" or call.phase != Phase.FORWARD:
            continue
        s = ops.of(call)
        reduces = "allreduce" in name_of(s).replace("_", "")
        group = s.arguments.get("group")
        if reduces and s.inputs and s.inputs[0].dtype in floats and math.prod(s.inputs[0].shape) in elements:
            return len(ops.groups[group]) if isinstance(group, int) and group < len(ops.groups) else ops.world_size
    return 1


def times(passes: int) -> str:
    """Passes in words."""
    return "one pass" if passes == 1 else counted(passes, "pass", "passes")


def shape_of(seen: Seen) -> str:
    """The shape of attention's queries in words."""
    a = seen.attention
    return f"{a.batch} × {a.heads} × {a.length} × {a.dim}"


def is_of_samples(seen: Seen) -> bool:
    """Whether the loss is taken once a sample, as over classes of pictures, and no tokens are looked up."""
    rows = [s.inputs[0].shape[0] for _, s in seen.forward if name_of(s) == "nll_loss_forward" and s.inputs[0].shape]
    return bool(rows) and not seen.embeddings and max(rows) < tokens_of(seen)


def tokens_of(seen: Seen) -> int:
    """Tokens of a micro-batch."""
    return seen.attention.batch * seen.attention.length
