"""Attention: rows that are the kernels of one attention, forward and backward, by implementation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from estimator.cost.price import price
from estimator.operations.attention import core
from estimator.operations.op import Op, gemm, kernels
from estimator.operations.rank_sizes import rank_sizes
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


NARROWEST = {"ampere": 128, "hopper": 32}
"""Columns of the narrowest tile that cuBLAS multiplies in fp32 without tensor cores, by the family of chips: on an A100
attention of 16 columns takes no less for its products of that width than one of 128, on an H200 no less than one of 32.
"""


def attention_row(row: Mapping[str, Any], place: TableDevice) -> dict[str, float]:
    """Predict a row of ``attention``: device time of its kernels, which the host has launched before they begin."""
    name, precision = word(row, "implementation"), word(row, "precision")
    precision = PRECISIONS.get(precision, precision)
    chip, phases = place.hardware, WHOLE.get(word(row, "pass"), ())
    if precision not in PEAK_FIELD:
        return {}
    heads, dim, batch, length = (whole(row, column) for column in ("heads", "head_dim", "batch", "seq_len"))
    fused, causal = FUSED_CPU if chip.kind == "cpu" else FUSED, bool(row.get("causal"))
    if name == "naive":
        ops = naive_ops(batch * heads, length, dim, precision, causal=causal, tile=tile_columns(place, precision))
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


def tile_columns(place: TableDevice, precision: str) -> int:
    """How many columns a product without tensor cores is made wider to; 1 where nothing is known of it."""
    return NARROWEST.get(place.hardware.efficiency, 1) if precision == "fp32" else 1


def naive_ops(
    batch: int, length: int, dim: int, precision: str, *, causal: bool, compiled: bool = False, tile: int = 1,
    written_out: bool = False, of_queries: bool = False,
) -> list[Op]:  # fmt: skip
    """Scores, scale, mask where causal, softmax and product, each a kernel over the whole square of ``batch`` heads.

    Scale and softmax read and write it; the backward of softmax reads two of it and writes one, that of the scale reads
    and writes it. Masking copies it and fills the copy by a mask that is broadcast over the heads, in backward too.
    Compiled, all of them are one kernel each way. ``tile``: narrower products take as long as one of so many columns.

    ``written_out``: softmax as maximum, difference, exponential, sum and quotient, 10 passes over the square with the
    scale; autograd goes over it 29 times (the quotient's two gradients 12, the sum's 3, the exponential's 3, the
    maximum's 4, the difference's 3, the scale's 2, what joins them 2). ``of_queries``: of the inputs only they ask for
    a gradient.
    """
    element = 4.0 if precision in ("fp32", "tf32") else 2.0

    def product(phase: str, columns: int, inner: int) -> Op:
        return gemm("product", "attention", phase, m=length, n=max(columns, tile), k=inner, batch=batch,
                    element_bytes=element, precision=precision, category=Category.ATTENTION)  # fmt: skip

    def passes(phase: str, tensors: int) -> Op:
        masks, square = int(causal and not compiled), float(batch) * length * length
        return kernels("passes", "attention", phase, elements=square, stream=(tensors + 2 * masks) * element,
                       strided=float(masks), launches=1 if compiled else 2 + 2 * masks)  # fmt: skip

    forward, backward = (10, 29) if written_out else (2, 3) if compiled else (4, 5)
    values_and_keys = () if of_queries else ((dim, length), (dim, length))
    return [
        product("forward", length, dim),
        passes("forward", forward),
        product("forward", dim, length),
        *(product("backward", *shape) for shape in ((length, dim), (dim, length), *values_and_keys)),
        passes("backward", backward),
    ]


def recomputed_backward_ops(batch: int, length: int, dim: int, precision: str, *, tile: int = 1) -> list[Op]:
    """Backward of fused attention in compiled PyTorch: the square is computed again, in fp32, and gone over.

    Five products of which each writes or reads it, the exponential that reads and writes it, and the gradient of the
    scores, which reads two and writes one.
    """

    def product(columns: int, inner: int) -> Op:
        return gemm("product", "attention", "backward", m=length, n=max(columns, tile), k=inner, batch=batch,
                    element_bytes=4.0, precision=precision, category=Category.ATTENTION)  # fmt: skip

    square = float(batch) * length * length
    across = (product(length, dim), product(dim, length), product(length, dim))
    passes = kernels("passes", "attention", "backward", elements=square, stream=5 * 4.0, launches=2)
    return [*across, product(dim, length), product(dim, length), passes]
