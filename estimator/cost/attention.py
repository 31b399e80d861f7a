"""Fused attention: a rate that falls for short sequences and narrow heads."""

from __future__ import annotations

from estimator.scenario.arrays import maximum
from estimator.scenario.units import Number


def attention_s(
    *,
    executed_flops: Number,
    bytes: Number,
    seq_len: Number,
    head_dim: float,
    flops_per_s: float,
    memory_bytes_per_s: float,
    half_length: float,
    half_width: float,
    share: float = 1.0,
    start_s: Number,
) -> Number:
    """Time of a fused attention kernel.

    t = start + max(FLOPs / rate, bytes / bandwidth), rate = share · reachable · D/(D + D0) / (1 + S0/S): half of the
    asymptotic rate is reached at a length of S0, and at a head width of D0, as narrow heads spend more on softmax.
    """
    rate = flops_per_s * head_dim / (head_dim + half_width) * share
    return start_s + maximum(executed_flops * (1.0 + half_length / seq_len) / rate, bytes / memory_bytes_per_s)
