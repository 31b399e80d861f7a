"""Fused attention: a rate that falls for short sequences and narrow heads; backward is slower still."""

from __future__ import annotations

from estimator.scenario.arrays import maximum
from estimator.scenario.units import Number

HEAD_DIM_HALF = 60.0
"""Head width at which half of the asymptotic rate is reached: narrow heads spend relatively more on softmax.
From D = 64 and 128 on one H200 SXM (fused attention of torch 2.11, S = 2 048 to 32 768)."""

BACKWARD_HALF_FACTOR = 2.8
"""On matrix units backward needs this many times longer sequences than forward for the same share of its asymptote;
on vector units (fp32) it does not (same source)."""


def attention_s(
    *,
    executed_flops: Number,
    bytes: Number,
    seq_len: Number,
    head_dim: float,
    flops_per_s: float,
    memory_bytes_per_s: float,
    half_length: float,
    backward: bool,
    backward_frac: float,
    vector: bool,
    start_s: Number,
) -> Number:
    """Time of a fused attention kernel, forward or backward.

    t = start + max(FLOPs / rate, bytes / bandwidth), rate = reachable · D/(D + 60) / (1 + S0/S). Backward's asymptote
    is ``backward_frac`` of forward's and its S0, on matrix units, 2.8 times longer.
    """
    rate = flops_per_s * head_dim / (head_dim + HEAD_DIM_HALF)
    half = half_length
    if backward:
        rate *= backward_frac
        half *= 1.0 if vector else BACKWARD_HALF_FACTOR
    return start_s + maximum(executed_flops * (1.0 + half / seq_len) / rate, bytes / memory_bytes_per_s)
