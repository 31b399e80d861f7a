"""Dims: the plain numbers of one rank's share of a transformer, from which every op's size follows.

Degrees and sizes may be NumPy arrays; choices (style, attention, recompute) are branches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from estimator.arrays import maximum
from estimator.model import Model
from estimator.plan import Plan
from estimator.scenario import Scenario
from estimator.training import Training
from estimator.units import Number

FUSED_FRAMEWORKS = ("pytorch-compile", "megatron", "xla", "ideal")
VOCAB_PARALLEL_FRAMEWORKS = ("megatron", "xla", "ideal")
MASTER_WEIGHT_FRAMEWORKS = ("megatron", "xla")


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Widths in bytes of what a precision keeps, and whether autocast casts between them.

    ``compute``: operands of matrix products; ``residual``: the stream between blocks; ``state``: parameters,
    gradients and each Adam moment as the framework keeps them; ``peak``: which peak the products run at.
    """

    compute: float
    residual: float
    parameter: float
    gradient: float
    optimizer: float
    autocast: bool
    peak: str


def numbers(training: Training, plan: Plan) -> Numbers:
    """Tell how wide each kind of number is.

    - fp32, tf32: everything 4 bytes. bf16: everything 2, as plain PyTorch keeps it.
    - fp16-amp, bf16-amp under DDP or ZeRO-1/2: fp32 parameters and residual stream, autocast at every linear.
    - the same under ZeRO-3/FSDP: FSDP's mixed precision: fp32 shards, gathered and computed in 2 bytes.
    - megatron, xla: 2-byte parameters and residual, fp32 main gradients, fp32 master weights and moments.
    """
    precision = training.precision
    if precision in ("fp32", "tf32"):
        return Numbers(
            compute=4, residual=4, parameter=4, gradient=4, optimizer=8, autocast=False, peak=training.precision
        )
    if training.framework in MASTER_WEIGHT_FRAMEWORKS:
        return Numbers(compute=2, residual=2, parameter=2, gradient=4, optimizer=12, autocast=False, peak=precision)
    if precision == "bf16" or training.framework == "ideal":
        return Numbers(compute=2, residual=2, parameter=2, gradient=2, optimizer=4, autocast=False, peak=precision)
    if plan.sharding in ("zero3", "fsdp"):
        return Numbers(compute=2, residual=2, parameter=4, gradient=4, optimizer=8, autocast=False, peak=precision)
    return Numbers(compute=2, residual=4, parameter=4, gradient=4, optimizer=8, autocast=True, peak=precision)


@dataclass(frozen=True, kw_only=True)
class Dims:
    """One rank's sizes for one micro-batch: ``tokens`` = micro_batch · seq_len, widths already divided by tp.

    ``stream_tokens`` is the rank's share of tokens outside attention and FFN: tokens / tp under sequence
    parallelism, else tokens. ``multi_tensor``: the optimizer runs over all tensors at once, as PyTorch does on GPUs.
    """

    tokens: Number
    stream_tokens: Number
    sequences: Number
    seq_len: Number
    hidden: Number
    heads: Number
    head_dim: Number
    query_width: Number
    kv_width: Number
    ffn: Number
    vocab: Number
    full_vocab: Number
    positions: Number
    tp: Number
    numbers: Numbers
    model: Model
    training: Training
    recompute: str
    fused: bool
    multi_tensor: bool
    fused_projections: bool
    causal: bool = True


def dims(scenario: Scenario, **arrays: Any) -> Dims:
    """Collect the sizes of a scenario; ``arrays`` may replace ``tp``, ``micro_batch`` and ``seq_len`` by arrays."""
    model, plan, training = scenario.model, scenario.plan, scenario.training
    tp: Number = arrays.get("tp", plan.tp)
    micro_batch: Number = arrays.get("micro_batch", plan.micro_batch)
    seq_len: Number = arrays.get("seq_len", training.seq_len)
    tokens = micro_batch * seq_len
    fused = training.compile or training.framework in FUSED_FRAMEWORKS
    split_vocab = training.framework in VOCAB_PARALLEL_FRAMEWORKS
    return Dims(
        tokens=tokens,
        stream_tokens=tokens / tp if plan.sequence_parallel else tokens,
        sequences=micro_batch,
        seq_len=seq_len,
        hidden=model.hidden,
        heads=model.heads / tp,
        head_dim=model.dim,
        query_width=model.query_width / tp,
        # Where tp exceeds the key/value heads, ranks hold copies: no rank has less than one head.
        kv_width=maximum(model.kv / tp, 1.0) * model.dim,
        ffn=model.ffn / tp,
        vocab=model.vocab / tp if split_vocab else model.vocab,
        full_vocab=model.vocab,
        positions=(model.max_positions or seq_len) if model.position == "learned" else 0,
        tp=tp,
        numbers=numbers(training, plan),
        model=model,
        training=training,
        recompute=plan.recompute,
        fused=fused,
        multi_tensor=scenario.cluster.chip.kind != "cpu",
        fused_projections=training.framework in ("megatron", "xla", "ideal") or model.position != "rope",
    )
