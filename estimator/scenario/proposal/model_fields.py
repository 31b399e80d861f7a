"""Model fields: what shapes and repetition of a profile's ops say of its model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from estimator.scenario.aten_cost import is_inductors
from estimator.scenario.proposal.proposed import Proposed, guess, sure
from estimator.scenario.proposal.seen import NoScenario, Seen, is_of_samples, name_of, shape_of, times, tokens_of
from estimator.scenario.units import counted


def model_fields(seen: Seen) -> dict[str, Proposed]:
    """Fields of the model by their path; raises NoScenario for what is no language model."""
    a, tp = seen.attention, seen.tp
    width = a.heads * a.dim
    layers = max(a.calls // seen.passes, 1)
    found = {"model.network": sure("transformer", f"attention runs, {a.how}")}
    found["model.layers"] = sure(layers, f"{counted(a.calls, 'call')} of attention in {times(seen.passes)}")
    hidden, why = _hidden(seen, width)
    found["model.hidden"] = sure(hidden, why)
    many = "" if tp == 1 else f" on each of {tp} ranks"
    found["model.heads"] = sure(a.heads * tp, f"queries of {shape_of(seen)}{many}")
    found["model.head_dim"] = sure(a.dim, f"queries of {shape_of(seen)}")
    found["model.kv_heads"] = _kv_heads(seen, hidden, layers)
    found |= _feed_forward(seen, hidden, layers, width)
    found |= _vocabulary(seen, hidden)
    found |= _norms(seen, layers)
    found |= _position(seen, found)
    found |= _biases(seen, found)
    found |= _experts(seen)
    return found


def _hidden(seen: Seen, width: int) -> tuple[int, str]:
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


def _kv_heads(seen: Seen, hidden: int, layers: int) -> Proposed:
    a, tp = seen.attention, seen.tp
    width = a.heads * a.dim
    if a.kv_heads < a.heads:
        return sure(a.kv_heads * tp, f"keys have {a.kv_heads} heads beside {a.heads} of the queries")
    for (entering, leaving), count in sorted(seen.products.items()):
        if entering != hidden or count < layers or leaving % a.dim:
            continue
        rest = leaving - width
        if rest > 0 and rest % (2 * a.dim) == 0 and rest // 2 <= width and _is_fused_qkv(seen, hidden, layers, leaving):
            heads = rest // (2 * a.dim)
            return sure(heads * tp, f"one product {hidden} → {leaving} makes {a.heads} + 2·{heads} heads")
        if leaving < width and count >= 2 * layers:
            heads = leaving // a.dim
            return sure(heads * tp, f"two products {hidden} → {leaving} a layer make keys and values")
    same = seen.products[(hidden, width)] // layers
    apart = same - (width == hidden)  # the output projection has the same shape
    if (together := _kv_heads_of_one(seen, hidden, layers, apart)) is not None:
        product = f"{hidden} → {2 * together * a.dim}"
        return guess(together * tp, f"one product {product} a layer beside the queries' makes keys and values together")
    if apart == _PRODUCTS_APART:
        return sure(a.heads * tp, f"{counted(same, 'product')} {hidden} → {width} a layer, and none narrower")
    return guess(a.heads * tp, f"{counted(same, 'product')} {hidden} → {width} a layer, and keys as wide as queries")


_PRODUCTS_APART = 3
"""Products of queries, keys and values where each has its own."""


def _kv_heads_of_one(seen: Seen, hidden: int, layers: int, apart: int) -> int | None:
    """Heads of keys and values that one product makes beside another for the queries; None where none does."""
    a = seen.attention
    if apart == _PRODUCTS_APART - 1:  # the queries' product, and one as wide for half as many heads of both
        return a.heads // 2 if a.heads % 2 == 0 else None
    if apart != 1:
        return None
    for (entering, leaving), count in sorted(seen.products.items()):
        heads, rest = divmod(leaving, 2 * a.dim)
        network = seen.products[(leaving, hidden)] or leaving == a.heads * a.dim
        if entering == hidden and count == layers and not rest and heads and a.heads % heads == 0 and not network:
            return heads
    return None


def _is_fused_qkv(seen: Seen, hidden: int, layers: int, leaving: int) -> bool:
    """Whether no product makes the queries alone, and what leaves is not the inner width of the network."""
    width = seen.attention.heads * seen.attention.dim
    alone = seen.products[(hidden, width)]
    outputs = layers if width == hidden else 0  # the output projection has the same shape
    return alone <= outputs and not seen.products[(leaving, hidden)]


def _feed_forward(seen: Seen, hidden: int, layers: int, width: int) -> dict[str, Proposed]:
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
            "model.ffn": guess(4 * hidden, f"no product → {hidden} stands for a network; four times the width"),
            "model.gated_ffn": guess(activation == "silu", "by the activation"),
            "model.activation": _activation_field(seen, activation),
        }
    inner = max(down, key=lambda entering: (down[entering], entering))
    up, both = seen.products[(hidden, inner)] // layers, seen.products[(hidden, 2 * inner)] // layers
    readings = _readings(seen, hidden, layers, inner)
    gated = min(readings, default=bool(both) or up >= 2)
    in_one = gated and both and up < 2
    said = (
        f"one product {hidden} → {2 * inner} a layer, and {inner} → {hidden}"
        if in_one
        else f"{counted(up, 'product')} {hidden} → {inner} a layer, and {inner} → {hidden}"
    )
    if taken := up - (1 + gated) if readings and not in_one else 0:
        said += f"; attention makes its queries, keys and values by {taken} of the {up}"
    if len(readings) > 1:
        said += ", which may be one fewer"
    return {
        "model.ffn": sure(inner * tp, said),
        "model.gated_ffn": guess(gated, said) if len(readings) > 1 else sure(gated, said),
        "model.activation": _activation_field(seen, activation),
    }


def _readings(seen: Seen, hidden: int, layers: int, inner: int) -> set[bool]:
    """Whether the network is gated, by each way in which attention and it share most of a layer's products.

    Products of queries, keys and values may be as wide as the network's. Empty where no way is whole, as where queries
    come from something narrower.
    """
    a = seen.attention
    width = a.heads * a.dim
    products = Counter({leaving: n // layers for (entering, leaving), n in seen.products.items() if entering == hidden})
    if width == hidden and products[width]:
        products[width] -= 1  # the output projection has the same shape
    few = (a.kv_heads,) if a.kv_heads < a.heads else tuple(n for n in range(1, a.heads + 1) if a.heads % n == 0)
    found: dict[bool, int] = {}
    for keys in (n * a.dim for n in few):
        for attention in ((width + 2 * keys,), (width, 2 * keys), (width, keys, keys)):
            for network, gated in (((inner,), False), ((inner, inner), True), ((2 * inner,), True)):
                of_way = Counter((*attention, *network))
                if of_way <= products:
                    found[gated] = max(found.get(gated, 0), len(attention) + len(network))
    return {gated for gated, most in found.items() if most == max(found.values())}


def _activation(seen: Seen) -> str:
    words = " ".join(s.op for _, s in seen.forward)
    return next((name for name in ("silu", "gelu", "relu") if name in words), "")


def _activation_field(seen: Seen, activation: str) -> Proposed:
    """The activation: the op that runs says it, but for how GELU is computed."""
    if activation == "gelu":
        return guess("gelu", "aten::gelu; the profile does not say whether by its tanh form")
    if activation:
        return sure(activation, f"{activation} runs in the forward pass")
    tanh = any(name_of(s) == "tanh" for _, s in seen.forward)
    return guess("gelu-tanh" if tanh else "silu", "tanh runs in the forward pass" if tanh else "no activation is seen")


def _vocabulary(seen: Seen, hidden: int) -> dict[str, Proposed]:
    tables = [
        s.inputs[0].shape[0]
        for s in seen.embeddings
        if s.inputs[0].shape[1:] == (hidden,) and math.prod(s.inputs[1].shape) == tokens_of(seen)
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
        return {"model.vocab": sure(rows, f"the tokens are looked up in {rows} × {hidden}{agrees}")}
    losses = [s.inputs[0].shape for _, s in seen.forward if name_of(s) in ("_log_softmax", "nll_loss_forward")]
    if losses and losses[0][-1] > 1:
        classes = losses[0][-1]
        if is_of_samples(seen):
            why = f"the loss is over {classes} classes a sample; a scenario has as many logits a token"
            return {"model.vocab": guess(classes, why)}
        return {"model.vocab": sure(classes * seen.tp, f"the loss is over {classes} logits a token")}
    if largest:
        return {"model.vocab": guess(largest, f"the only product {hidden} → {largest} may be the head")}
    raise NoScenario(
        "It looks no tokens up in a table, so it is no language model, the only one that a scenario describes."
    )


def _norms(seen: Seen, layers: int) -> dict[str, Proposed]:
    words = Counter(name_of(s) for _, s in seen.forward)
    per_pass = {name: count / seen.passes for name, count in words.items()}
    layer = per_pass.get("native_layer_norm", 0)
    heads = sum(
        (name_of(s) == "_fused_rms_norm" and s.inputs[0].shape[-1:] == (seen.attention.dim,))
        or (name_of(s) == "rsqrt" and len(s.inputs[0].shape) == 4)
        for _, s in seen.forward
        if s.inputs
    )
    rms = max(per_pass.get("_fused_rms_norm", 0), per_pass.get("rsqrt", 0)) - heads / seen.passes
    fused = " ".join(s.op for _, s in seen.forward if is_inductors(s.op))
    if not layer and not rms:
        norm = "layer" if "layer_norm" in fused else "rms" if "rsqrt" in fused or "rms_norm" in fused else ""
        said = f"kernels fused by the compiler have {'layer_norm' if norm == 'layer' else 'rsqrt'} in their names"
        return {"model.norm": sure(norm, said) if norm else guess("rms", "no norm is seen")}
    kind, count = ("layer", layer) if layer >= rms else ("rms", rms)
    found = {"model.norm": sure(kind, f"{count:g} {'layer' if kind == 'layer' else 'RMS'} norms in one pass")}
    if round(count) >= layers and not seen.compiled:
        found["model.norms_per_layer"] = sure(min(round(count) // layers, 8), f"{count:g} norms in {layers} layers")
    if heads:
        found["model.qk_norm"] = sure(True, f"norms over heads of {seen.attention.dim}")
    return found


def _position(seen: Seen, found: Mapping[str, Proposed]) -> dict[str, Proposed]:
    a = seen.attention
    for s in seen.embeddings:
        rows, columns = s.inputs[0].shape
        places = math.prod(s.inputs[1].shape)
        own = columns == found["model.hidden"].value and rows != found["model.vocab"].value
        if own and places % a.length == 0 and rows >= a.length:
            said = f"positions are looked up in {rows} × {columns}"
            return {"model.position": sure("learned", said), "model.max_positions": sure(rows, said)}
    halves = any(
        name_of(s) in ("neg", "cat") and s.inputs and s.inputs[0].shape[-1:] == (a.dim // 2,) for _, s in seen.forward
    )
    words = " ".join(s.op for _, s in seen.forward)
    turned = halves or "_cos" in words or "::cos" in words or "rotary" in words or "rope" in words
    if turned:
        return {
            "model.position": sure("rope", "heads are rotated by halves" if halves else "sines and cosines are taken")
        }
    if seen.compiled:
        return {"model.position": guess("rope", "fused kernels do not show how positions enter")}
    if _adds_places(seen, found["model.hidden"].value):
        said = f"{a.length} × {found['model.hidden'].value} are added to the tokens, learned or not"
        return {"model.position": guess("learned", said), "model.max_positions": guess(a.length, said)}
    return {"model.position": sure("none", "no positions are looked up, and no heads are rotated")}


def _adds_places(seen: Seen, hidden: int) -> bool:
    """Whether rows of a table without a lookup, a slice of a parameter, are added to all sequences alike."""
    a = seen.attention
    tokens, places = (a.batch, a.length, hidden), ((a.length, hidden), (1, a.length, hidden))
    adds = [s for _, s in seen.forward if name_of(s) in ("add", "add_") and len(s.inputs) > 1]
    return any(s.inputs[0].shape == tokens and s.inputs[1].shape in places for s in adds) and tokens not in places


def _biases(seen: Seen, found: Mapping[str, Proposed]) -> dict[str, Proposed]:
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
        return {"model.bias": sure(True, "all products of the layers add a bias (addmm)")}
    if not any(rates.values()):
        return {"model.bias": sure(False, "no product of the layers adds a bias (addmm)")}
    said = "some products of the layers add a bias (addmm), others none"
    return {"model.bias": sure(False, said)} | {
        path: Proposed(value=True, sure=rate == 1, evidence="its products add a bias (addmm)")
        for path, rate in rates.items()
        if rate
    }


def _biased(seen: Seen, shapes: list[tuple[int, int]]) -> float:
    every = sum(seen.products[shape] for shape in shapes) * seen.passes
    return sum(seen.biased[shape] for shape in shapes) / every if every else 0.0


def _experts(seen: Seen) -> dict[str, Proposed]:
    for _, s in seen.forward:
        if (
            name_of(s) == "topk"
            and s.inputs
            and s.inputs[0].shape[-1:]
            and math.prod(s.inputs[0].shape[:-1]) == tokens_of(seen)
        ):
            experts, chosen = s.inputs[0].shape[-1], s.arguments.get("k")
            if isinstance(chosen, int) and experts <= 1024:
                said = f"each token chooses {chosen} of {experts}"
                return {"model.experts": sure(experts, said), "model.top_k": sure(chosen, said)}
    return {}
