"""Numbers: bytes of states and operands under every precision, framework and sharding."""

import pytest

from estimator.scenario.plan import Plan
from estimator.scenario.precision import byte_widths
from estimator.scenario.training import Training

STATES = [
    # precision, framework, sharding, bytes per parameter of (parameter, gradient, both moments and master), autocast
    ("fp32", "pytorch-eager", "ddp", (4, 4, 8), False),
    ("tf32", "pytorch-compile", "fsdp", (4, 4, 8), False),
    ("bf16", "pytorch-eager", "ddp", (2, 2, 4), False),
    ("bf16-amp", "pytorch-eager", "zero1", (4, 4, 8), True),
    ("fp16-amp", "pytorch-eager", "ddp", (4, 4, 8), True),
    ("bf16-amp", "pytorch-eager", "fsdp", (4, 4, 8), False),
    # Korthikanti 2022 and Narayanan 2021 count 18 bytes: fp16 parameter, fp32 gradient, fp32 master and moments.
    ("bf16", "megatron", "ddp", (2, 4, 12), False),
    ("fp16-amp", "megatron", "zero1", (2, 4, 12), False),
    ("bf16", "xla", "fsdp", (2, 4, 12), False),
]


@pytest.mark.parametrize(("precision", "framework", "sharding", "widths", "autocast"), STATES)
def test_bytes_of_states(precision, framework, sharding, widths, autocast):
    training = Training(seq_len=1, global_batch=1, precision=precision, framework=framework)
    n = byte_widths(training, Plan(sharding=sharding))
    assert (n.parameter, n.gradient, n.optimizer) == widths
    assert n.autocast == autocast
    assert n.compute == (4 if precision in ("fp32", "tf32") else 2)
    assert n.residual == (4 if autocast else n.compute)
    assert n.peak == precision
    assert (n.linear, n.linear_peak, n.quantised) == (n.compute, precision, False)


@pytest.mark.parametrize("framework", ["megatron", "pytorch-eager", "pytorch-compile"])
def test_fp8_keeps_what_bf16_keeps_and_multiplies_linears_in_one_byte(framework):
    low, high = (
        byte_widths(Training(seq_len=1, global_batch=1, precision=precision, framework=framework), Plan())
        for precision in ("fp8", "bf16")
    )
    for name in ("compute", "residual", "parameter", "gradient", "optimizer", "autocast", "peak"):
        assert getattr(low, name) == getattr(high, name), name
    assert (low.linear, low.linear_peak, low.quantised) == (1, "fp8", True)
