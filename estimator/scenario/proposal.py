"""Proposal: the scenario that a profile's op list is most likely of, each field with the evidence for it.

Shapes determine most of it: attention's queries give batch, sequence, heads and their width, the products that carry
all tokens give the widths, their repetition the layers. What a profile cannot tell is guessed, and says so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from estimator.scenario import catalog
from estimator.scenario.breakdown import Phase
from estimator.scenario.op_list import Call, Operand, OpList, Signature
from estimator.scenario.parameters import parameters
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json, scenario_to_json
from estimator.scenario.units import counted


@dataclass(frozen=True, kw_only=True)
class Proposed:
    """One field: its value, whether the profile determines it, and by what, in words."""

    value: Any
    sure: bool
    evidence: str


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A scenario as JSON, None where none can be proposed, which ``reason`` then says; fields by their path.

    ``whole``: the profile holds forward, backward and optimizer, as the step of a scenario does. ``notes``: in what
    else the profiled step is not one of a scenario.
    """

    scenario: dict[str, Any] | None = None
    fields: dict[str, Proposed] = field(default_factory=dict)
    reason: str = ""
    whole: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Attention:
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
class _Seen:
    """What the forward work of a step holds."""

    ops: OpList
    forward: list[tuple[Call, Signature]]
    attention: _Attention
    embeddings: list[Signature]
    products: Counter[tuple[int, int]]
    """(inputs, outputs) of the products that carry all tokens, by how often they run in one pass."""
    biased: Counter[tuple[int, int]]
    passes: int
    compiled: bool
    tp: int


class _None(Exception):  # noqa: N818 - it is an answer
    """Raised with the reason why nothing is proposed."""


def proposal(ops: OpList) -> Proposal:
    """Propose the scenario behind a profile (or a trace) of a transformer's training step.

    >>> proposal(OpList(source="profile", program="", calls=(), signatures=())).reason
    'It runs no attention, so it is no transformer, the only network that a scenario describes.'
    """
    try:
        seen = _seen(ops)
        found = {**_model(seen), **_training(seen)}
        found |= _plan(seen, found)
    except _None as error:
        return Proposal(reason=str(error))
    document: dict[str, Any] = {}
    for path, one in found.items():
        part, name = path.split(".")
        document.setdefault(part, {})[name] = one.value
    document["model"]["name"] = ops.program[:80]
    try:
        _settle_table(document, found, seen)
        scenario = scenario_to_json(scenario_from_json(document))
        return Proposal(scenario=scenario, fields=found, whole=not _missing(ops), notes=_notes(seen))
    except InputProblems as error:
        problems = "; ".join(f"{one.field} {one.message}" for one in error.problems[:3])
        return Proposal(fields=found, reason=f"What its shapes say does not fit together: {problems}.")


def _missing(ops: OpList) -> list[str]:
    phases = {call.phase for call in ops.calls}
    parts = {Phase.BACKWARD: "backward pass", Phase.OPTIMIZER: "step of an optimizer"}
    return [said for phase, said in parts.items() if phase not in phases]


def _notes(seen: _Seen) -> tuple[str, ...]:
    notes = []
    if missing := _missing(seen.ops):
        notes.append(f"The profile holds no {' and no '.join(missing)}; a scenario is a whole training step.")
    if seen.attention.causal is False:
        notes.append("Attention sees all tokens here, or those that a mask leaves; in a scenario it is causal.")
    return tuple(notes)


def _sure(value: Any, evidence: str) -> Proposed:
    return Proposed(value=value, sure=True, evidence=evidence)


def _guess(value: Any, evidence: str) -> Proposed:
    return Proposed(value=value, sure=False, evidence=evidence)


def _seen(ops: OpList) -> _Seen:
    forward = [
        (call, ops.of(call))
        for call in ops.calls
        if call.kind == "kernel" and call.phase in (Phase.FORWARD, "") and not call.recomputed
    ]
    attention = _attention(forward)
    if attention is None:
        raise _None("It runs no attention, so it is no transformer, the only network that a scenario describes.")
    embeddings = [s for _, s in forward if _name(s) == "embedding" and len(s.inputs) == 2]
    tokens = attention.batch * attention.length
    carrying = [s for _, s in forward if (shape := _product(s)) is not None and shape[0] == tokens]
    products: Counter[tuple[int, int]] = Counter()
    biased: Counter[tuple[int, int]] = Counter()
    for s in carrying:
        shape = _product(s)
        assert shape is not None
        products[shape[1:]] += 1
        biased[shape[1:]] += _name(s) == "addmm"
    if not products:
        raise _None("No product carries the tokens that attention reads, so its widths are not known.")
    passes = _passes(forward, embeddings, attention)
    return _Seen(
        ops=ops,
        forward=forward,
        attention=attention,
        embeddings=embeddings,
        products=Counter({shape: count // passes for shape, count in products.items() if count >= passes}),
        biased=biased,
        passes=passes,
        compiled=any(s.op.startswith("triton_") for _, s in forward),
        tp=_tensor_ranks(ops, forward),
    )


def _name(s: Signature) -> str:
    return s.op.rpartition("::")[2]


def _product(s: Signature) -> tuple[int, int, int] | None:
    """Rows, inputs and outputs of a matrix product."""
    name = _name(s)
    if name not in ("mm", "addmm", "linear", "_scaled_mm"):
        return None
    factors = s.inputs[1:3] if name == "addmm" else s.inputs[:2]
    if len(factors) < 2 or any(len(one.shape) < 2 for one in factors):
        return None
    rows, width = math.prod(factors[0].shape[:-1]), factors[0].shape[-1]
    outputs = factors[1].shape[0] if name == "linear" else factors[1].shape[-1]
    return rows, width, outputs


def _attention(forward: list[tuple[Call, Signature]]) -> _Attention | None:
    """The attention that most tokens go through: a fused op, or the softmax over whole score matrices."""
    fused: Counter[int] = Counter()
    eager: Counter[int] = Counter()
    for call, s in forward:
        name = _name(s)
        if "attention" in name or name == "_flash_attn_forward":
            fused[call.signature] += len(s.inputs) > 2 and all(len(one.shape) == 4 for one in s.inputs[:3])
        elif name == "_softmax" and s.inputs and len(s.inputs[0].shape) == 4:
            eager[call.signature] += 1
    known = {call.signature: s for call, s in forward}
    if found := [(number, count) for number, count in fused.items() if count]:
        number, _ = max(found, key=lambda one: one[1] * math.prod(known[one[0]].inputs[0].shape))
        s = known[number]
        q, k = s.inputs[0].shape, s.inputs[1].shape
        if _name(s) == "_flash_attn_forward":
            q, k = (q[0], q[2], q[1], q[3]), (k[0], k[2], k[1], k[3])
        causal = s.arguments.get("is_causal")
        return _Attention(
            batch=q[0], heads=q[1], kv_heads=k[1], length=q[2], dim=q[3], calls=fused[number],
            how=_name(s), causal=causal if isinstance(causal, bool) else None,
            dropout=float(s.arguments.get("dropout_p") or 0.0),
        )  # fmt: skip
    if not eager:
        return None
    number, count = max(eager.items(), key=lambda one: one[1] * math.prod(known[one[0]].inputs[0].shape))
    batch, heads, length, _ = known[number].inputs[0].shape
    dim = _dim_of_scores(forward, batch * heads, length)
    if dim is None:
        return None
    return _Attention(
        batch=batch, heads=heads, kv_heads=heads, length=length, dim=dim, calls=count, how="bmm and softmax",
        causal=None, dropout=0.0,
    )  # fmt: skip


def _dim_of_scores(forward: list[tuple[Call, Signature]], matrices: int, length: int) -> int | None:
    for _, s in forward:
        factors = s.inputs[1:3] if _name(s) == "baddbmm" else s.inputs[:2]
        if _name(s) in ("bmm", "baddbmm") and len(factors) == 2 and len(factors[0].shape) == 3:
            (many, rows, dim), columns = factors[0].shape, factors[1].shape[-1]
            if many == matrices and rows == columns == length and dim != length:
                return dim
    return None


def _passes(forward: list[tuple[Call, Signature]], embeddings: list[Signature], attention: _Attention) -> int:
    """Micro-batches: how often the loss is taken, or the tokens are looked up."""
    losses = sum(_name(s) == "nll_loss_forward" for _, s in forward)
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
        reduces = "allreduce" in _name(s).replace("_", "")
        group = s.arguments.get("group")
        if reduces and s.inputs and s.inputs[0].dtype in floats and math.prod(s.inputs[0].shape) in elements:
            return len(ops.groups[group]) if isinstance(group, int) and group < len(ops.groups) else ops.world_size
    return 1


def _model(seen: _Seen) -> dict[str, Proposed]:
    a, tp = seen.attention, seen.tp
    width = a.heads * a.dim
    layers = max(a.calls // seen.passes, 1)
    found = {"model.network": _sure("transformer", f"attention runs, {a.how}")}
    found["model.layers"] = _sure(layers, f"{counted(a.calls, 'call')} of attention in {_times(seen.passes)}")
    hidden, why = _hidden(seen, width)
    found["model.hidden"] = _sure(hidden, why)
    many = "" if tp == 1 else f" on each of {tp} ranks"
    found["model.heads"] = _sure(a.heads * tp, f"queries of {_shape(seen)}{many}")
    found["model.head_dim"] = _sure(a.dim, f"queries of {_shape(seen)}")
    found["model.kv_heads"] = _kv_heads(seen, hidden, layers)
    found |= _feed_forward(seen, hidden, layers, width)
    found |= _vocabulary(seen, hidden)
    found |= _norms(seen, hidden, layers)
    found |= _position(seen, found)
    found |= _biases(seen, found)
    found |= _experts(seen)
    return found


def _times(passes: int) -> str:
    return "one pass" if passes == 1 else counted(passes, "pass", "passes")


def _shape(seen: _Seen) -> str:
    a = seen.attention
    return f"{a.batch} × {a.heads} × {a.length} × {a.dim}"


def _hidden(seen: _Seen, width: int) -> tuple[int, str]:
    tables = [s.inputs[0].shape for s in seen.embeddings if len(s.inputs[0].shape) == 2]
    entering = Counter({width_in: 0 for width_in, _ in seen.products})
    for (width_in, _), count in seen.products.items():
        entering[width_in] += count
    for rows, columns in sorted(tables, reverse=True):
        if columns in entering:
            return columns, f"the token table has {rows} × {columns}, and products take {columns} in"
    leaving = Counter({out: count for (_, out), count in seen.products.items()})
    both = [size for size in entering if leaving[size]]
    found = max(both or [width], key=lambda size: entering[size] + leaving[size])
    return found, f"most products take {found} in or give it"


def _kv_heads(seen: _Seen, hidden: int, layers: int) -> Proposed:
    a, tp = seen.attention, seen.tp
    width = a.heads * a.dim
    if a.kv_heads < a.heads:
        return _sure(a.kv_heads * tp, f"keys have {a.kv_heads} heads beside {a.heads} of the queries")
    for (entering, leaving), count in sorted(seen.products.items()):
        if entering != hidden or count < layers or leaving % a.dim:
            continue
        rest = leaving - width
        if rest > 0 and rest % (2 * a.dim) == 0 and rest // 2 <= width and _is_fused_qkv(seen, hidden, layers, leaving):
            heads = rest // (2 * a.dim)
            return _sure(heads * tp, f"one product {hidden} → {leaving} makes {a.heads} + 2·{heads} heads")
        if leaving < width and count >= 2 * layers:
            heads = leaving // a.dim
            return _sure(heads * tp, f"two products {hidden} → {leaving} a layer make keys and values")
    same = seen.products[(hidden, width)] // layers
    return _sure(a.heads * tp, f"{counted(same, 'product')} {hidden} → {width} a layer, and none narrower")


def _is_fused_qkv(seen: _Seen, hidden: int, layers: int, leaving: int) -> bool:
    """Whether no product makes the queries alone, and what leaves is not the inner width of the network."""
    width = seen.attention.heads * seen.attention.dim
    alone = seen.products[(hidden, width)]
    outputs = layers if width == hidden else 0  # the output projection has the same shape
    return alone <= outputs and not seen.products[(leaving, hidden)]


def _feed_forward(seen: _Seen, hidden: int, layers: int, width: int) -> dict[str, Proposed]:
    tp = seen.tp
    down = {
        entering: count // layers
        for (entering, leaving), count in seen.products.items()
        if leaving == hidden and count >= layers and entering != hidden
    }
    if len(down) > 1 and down.get(width) == 1 and width != hidden:
        down.pop(width)  # attention's output projection
    activation = _activation(seen)
    if not down:
        return {
            "model.ffn": _guess(4 * hidden, f"no product → {hidden} stands for a network; four times the width"),
            "model.gated_ffn": _guess(activation == "silu", "by the activation"),
            "model.activation": _activation_field(seen, activation),
        }
    inner = max(down, key=lambda entering: (down[entering], entering))
    up, both = seen.products[(hidden, inner)] // layers, seen.products[(hidden, 2 * inner)] // layers
    gated = bool(both) or up >= 2
    said = (
        f"one product {hidden} → {2 * inner} a layer, and {inner} → {hidden}"
        if both
        else f"{counted(up, 'product')} {hidden} → {inner} a layer, and {inner} → {hidden}"
    )
    return {
        "model.ffn": _sure(inner * tp, said),
        "model.gated_ffn": _sure(gated, said),
        "model.activation": _activation_field(seen, activation),
    }


def _activation(seen: _Seen) -> str:
    words = " ".join(s.op for _, s in seen.forward)
    return next((name for name in ("silu", "gelu", "relu") if name in words), "")


def _activation_field(seen: _Seen, activation: str) -> Proposed:
    """The activation: the op that runs says it, but for how GELU is computed."""
    if activation == "gelu":
        return _guess("gelu", "aten::gelu; the profile does not say whether by its tanh form")
    if activation:
        return _sure(activation, f"{activation} runs in the forward pass")
    tanh = any(_name(s) == "tanh" for _, s in seen.forward)
    return _guess("gelu-tanh" if tanh else "silu", "tanh runs in the forward pass" if tanh else "no activation is seen")


def _vocabulary(seen: _Seen, hidden: int) -> dict[str, Proposed]:
    tables = [
        s.inputs[0].shape[0]
        for s in seen.embeddings
        if s.inputs[0].shape[1:] == (hidden,) and math.prod(s.inputs[1].shape) == _tokens(seen)
    ]
    width = seen.attention.heads * seen.attention.dim
    heads = [
        out
        for (entering, out), count in seen.products.items()
        if entering == hidden and count == 1 and out > 3 * width and (out, hidden) not in seen.products
    ]
    largest = max(heads, default=0)
    if tables and max(tables) > 1:
        rows = max(tables)
        agrees = f", and the head is {hidden} → {rows}" if (hidden, rows) in seen.products else ""
        return {"model.vocab": _sure(rows, f"the tokens are looked up in {rows} × {hidden}{agrees}")}
    losses = [s.inputs[0].shape[-1] for _, s in seen.forward if _name(s) in ("_log_softmax", "nll_loss_forward")]
    if losses and losses[0] > 1:
        return {"model.vocab": _sure(losses[0] * seen.tp, f"the loss is over {losses[0]} logits a token")}
    if largest:
        return {"model.vocab": _guess(largest, f"the only product {hidden} → {largest} may be the head")}
    raise _None("It looks no tokens up in a table, so it is no language model, the only one that a scenario describes.")


def _tokens(seen: _Seen) -> int:
    return seen.attention.batch * seen.attention.length


def _norms(seen: _Seen, hidden: int, layers: int) -> dict[str, Proposed]:
    words = Counter(_name(s) for _, s in seen.forward)
    per_pass = {name: count / seen.passes for name, count in words.items()}
    layer = per_pass.get("native_layer_norm", 0)
    heads = sum(
        (_name(s) == "_fused_rms_norm" and s.inputs[0].shape[-1:] == (seen.attention.dim,))
        or (_name(s) == "rsqrt" and len(s.inputs[0].shape) == 4)
        for _, s in seen.forward
        if s.inputs
    )
    rms = max(per_pass.get("_fused_rms_norm", 0), per_pass.get("rsqrt", 0)) - heads / seen.passes
    fused = " ".join(s.op for _, s in seen.forward if s.op.startswith("triton_"))
    if not layer and not rms:
        norm = "layer" if "layer_norm" in fused else "rms" if "rsqrt" in fused or "rms_norm" in fused else ""
        said = f"kernels fused by the compiler have {'layer_norm' if norm == 'layer' else 'rsqrt'} in their names"
        return {"model.norm": _sure(norm, said) if norm else _guess("rms", "no norm is seen")}
    kind, count = ("layer", layer) if layer >= rms else ("rms", rms)
    found = {"model.norm": _sure(kind, f"{count:g} {'layer' if kind == 'layer' else 'RMS'} norms in one pass")}
    if round(count) >= layers and not seen.compiled:
        found["model.norms_per_layer"] = _sure(min(round(count) // layers, 8), f"{count:g} norms in {layers} layers")
    if heads:
        found["model.qk_norm"] = _sure(True, f"norms over heads of {seen.attention.dim}")
    return found


def _position(seen: _Seen, found: Mapping[str, Proposed]) -> dict[str, Proposed]:
    a = seen.attention
    for s in seen.embeddings:
        rows, columns = s.inputs[0].shape
        places = math.prod(s.inputs[1].shape)
        own = columns == found["model.hidden"].value and rows != found["model.vocab"].value
        if own and places % a.length == 0 and rows >= a.length:
            said = f"positions are looked up in {rows} × {columns}"
            return {"model.position": _sure("learned", said), "model.max_positions": _sure(rows, said)}
    halves = any(
        _name(s) in ("neg", "cat") and s.inputs and s.inputs[0].shape[-1:] == (a.dim // 2,) for _, s in seen.forward
    )
    words = " ".join(s.op for _, s in seen.forward)
    turned = halves or "_cos" in words or "::cos" in words or "rotary" in words or "rope" in words
    if turned:
        return {
            "model.position": _sure("rope", "heads are rotated by halves" if halves else "sines and cosines are taken")
        }
    if seen.compiled:
        return {"model.position": _guess("rope", "fused kernels do not show how positions enter")}
    return {"model.position": _sure("none", "no positions are looked up, and no heads are rotated")}


def _biases(seen: _Seen, found: Mapping[str, Proposed]) -> dict[str, Proposed]:
    hidden, inner = found["model.hidden"].value, found["model.ffn"].value // seen.tp
    width = seen.attention.heads * seen.attention.dim
    network = {(hidden, inner), (hidden, 2 * inner), (inner, hidden)}
    outside = {*network, (hidden, found["model.vocab"].value // seen.tp)}
    rates = {
        "model.qkv_bias": _biased(seen, [s for s in seen.products if s[0] == hidden and s not in outside]),
        "model.output_bias": _biased(seen, [s for s in seen.products if s == (width, hidden) and s not in outside]),
        "model.ffn_bias": _biased(seen, [s for s in seen.products if s in network]),
    }
    if width == hidden and 0 < rates["model.output_bias"] < 1:  # queries' and the output's products look alike
        rates["model.output_bias"] = 0.0
        rates["model.qkv_bias"] = 1.0
    if all(rate == 1 for rate in rates.values()):
        return {"model.bias": _sure(True, "all products of the layers add a bias (addmm)")}
    if not any(rates.values()):
        return {"model.bias": _sure(False, "no product of the layers adds a bias (addmm)")}
    said = "some products of the layers add a bias (addmm), others none"
    return {"model.bias": _sure(False, said)} | {
        path: Proposed(value=True, sure=rate == 1, evidence="its products add a bias (addmm)")
        for path, rate in rates.items()
        if rate
    }


def _biased(seen: _Seen, shapes: list[tuple[int, int]]) -> float:
    every = sum(seen.products[shape] for shape in shapes) * seen.passes
    return sum(seen.biased[shape] for shape in shapes) / every if every else 0.0


def _experts(seen: _Seen) -> dict[str, Proposed]:
    for _, s in seen.forward:
        if (
            _name(s) == "topk"
            and s.inputs
            and s.inputs[0].shape[-1:]
            and math.prod(s.inputs[0].shape[:-1]) == _tokens(seen)
        ):
            experts, chosen = s.inputs[0].shape[-1], s.arguments.get("k")
            if isinstance(chosen, int) and experts <= 1024:
                said = f"each token chooses {chosen} of {experts}"
                return {"model.experts": _sure(experts, said), "model.top_k": _sure(chosen, said)}
    return {}


def _training(seen: _Seen) -> dict[str, Proposed]:
    a = seen.attention
    found = {"training.seq_len": _sure(a.length, f"queries of {_shape(seen)}")}
    found["training.precision"] = _precision(seen)
    found["training.optimizer"] = _optimizer(seen)
    kind = "flash" if "flash_attn" in a.how else "eager" if "softmax" in a.how else "sdpa"
    found["training.attention"] = _sure(kind, a.how)
    found["training.compile"] = (
        _sure(True, "kernels that Inductor made (triton_…)")
        if seen.compiled
        else _sure(False, "no kernel that Inductor made")
    )
    found["training.framework"] = _sure("pytorch-eager", "ATen ops")
    rates = [float(s.arguments.get("p") or 0.0) for _, s in seen.forward if _name(s) == "native_dropout"]
    rate = max([a.dropout, *rates])
    found["training.dropout"] = (
        _sure(rate, f"dropout of {rate:g}")
        if rate
        else _guess(0.0, "fused kernels would hide it")
        if seen.compiled
        else _sure(0.0, "no dropout runs")
    )
    return found


def _precision(seen: _Seen) -> Proposed:
    computed = Counter(
        s.inputs[-1].dtype for _, s in seen.forward if (shape := _product(s)) and shape[0] == _tokens(seen)
    )
    used = computed.most_common(1)[0][0]
    tables = [s.inputs[0].dtype for s in seen.embeddings]
    state = Counter(
        s.inputs[0].dtype
        for call in seen.ops.calls
        if call.phase == Phase.OPTIMIZER and call.kind == "kernel" and (s := seen.ops.of(call)).inputs
    )
    held = state.most_common(1)[0][0] if state else tables[0] if tables else used
    said = f"products of {used}, parameters of {held}"
    if used == "bfloat16":
        return _sure("bf16" if held == "bfloat16" else "bf16-amp", said)
    if used == "float16":
        return _sure("fp16-amp", said) if held == "float32" else _guess("fp16-amp", f"{said}, which no scenario has")
    if used.startswith("float8"):
        return _sure("fp8", said)
    return _guess("fp32", f"{said}; whether TF32 was allowed is not recorded")


def _optimizer(seen: _Seen) -> Proposed:
    names = Counter(
        _name(seen.ops.of(call)) for call in seen.ops.calls if call.phase == Phase.OPTIMIZER and call.kind == "kernel"
    )
    for word, how in (("_fused_adam", "fused"), ("_foreach_addcdiv", "foreach"), ("addcdiv", "tensor by tensor")):
        if any(name.startswith(word) for name in names):
            return _sure("adamw", f"{next(name for name in names if name.startswith(word))}: Adam's update, {how}")
    if any("triton" in name for name in names):
        return _guess("adamw", "the optimizer is compiled, its update not seen")
    if names:
        return _guess("sgd", f"{names.most_common(1)[0][0]} and no second moments")
    return _guess("adamw", "no optimizer runs in the step")


def _plan(seen: _Seen, found: Mapping[str, Proposed]) -> dict[str, Proposed]:
    a, ops, tp = seen.attention, seen.ops, seen.tp
    plan = {"plan.micro_batch": _sure(a.batch, f"queries of {_shape(seen)}")}
    kinds = {_name(ops.of(call)).replace("_", "") for call in ops.calls if call.kind == "collective"}
    sends = any("send" in kind or "recv" in kind for kind in kinds)
    world = ops.world_size
    dp = max(world // tp, 1)
    pp = 1
    plan["plan.tp"] = _sure(tp, f"{tp} ranks add activations up in the forward pass" if tp > 1 else
                            "no activations are added up in the forward pass")  # fmt: skip
    if sends:
        plan["plan.dp"] = _guess(dp, f"{world} ranks; stages send to each other, how many there are is not recorded")
    else:
        plan["plan.dp"] = _sure(dp, f"{world} {'rank' if world == 1 else 'ranks'}, {tp} of them share a product"
                                if tp > 1 else f"{world} {'rank' if world == 1 else 'ranks'}")  # fmt: skip
    plan["plan.pp"] = _guess(pp, "stages send to each other") if sends else _sure(pp, "no stage sends to another")
    plan["plan.sharding"] = _sharding(kinds, dp, ops)
    plan["plan.recompute"] = _recompute(ops)
    batch = a.batch * seen.passes * dp
    plan["training.global_batch"] = Proposed(
        value=batch,
        sure=not sends,
        evidence=f"{counted(a.batch, 'sequence')}, {_times(seen.passes)}, {dp} data parallel",
    )
    plan |= _cluster(ops, world)
    return plan


def _sharding(kinds: set[str], dp: int, ops: OpList) -> Proposed:
    gathers = any("allgather" in kind for kind in kinds)
    scatters = any("reducescatter" in kind for kind in kinds)
    if gathers and scatters:
        again = any(
            call.kind == "collective" and call.phase == Phase.BACKWARD and "gather" in _name(ops.of(call))
            for call in ops.calls
        )
        said = "parameters are gathered, gradients scattered"
        return _sure("fsdp", f"{said}, and gathered again in backward") if again else _sure("zero2", said)
    if any("allreduce" in kind for kind in kinds):
        return _sure("ddp", "gradients are added up by all-reduce")
    return _sure("ddp", "one rank shards nothing") if dp == 1 else _guess("ddp", "no gradients are exchanged")


def _recompute(ops: OpList) -> Proposed:
    again = Counter(_name(ops.of(call)) for call in ops.calls if call.recomputed and call.kind == "kernel")
    if not any(call.phase == Phase.BACKWARD for call in ops.calls):
        return _guess("none", "there is no backward pass")
    if not again:
        return _sure("none", "nothing of the forward pass runs again in backward")
    if again["mm"] + again["addmm"]:
        return _sure("full", f"{again['mm'] + again['addmm']} products of the forward pass run again in backward")
    return _sure("selective", f"{sum(again.values())} ops run again in backward, but no product")


def _cluster(ops: OpList, world: int) -> dict[str, Proposed]:
    key = ops.chip
    try:
        chip = catalog.chip(key or "h100-sxm")
    except InputProblems:
        key, chip = "", catalog.chip("h100-sxm")
    per_node = min(world, chip.chips_per_node)
    sure = bool(key)
    found = {
        "cluster.chip": _sure(chip.name, "the device that the profile names")
        if sure
        else _guess(chip.name, "the profile names no chip of the catalogue")
    }
    whole = world % per_node == 0
    said = f"{world} ranks, and up to {chip.chips_per_node} chips in a node" if world > 1 else "one rank"
    found["cluster.chips_per_node"] = Proposed(value=per_node if whole else 1, sure=world == 1, evidence=said)
    found["cluster.nodes"] = Proposed(value=world // per_node if whole else world, sure=world == 1, evidence=said)
    return found


def _settle_table(document: dict[str, Any], found: dict[str, Proposed], seen: _Seen) -> None:
    """Tell by the count of parameters whether the head has a table of its own, and what their biases are."""
    model = scenario_from_json(document).model
    counted = seen.ops.parameters
    said = f"gradients of {counted:,} parameters are kept" if counted else "no gradients are kept"
    heads = (model.hidden, model.vocab // seen.tp) in seen.products
    untied = parameters(model, seen.attention.length)
    tied = untied - model.hidden * model.vocab
    if counted == tied and counted != untied and seen.tp == 1:
        value = _sure(True, f"{said}: those of one table")
    elif counted == untied and seen.tp == 1:
        value = _sure(False, f"{said}: those of two tables")
    elif counted and seen.tp == 1 and heads:
        nearer = abs(counted - tied) < abs(counted - untied)
        value = _guess(nearer, f"{said}; with one table the model has {tied:,}, with two {untied:,}")
    else:
        value = _guess(False, said)
    found["model.tied_embedding"] = value
    document["model"]["tied_embedding"] = value.value
