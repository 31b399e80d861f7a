"""Attention: rows that are the kernels of one attention, forward and backward, by implementation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from estimator.cost.price import price
from estimator.operations.attention import core
from estimator.operations.op import Op, gemm, kernels
from estimator.operations.rank_sizes import rank_sizes
from estimator.scenario import catalog
from estimator.scenario.breakdown import Category
from estimator.scenario.hardware import PEAK_FIELD
from estimator.validation.predicted_rows.device import TableDevice, whole, word

FUSED = {"sdpa-cudnn": "sdpa", "triton": "sdpa", "sdpa-flash": "flash"}
"""Which attention of the estimator an implementation is: torch's best kernel (and ours, which keeps up with it), or
FlashAttention-2 as published."""
FUSED_CPU = {"sdpa-flash": "sdpa"}
"""Of a CPU torch has one fused kernel, which it takes by itself."""
PRECISIONS = {"fp16": "bf16"}
"""Both have the same width and the same peak."""
WHOLE = {"forward": ("forward",), "backward": ("backward",), "both": ("forward", "backward")}


def attention_row(row: Mapping[str, Any], place: TableDevice) -> dict[str, float]:
    """Predict a row of ``attention``: device time of its kernels, which the host has launched before they begin."""
    name, precision = word(row, "implementation"), word(row, "precision")
    precision = PRECISIONS.get(precision, precision)
    chip, phases = catalog.chip(place.chip), WHOLE.get(word(row, "pass"), ())
    if precision not in PEAK_FIELD:
        return {}
    heads, dim, batch, length = (whole(row, column) for column in ("heads", "head_dim", "batch", "seq_len"))
    fused, causal = FUSED_CPU if chip.kind == "cpu" else FUSED, bool(row.get("causal"))
    if name == "naive":
        ops = naive_ops(batch * heads, length, dim, precision, causal=causal)
    elif name in fused and (precision == "bf16" or chip.kind == "cpu"):
        ops = fused_ops(place, batch, heads, length, dim, precision, fused[name], causal=causal)
    else:
        return {}
    seconds = sum(float(price(op, chip, place.efficiencies).seconds) for op in ops if op.phase in phases)
    return {"median_s": seconds} if seconds else {}


def fused_ops(
    place: TableDevice, batch: int, heads: int, length: int, dim: int, precision: str, attention: str, *, causal: bool
) -> list[Op]:
    """Forward and backward kernels of fused attention of so many sequences and heads."""
    model = {"network": "attention", "layers": 1, "hidden": heads * dim, "heads": heads, "ffn": 1, "vocab": 1}
    training = {"seq_len": length, "global_batch": batch, "precision": precision, "attention": attention}
    ops = core(rank_sizes(place.scenario(model, {"micro_batch": batch}, training)))
    return [op if causal else replace(op, visible_frac=1.0) for op in ops if op.kind == "attention"]


def naive_ops(batch: int, length: int, dim: int, precision: str, *, causal: bool, compiled: bool = False) -> list[Op]:
    """Scores, scale, mask where causal, softmax and product, each a kernel over the whole square of ``batch`` heads.

    Scale and softmax read and write it; the backward of softmax reads two of it and writes one, that of the scale reads
    and writes it. Masking copies it and fills the copy by a mask that is broadcast over the heads, in backward too.
    Compiled, all of them are one kernel each way.
    """
    element = 4.0 if precision in ("fp32", "tf32") else 2.0

    def product(phase: str, columns: int, inner: int) -> Op:
        return gemm("product", "attention", phase, m=length, n=columns, k=inner, batch=batch, element_bytes=element,
                    precision=precision, category=Category.ATTENTION)  # fmt: skip

    def passes(phase: str, tensors: int) -> Op:
        masks, square = int(causal and not compiled), float(batch) * length * length
        return kernels("passes", "attention", phase, elements=square, stream=(tensors + 2 * masks) * element,
                       strided=float(masks), launches=1 if compiled else 2 + 2 * masks)  # fmt: skip

    return [
        product("forward", length, dim),
        passes("forward", 2 if compiled else 4),
        product("forward", dim, length),
        *(product("backward", *shape) for shape in ((length, dim), (dim, length), (dim, length), (dim, length))),
        passes("backward", 3 if compiled else 5),
    ]
