"""Layer tensors: what one op reads, writes and owns, as tensors of the model rather than as traffic of its kernels."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.operations.moe import routed_rows
from estimator.operations.op import Op
from estimator.operations.rank_sizes import RankSizes
from estimator.scenario.parameters import final_norm_parameters
from estimator.scenario.units import Number


@dataclass(frozen=True, kw_only=True, slots=True)
class Tensors:
    """Bytes on this rank per micro-batch; None where an op has no one tensor of that kind, or where it is not known."""

    in_bytes: Number | None
    out_bytes: Number | None
    weight_elements: Number = 0.0


def tensors_of(d: RankSizes, op: Op, *, trained: bool) -> Tensors:
    """Return the tensors of a forward op; ``trained``: the op has a weight (it has a weight gradient).

    A product: m·k in, m·n out and, where trained, k·n weights; else both operands are activations. On a grid a product
    runs in steps over panels, each as large as the rank's own blocks; in 3D over rows gathered from q ranks.
    """
    if op.kind == "gemm":
        return _product(d, op, trained)
    width = d.widths.compute
    if op.kind == "attention":
        read = d.tokens * (d.query_width + d.key_width + d.value_width)
        return Tensors(in_bytes=read * width, out_bytes=d.tokens * d.core_width * width)
    found = _elements(d).get(op.name)
    if found is None:
        return Tensors(in_bytes=None, out_bytes=None)
    (read, read_width), (written, written_width), weights = found
    return Tensors(in_bytes=read * read_width, out_bytes=written * written_width, weight_elements=weights)


def _product(d: RankSizes, op: Op, trained: bool) -> Tensors:
    width = d.widths.compute
    whole = op.name.startswith("expert ") or op.name in WHOLE
    steps, gather = (1.0, 1.0) if whole or not trained else (d.steps, d.row_gather)
    times = op.count / steps
    rows = op.m / gather
    weights = op.batch * op.k * op.n
    read = op.batch * rows * op.k
    return Tensors(
        in_bytes=(read if trained else read * times + weights * times) * width,
        out_bytes=op.batch * rows * op.n * times * width,
        weight_elements=weights * times / gather if trained else 0.0,
    )


WHOLE = ("router", "shared gate", "q down projection", "kv down projection")
"""Linears whose whole weight every rank of tp holds."""

Sized = tuple[Number, float]


def _elements(d: RankSizes) -> dict[str, tuple[Sized, Sized, Number]]:
    """Elements in and out with their bytes each, and weights, of kernels that have one tensor in and one out."""
    model, e, residual = d.model, d.widths.compute, d.widths.residual
    stream = d.stream_tokens * d.hidden
    per_norm = d.hidden_width * (2 if model.norm == "layer" else 1)
    routed = routed_rows(d) * d.expert_ffn if model.experts else 0.0
    latents = {"q latent norm": model.q_lora_rank, "kv latent norm": model.kv_lora_rank}
    heads = d.tokens * (d.query_width + d.key_width)
    up = 2 if model.gated_ffn else 1
    norm: tuple[Sized, Sized, Number] = ((stream, residual), (stream, e), per_norm)
    added: tuple[Sized, Sized, Number] = ((2 * stream, residual), (stream, residual), 0.0)
    embedding = d.tokens * d.hidden_width
    table = (d.vocab + d.positions) * d.hidden_width / d.row_gather
    return {
        **dict.fromkeys(("attention norm", "attention output norm", "ffn norm", "ffn output norm"), norm),
        "final norm": ((stream, residual), (stream, e), final_norm_parameters(model)),
        **dict.fromkeys(("attention residual", "ffn residual"), added),
        "q, k norm": ((heads, e), (heads, e), 2.0 * model.dim),
        "rotary positions": ((heads, e), (heads, e), 0.0),
        "softmax": ((d.scores, e), (d.scores, e), 0.0),
        "activation": ((up * d.tokens * d.ffn, e), (d.tokens * d.ffn, e), 0.0),
        "shared activation": ((up * d.tokens * d.shared_ffn, e), (d.tokens * d.shared_ffn, e), 0.0),
        "expert activation": ((up * routed, e), (routed, e), 0.0),
        **{
            name: ((d.stream_tokens * width, e), (d.stream_tokens * width, e), width) for name, width in latents.items()
        },
        "embedding": ((d.tokens, 8.0), (embedding, residual), table),
        "cross-entropy": ((d.tokens * d.vocab, e), (d.tokens, 4.0), 0.0),
    }
