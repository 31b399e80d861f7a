"""Update: bytes that the optimizer's kernels move, and the sums over micro-batches."""

import pytest

from estimator.operations.op import Op
from estimator.operations.optimizer import gradient_accumulation, optimizer
from estimator.operations.rank_sizes import rank_sizes
from tests.estimator.examples import GPT, scenario


def adamw(framework: str, **training) -> Op:
    d = rank_sizes(scenario(GPT, framework=framework, **training))
    (op,) = optimizer(d.training, d.widths, 1e6, 10.0, multi_tensor=True)
    return op


def test_the_optimizer_moves_what_its_kernels_touch():
    # Foreach AdamW in bf16: 20 accesses of 2 bytes. One fused pass: parameter, gradient, two moments in; all but the
    # gradient out. Megatron: fp32 master, two moments and gradient in, three out, 2-byte copy, norm and scale.
    assert adamw("pytorch-eager").bytes == 40e6
    assert adamw("pytorch-eager", precision="fp32").bytes == 80e6
    assert adamw("ideal").bytes == 7 * 2e6
    assert adamw("megatron").bytes == 38e6
    assert adamw("pytorch-eager", optimizer="sgd").bytes == 6e6
    # Parameter and gradient as wide as they are; both moments read and written, a byte each and their scales.
    assert adamw("pytorch-eager", optimizer="adamw-8bit").bytes == 10e6
    assert adamw("ideal", optimizer="adamw-8bit").bytes == pytest.approx((3 * 2 + 4) * 1e6, rel=2e-3)
    assert adamw("pytorch-eager", optimizer="adafactor").launches == 14 * 10
    # Parameter and the rest of its master in and out, the gradient and its norm; both moments of 2 bytes turned to fp32
    # (2 + 4), read and written (4 + 4), narrowed (4 + 2) and copied back (2 + 2).
    assert adamw("pytorch-eager", optimizer="adamw-bf16").bytes == 14e6
    assert adamw("megatron", optimizer="adamw-bf16").bytes == (4 + 4 + 4 + 2 * (6 + 8 + 6 + 4)) * 1e6


def test_accumulating_reads_both_and_writes_one():
    d = rank_sizes(scenario(GPT, precision="bf16-amp"))
    (op,) = gradient_accumulation(d.training, d.widths, 1e6, 10.0)
    assert op.bytes == 3 * 4e6
    fused = rank_sizes(scenario(GPT, framework="megatron"))
    assert gradient_accumulation(fused.training, fused.widths, 1e6, 10.0) == []
