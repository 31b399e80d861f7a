"""Rows of attention: FLOPs, the causal half, and the passes over the square."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.scenario import catalog
from estimator.validation.predicted_rows.attention import attention_row
from estimator.validation.predicted_rows.device import TableDevice

ROW = {
    "implementation": "sdpa-cudnn", "precision": "bf16", "batch": 16, "heads": 16, "seq_len": 16_384, "head_dim": 128,
    "causal": False, "pass": "forward",
}  # fmt: skip


def seconds(**changes) -> float:
    return attention_row({**ROW, **changes}, TableDevice(chip="h200-sxm", ranks=1))["median_s"]


def test_a_causal_kernel_computes_half_of_the_square():
    assert seconds(causal=True) == pytest.approx(seconds() / 2, rel=0.02)


def test_both_is_forward_and_backward():
    for name in ("sdpa-flash", "naive"):
        parts = (seconds(implementation=name, **{"pass": one}) for one in ("forward", "backward"))
        assert seconds(implementation=name, **{"pass": "both"}) == pytest.approx(sum(parts))


def test_no_kernel_beats_the_chip():
    flops = 4.0 * 16 * 16 * 16_384**2 * 128
    assert flops / seconds() < 989e12
    moved = 2.0 * 16 * 16 * 16_384**2 * 6
    assert seconds(implementation="naive") > moved / 4.8e12


def test_a_mask_costs_naive_attention_two_more_passes():
    square = 2.0 * 16 * 16 * 16_384**2
    assert seconds(implementation="naive", causal=True) - seconds(implementation="naive") > 2 * square / 4.8e12


def test_what_is_not_priced_is_empty():
    at = TableDevice(chip="h200-sxm", ranks=1)
    for changes in ({"implementation": "compiled"}, {"implementation": "sdpa-math"}, {"precision": "fp32"}):
        assert attention_row({**ROW, **changes}, at) == {}
    assert attention_row({**ROW, "implementation": "naive", "precision": "fp32"}, at)


def test_a_cpu_has_one_fused_kernel_in_every_precision(monkeypatch):
    on_gpu_s = seconds()
    chip = replace(catalog.chip("h200-sxm"), kind="cpu")
    monkeypatch.setattr(catalog, "chip", lambda name: chip)
    at = TableDevice(chip="h200-sxm", ranks=1)
    row = {**ROW, "implementation": "sdpa-flash"}
    assert attention_row(row, at)["median_s"] == on_gpu_s
    assert attention_row({**row, "precision": "fp32"}, at)["median_s"] > on_gpu_s
    assert attention_row({**row, "implementation": "sdpa-cudnn"}, at) == {}
