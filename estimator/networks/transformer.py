"""Transformer: the ops of one rank for one block, the embedding, the head, and the optimizer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from estimator.networks import attention, pieces
from estimator.networks.attention import pair
from estimator.networks.dims import MASTER_WEIGHT_FRAMEWORKS, Dims
from estimator.networks.linear import linear
from estimator.ops import Op, again, kernels
from estimator.units import Number

CORE_OPS = ("attention", "q, k casts", "scores", "softmax", "values", "head copies")
"""Forward ops that selective recomputation runs again (Korthikanti 2022, arXiv 2205.05198, section 5)."""

BLOCK_END = ("down projection", "ffn residual")
CORE_END = ("values",)


@dataclass(frozen=True, kw_only=True)
class NetworkOps:
    """Ops per execution: of one block, of the first stage's embedding, of the last stage's head."""

    layer: tuple[Op, ...]
    embedding: tuple[Op, ...]
    head: tuple[Op, ...]


def network(d: Dims) -> NetworkOps:
    """Return every op that one micro-batch needs on one rank."""
    return NetworkOps(layer=tuple(_recomputed(d, block(d))), embedding=tuple(embedding(d)), head=tuple(head(d)))


def block(d: Dims) -> list[Op]:
    """Return forward and backward ops of one block, without recomputation."""
    model, n = d.model, d.numbers
    stream = d.stream_tokens * d.hidden
    qkv = d.query_width + 2 * d.kv_width
    up_count = 2 if model.gated_ffn else 1
    bias_qkv = model.bias or model.qkv_bias
    ops = pair("attention norm", "layer", stream, *pieces.norm(d, n.residual))
    if d.fused_projections:
        ops += linear(d, "qkv projection", "layer", inputs=d.hidden, outputs=qkv, bias=bias_qkv,
                      kept_tokens=d.stream_tokens)  # fmt: skip
    else:
        ops += linear(
            d,
            "q projection",
            "layer",
            inputs=d.hidden,
            outputs=d.query_width,
            bias=bias_qkv,
            kept_tokens=d.stream_tokens,
        )
        ops += linear(
            d,
            "k, v projections",
            "layer",
            inputs=d.hidden,
            outputs=2 * d.kv_width,
            projections=2,
            bias=bias_qkv,
            saves_input=n.autocast,
            input_copies=2,
            kept_tokens=d.stream_tokens,
        )
        ops.append(
            kernels(
                "qkv gradient sum",
                "layer",
                "backward",
                elements=d.tokens * d.hidden,
                stream=3 * (n.residual if n.autocast else n.compute),
                flops_per_element=1,
            )
        )
    if model.qk_norm:
        ops += pair(
            "q, k norm", "layer", d.tokens * (d.query_width + d.kv_width), *_twice(pieces.rms_norm(d, n.compute))
        )
    if model.position == "rope":
        ops += pair("rotary positions", "layer", d.tokens * (d.query_width + d.kv_width), *pieces.rope(d))
    ops += attention.core(d)
    # The fused core's output is what the projection keeps; it is counted there.
    ops += linear(
        d,
        "output projection",
        "layer",
        inputs=d.query_width,
        outputs=d.hidden,
        bias=model.bias,
        saves_input=False,
        input_copies=0,
    )
    ops += pair("attention residual", "layer", stream, *pieces.residual(d))
    ops += pair("ffn norm", "layer", stream, *pieces.norm(d, n.residual))
    ops += linear(
        d,
        "gate, up projections" if model.gated_ffn else "up projection",
        "layer",
        inputs=d.hidden,
        outputs=up_count * d.ffn,
        projections=1 if d.fused_projections else up_count,
        bias=model.bias,
        input_copies=1 if d.fused_projections else up_count,
        kept_tokens=d.stream_tokens,
    )
    ops += pair("activation", "layer", d.tokens * d.ffn, *pieces.activation(d))
    ops += linear(
        d,
        "down projection",
        "layer",
        inputs=d.ffn,
        outputs=d.hidden,
        bias=model.bias,
        saves_input=False,
        input_copies=1 if n.autocast and _wide_activation(d) else 0,
    )
    ops += pair("ffn residual", "layer", stream, *pieces.residual(d))
    return ops


def embedding(d: Dims) -> list[Op]:
    """Return the token (and position) look-up; backward scatters into a zeroed gradient of the whole table."""
    n, elements = d.numbers, d.tokens * d.hidden
    lookups = 2 if d.model.position == "learned" else 1
    width = n.parameter if n.autocast else n.residual
    table = (d.vocab + d.positions) * d.hidden
    return [
        kernels("embedding", "embedding", "forward", elements=elements, stream=(2 * lookups + lookups - 1) * width,
                launches=2 * lookups - 1.0),
        kernels("embedding gradient", "embedding", "backward", elements=elements, stream=2 * width * lookups,
                launches=8.0 * lookups),
        kernels("embedding gradient table", "embedding", "backward", elements=table, stream=width,
                launches=lookups * 1.0),
    ]  # fmt: skip


def head(d: Dims) -> list[Op]:
    """Return the final norm, the logits and the loss."""
    n = d.numbers
    ops = pair("final norm", "head", d.stream_tokens * d.hidden, *pieces.norm(d, n.residual))
    aligned = d.model.vocab * n.compute % 16 == 0
    ops += linear(d, "logits", "head", inputs=d.hidden, outputs=d.vocab, aligned=aligned)
    ops += pair("cross-entropy", "head", d.tokens * d.vocab, *pieces.cross_entropy(d))
    return ops


ADAMW_ACCESSES = 21
"""Accesses per parameter of foreach AdamW: decay 2, lerp 3, scale 2, addcmul 4, sqrt 2, div 2, + eps 2, addcdiv 4."""
ADAMW_PASSES = 8
FOREACH_ELEMENTS_PER_LAUNCH = 320 * 65536
"""torch's multi-tensor kernels take at most 320 chunks of 65 536 elements in one launch."""


def optimizer(d: Dims, parameters: Number, tensors: Number) -> list[Op]:
    """Return the optimizer step over this rank's ``parameters`` in ``tensors`` tensors (once per step)."""
    n, adam = d.numbers, d.training.optimizer == "adamw"
    if d.training.framework in MASTER_WEIGHT_FRAMEWORKS:
        # One fused pass over fp32 weights, main gradients and moments, the 2-byte copy, and the gradients' norm.
        stream = (28.0 if adam else 12.0) + (2.0 if n.parameter == 2 else 0.0) + 8.0
        launches = 4.0 + tensors / 100.0
    elif d.training.framework == "ideal":
        stream, launches = (7 if adam else 3) * n.parameter, 0.0
    else:
        passes = ADAMW_PASSES if adam else 1
        stream = (ADAMW_ACCESSES if adam else 3) * n.parameter
        launches = passes * (1 + parameters / FOREACH_ELEMENTS_PER_LAUNCH) if d.multi_tensor else passes * tensors
    return [
        kernels(
            d.training.optimizer,
            "optimizer",
            "optimizer",
            elements=parameters,
            stream=stream,
            launches=launches,
            flops_per_element=12 if adam else 2,
            category="optimizer",
        )
    ]


def gradient_accumulation(d: Dims, parameters: Number, tensors: Number) -> list[Op]:
    """Return the adds of one more micro-batch's gradients: two reads and a write each; fused into Megatron's GEMMs."""
    if d.training.framework == "megatron":
        return []
    return [
        kernels(
            "gradient accumulation",
            "optimizer",
            "backward",
            elements=parameters,
            stream=3 * d.numbers.gradient,
            launches=tensors,
            flops_per_element=1,
        )
    ]


def _recomputed(d: Dims, ops: list[Op]) -> list[Op]:
    """Add the forward ops that backward runs again, and drop what then need not be kept."""
    if d.recompute == "none":
        return ops
    forward = [op for op in ops if op.phase == "forward"]
    backward = [op for op in ops if op.phase == "backward"]
    if d.recompute == "full":
        kept = kernels("block input", "layer", "forward", elements=d.stream_tokens * d.hidden, launches=0.0,
                       saved_bytes=d.stream_tokens * d.hidden * d.numbers.residual)  # fmt: skip
        redone = [
            op for op in forward if not op.name.endswith("weight cast") and op.name not in _not_redone(d, BLOCK_END)
        ]
        return [kept, *map(_unsaved, forward), *map(again, redone), *backward]
    # Selective: the core's inputs and output are kept, its inside is not.
    e = d.numbers.compute
    kept_bytes = d.tokens * (2 * d.query_width + 2 * d.kv_width) * e
    kept = kernels("q, k, v, output", "layer", "forward", elements=d.tokens, launches=0.0, saved_bytes=kept_bytes)
    inside = [op for op in forward if op.name in CORE_OPS and op.name not in _not_redone(d, CORE_END)]
    outside = [op if op.name not in CORE_OPS else _unsaved(op) for op in forward]
    return [kept, *outside, *map(again, inside), *backward]


def _not_redone(d: Dims, end: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ops after the last kept tensor: PyTorch's checkpoint stops there, Megatron's runs to the end."""
    return () if d.training.framework in ("megatron", "xla") else end


def _unsaved(op: Op) -> Op:
    return replace(op, saved_bytes=0.0)


def _twice(both: tuple[pieces.Piece, pieces.Piece]) -> tuple[pieces.Piece, pieces.Piece]:
    return tuple(replace(piece, launches=2 * piece.launches) for piece in both)  # type: ignore[return-value]


def _wide_activation(d: Dims) -> bool:
    """Whether the activation leaves fp32 under autocast, so that the down projection casts its input."""
    return d.model.activation == "gelu-tanh" and not d.model.gated_ffn and not d.fused
