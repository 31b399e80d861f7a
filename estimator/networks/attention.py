"""Attention core: from q, k, v to the weighted values, with or without the score matrix in memory."""

from __future__ import annotations

from dataclasses import replace

from estimator.networks import pieces
from estimator.networks.dims import Dims
from estimator.networks.pieces import Piece
from estimator.ops import Op, gemm, kernels
from estimator.units import Number

RATES = {"sdpa": "attention_frac", "flash": "attention_flash_frac", "flash1": "attention_flash1_frac"}


def core(d: Dims) -> list[Op]:
    """Return forward and backward ops between the projections: fused attention, or eager with S² scores."""
    return _eager(d) if d.training.attention == "eager" else _fused(d)


def _fused(d: Dims) -> list[Op]:
    """Fused attention (Dao 2023, arXiv 2307.08691): 4·S²·D per head forward, 2.5 times that backward; no S² memory.

    FLOPs are counted over the full square, as torch's counter does; the kernel skips what causality masks.
    """
    n, e = d.numbers, d.numbers.compute
    batch = d.sequences * d.heads
    width = d.tokens * (2 * d.query_width + 2 * d.kv_width) * e
    square = 4.0 * batch * d.seq_len * d.seq_len * d.head_dim
    statistics = 4.0 * batch * d.seq_len
    forward = Op(
        name="attention",
        layer="layer",
        phase="forward",
        category="attention",
        kind="attention",
        batch=batch,
        m=d.seq_len,
        n=d.seq_len,
        k=d.head_dim,
        flops=square,
        bytes=width + statistics,
        saved_bytes=width + statistics,
        precision=n.peak,
        efficiency=RATES[d.training.attention],
    )
    backward = replace(
        forward,
        name="attention gradient",
        phase="backward",
        flops=2.5 * square,
        bytes=2.5 * width + statistics,
        launches=3.0,
        saved_bytes=0.0,
    )
    ops = [forward, backward]
    if n.autocast and d.model.position == "rope":
        # Rotary tables are fp32, so q and k arrive in fp32 and are cast again; their gradients are cast back.
        elements = d.tokens * (d.query_width + d.kv_width)
        ops += _both("q, k casts", elements, Piece(stream=6, launches=2), Piece(strided=1, slow_bytes=6, launches=2))
    return ops


def _eager(d: Dims) -> list[Op]:
    """Scores, softmax and weighted values as separate kernels; the S² matrices live in memory."""
    n, e = d.numbers, d.numbers.compute
    batch = d.sequences * d.heads
    scores = batch * d.seq_len * d.seq_len
    heads_bytes = d.tokens * d.query_width * e
    size = {"batch": batch, "element_bytes": e, "precision": n.peak, "category": "attention"}
    s, width = d.seq_len, d.head_dim
    ops = [
        gemm("scores", "layer", "forward", m=s, n=s, k=width, saved_bytes=2 * heads_bytes, **size),  # type: ignore[arg-type]
        gemm("values", "layer", "forward", m=s, n=width, k=s, saved_bytes=heads_bytes, **size),  # type: ignore[arg-type]
        gemm("values gradient: scores", "layer", "backward", m=s, n=s, k=width, **size),  # type: ignore[arg-type]
        gemm("values gradient: v", "layer", "backward", m=s, n=width, k=s, **size),  # type: ignore[arg-type]
        gemm("scores gradient: q", "layer", "backward", m=s, n=width, k=s, **size),  # type: ignore[arg-type]
        gemm("scores gradient: k", "layer", "backward", m=s, n=width, k=s, **size),  # type: ignore[arg-type]
    ]
    ops += _both("softmax", scores, *pieces.softmax(d), category="attention")
    if not d.fused:
        # q, k, v become contiguous per head (k and v repeated to all heads), and the result goes back.
        copies = Piece(strided=4, slow_bytes=8 * e, launches=4, saved=e)
        ops += _both("head copies", d.tokens * d.query_width, copies, Piece(strided=4, slow_bytes=8 * e, launches=4))
    else:
        ops += _both("head copies", d.tokens * d.query_width, Piece(launches=0, saved=e), Piece(launches=0))
    if n.autocast and d.model.position == "rope":
        elements = d.tokens * (d.query_width + d.kv_width)
        ops += _both("q, k casts", elements, Piece(stream=6, launches=2), Piece(strided=1, slow_bytes=6, launches=2))
    return ops


def _both(name: str, elements: Number, forward: Piece, backward: Piece, category: str = "elementwise") -> list[Op]:
    return pair(name, "layer", elements, forward, backward, category)


def pair(
    name: str, layer: str, elements: Number, forward: Piece, backward: Piece, category: str = "elementwise"
) -> list[Op]:
    """Turn a piece's two phases into ops over ``elements``."""
    return [
        kernels(
            name if phase == "forward" else f"{name} gradient",
            layer,
            phase,
            elements=elements,
            stream=piece.stream,
            strided=piece.strided,
            mixed=piece.mixed,
            slow_bytes=piece.slow_bytes,
            launches=piece.launches,
            saved_bytes=piece.saved * elements,
            flops_per_element=piece.flops,
            category=category,
        )
        for phase, piece in (("forward", forward), ("backward", backward))
    ]
