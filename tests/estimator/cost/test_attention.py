"""Fused attention: a rate that saturates with the sequence and the head's width."""

import pytest

from estimator.cost.attention import attention_s

HALF_WIDTH = 60.0


def seconds(**changes) -> float:
    given = {
        "executed_flops": 1e12, "bytes": 0.0, "seq_len": 4096, "head_dim": 128.0, "flops_per_s": 1e12,
        "memory_bytes_per_s": 1e12, "half_length": 500.0, "half_width": HALF_WIDTH,
        "start_s": 0.0,
    }  # fmt: skip
    return attention_s(**{**given, **changes})


def test_long_sequences_reach_the_rate_of_the_heads_width():
    assert seconds(seq_len=1e12) == pytest.approx((128 + HALF_WIDTH) / 128)


def test_half_the_rate_at_the_half_length():
    assert seconds(seq_len=500) == pytest.approx(2 * seconds(seq_len=1e12))


def test_half_the_rate_at_the_half_width():
    assert seconds(head_dim=HALF_WIDTH, half_length=0.0) == pytest.approx(2.0)


def test_a_start_is_added():
    assert seconds(start_s=3e-6) - seconds() == pytest.approx(3e-6)


def test_the_slower_of_compute_and_memory_binds():
    assert seconds(bytes=1.0) == seconds(bytes=2.0)
    assert seconds(bytes=2e20) - seconds(bytes=1e20) == pytest.approx(
        seconds(bytes=1e20) - seconds(bytes=0.0), rel=1e-3
    )
