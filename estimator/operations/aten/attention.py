"""Attention: fused forward and backward by the backend that runs them, and the masks that cost a causal shortcut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from estimator.operations.aten.operands import kernel, moved_bytes, width
from estimator.operations.aten.products import name, precision
from estimator.operations.attention import padded, side_bytes
from estimator.operations.op import Op, gemm
from estimator.scenario.aten_cost import CAUSAL_FRAC, attention_flops, is_by_length, packed
from estimator.scenario.breakdown import Category
from estimator.scenario.op_list import Operand, Signature

BACKENDS = ("cudnn", "flash", "efficient", "math", "overrideable")

RATES = {"flash": "attention_flash_frac", "efficient": "attention_flash1_frac"}
"""Efficiencies of the backends; cuDNN's is what scaled_dot_product_attention reaches where it may choose. The efficient
one's kernels are a generation older than FlashAttention-2 and are taken to be as fast as FlashAttention 1."""


BACKWARD = {
    "attention_mask_frac": "attention_mask_backward_frac",
    "attention_dropout_frac": "attention_dropout_backward_frac",
}
"""What slows backward otherwise than forward."""


def backend_of(s: Signature) -> str:
    """The backend, from the argument that says it or from the op's name; FlashAttention-3 is as fast as cuDNN's."""
    if s.op.startswith("flash_attn_3::"):
        return "cudnn"
    said = str(s.arguments.get("backend", "")).lower().removesuffix("_attention")
    named = next((backend for backend in BACKENDS if backend in s.op), "")
    return said if said in BACKENDS else named or "cudnn"


def attention(s: Signature) -> list[Op]:
    """Forward: one kernel over q, k, v; what a mask hides is computed, what causality hides is skipped."""
    return _forward(s, s.inputs[:3])


def attention_backward(s: Signature) -> list[Op]:
    """Backward: scores again, and gradients of weights, v, q and k: three kernels, five where heads share keys."""
    found = _forward(s, s.inputs[1:4])
    if not found or found[0].kind != "attention":
        return _math_backward(found)
    (forward,) = found
    queries, keys, values = _heads_first(s, s.inputs[1:4])
    dim, value_dim = queries.shape[-1], values.shape[-1]
    shared = keys.shape[1] != queries.shape[1]
    moved = 2.5 * sum(map(moved_bytes, (queries, keys, values, _result(queries, values))))
    return [
        replace(
            forward,
            phase="backward",
            flops=float(
                attention_flops(forward.batch, forward.m, forward.n, dim, value_dim, backward=True)
            ),
            bytes=moved + 4.0 * forward.batch * forward.m,
            padded=padded(dim, value_dim, backward=True) if forward.efficiency == CUDNN else 1.0,
            side_bytes=side_bytes(
                forward.batch * forward.m * dim, forward.batch * forward.n * dim,
                keys.shape[1] / max(queries.shape[1], 1), width(queries),
            ),
            launches=5.0 if shared else 3.0,
            slowed_by=tuple(BACKWARD.get(one, one) for one in forward.slowed_by),
        )
    ]  # fmt: skip


def _forward(s: Signature, qkv: tuple[Operand, ...]) -> list[Op]:
    queries, keys, values = _heads_first(s, qkv)
    batch, heads, length, dim = queries.shape
    square = float(batch * heads) * length * keys.shape[2]
    if square * dim == 0:
        return []
    backend = backend_of(s)
    if backend == "math":
        return _math(s, queries, keys, values)
    mask_bytes = sum(map(moved_bytes, _masks(s)))
    statistics = 4.0 * batch * heads * length
    return [
        Op(
            name=name(s),
            layer="",
            phase="forward",
            category=Category.ATTENTION,
            kind="attention",
            batch=float(batch * heads),
            m=length,
            n=keys.shape[2],
            k=dim,
            flops=float(attention_flops(batch * heads, length, keys.shape[2], dim, values.shape[3], backward=False)),
            bytes=sum(map(moved_bytes, (queries, keys, values, _result(queries, values)))) + statistics + mask_bytes,
            precision=precision(queries, s),
            visible_frac=_visible_frac(s, backend, length, keys.shape[2]),
            padded=padded(dim, values.shape[3], backward=False) if backend not in RATES else 1.0,
            efficiency=RATES.get(backend, CUDNN),
            tile=TILES.get(backend, 128.0),
            slowed_by=_slowed_by(s) if backend == "cudnn" else (),
        )
    ]


CUDNN = "attention_frac"
TILES = {"efficient": 64.0}
"""Queries and keys that a block takes where they are fewer than cuDNN's and FlashAttention-2's 128 (H200, kernels
alone: 16, 50 and 77 tokens cost what 128 do; under the efficient backend 50 what 64 do)."""


def _slowed_by(s: Signature) -> tuple[str, ...]:
    """What slows cuDNN's kernels: a mask in memory, dropout."""
    masked = ("attention_mask_frac",) if s.arguments.get("mask") is True or _masks(s) else ()
    return (*masked, *(("attention_dropout_frac",) if s.arguments.get("dropout") else ()))


def _visible_frac(s: Signature, backend: str, queries: int, keys: int) -> float:
    """Share of the scores that a kernel computes: of a window of W keys before each query r − r²/2, r = (W + 1) / S."""
    window = s.arguments.get("window")
    if isinstance(window, Sequence):
        window = window[0] if window else None
    causal = s.arguments.get("is_causal")
    if isinstance(window, (int, float)) and 0 <= window < keys - 1:
        reach = (window + 1) / keys
        seen = reach - 0.5 * reach * reach
        return seen if causal else min(2.0 * seen, 1.0)
    if not causal:
        return 1.0
    if queries >= keys:
        return CAUSAL_FRAC
    # Of fewer queries than keys the first sees one key, and all before it under FlashAttention (from 2.1 on).
    corner = CAUSAL_FRAC * queries / keys
    return 1.0 - corner if backend == "flash" else corner


def _masks(s: Signature) -> tuple[Operand, ...]:
    """A bias or mask of the scores, one number each, among the inputs."""
    if "backward" in s.op:
        return ()
    return tuple(one for one in s.inputs[3:] if len(one.shape) >= 2 and not s.arguments.get("is_causal"))


def _heads_first(s: Signature, qkv: tuple[Operand, ...]) -> tuple[Operand, Operand, Operand]:
    """q, k, v as (B, h, S, D)."""
    by_length = is_by_length(s.op)
    found = []
    for one in qkv:
        shape = (1,) * (4 - len(one.shape)) + one.shape[-4:]
        if by_length:
            batch, length = packed(one.shape, s.arguments.get("max_seqlen"))
            shape = (batch, shape[2], length, shape[3])
        found.append(Operand(shape=shape, dtype=one.dtype))
    return found[0], found[1], found[2]


def _result(queries: Operand, values: Operand) -> Operand:
    return Operand(shape=(*queries.shape[:3], values.shape[3]), dtype=queries.dtype)


def _math(s: Signature, queries: Operand, keys: Operand, values: Operand) -> list[Op]:
    """Scores, mask, softmax and weighted values one after another; the scores lie in memory."""
    batch, heads, length, dim = queries.shape
    scores = float(batch * heads) * length * keys.shape[2]
    e = width(queries)
    both = {"element_bytes": float(e), "precision": precision(queries, s), "category": Category.ATTENTION}
    return [
        gemm(name(s), "", "forward", batch=batch * heads, m=length, n=keys.shape[2], k=dim, **both),  # type: ignore[arg-type]
        kernel(name(s), stream=2 * e * scores, chained=((e * scores, 1.0),), launches=1, category=Category.ATTENTION),
        kernel(name(s), strided=scores, moved=2 * e * scores, launches=1, category=Category.ATTENTION),
        kernel(name(s), stream=2 * e * scores, chained=((e * scores, 1.0),), launches=1, category=Category.ATTENTION),
        gemm(name(s), "", "forward", batch=batch * heads, m=length, n=values.shape[3], k=keys.shape[2], **both),  # type: ignore[arg-type]
    ]


def _math_backward(forward: list[Op]) -> list[Op]:
    """Two products for each one of forward, and the softmax's gradient: its product with the output, and itself."""
    return [again for op in forward for again in ([op, replace(op)] if op.kind == "gemm" else [op])]
