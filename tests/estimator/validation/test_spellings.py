"""Spellings: what tables call precisions, shardings, optimizers and chips, and a cell that says yes or no."""

from __future__ import annotations

import pytest

from estimator.scenario.plan import SHARDINGS as PLANNED
from estimator.scenario.training import PRECISIONS as MODELLED
from estimator.validation.spellings import PRECISIONS, SHARDINGS, chip_of, flag, optimizer_of, sharding_of
from tests.estimator.validation.rows import read


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("amp_bf16", "bf16-amp"),
        ("fp16", "fp16-amp"),
        ("BF16", "bf16"),
        ("float32", "fp32"),
        ("autocast", "bf16-amp"),
        ("float8", "fp8"),
        ("FP8 (current scaling)", "fp8"),
        ("BF16 + FP8", "fp8"),
        ("fp16 mixed", "fp16-amp"),
    ],
)
def test_spellings_of_precisions(written, read_as):
    assert read(precision=written).training.precision == read_as


def test_every_spelling_leads_to_something_modelled():
    assert set(PRECISIONS.values()) <= set(MODELLED)
    assert set(SHARDINGS.values()) <= set(PLANNED)


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("FSDP2", "fsdp"), ("Full Shard", "fsdp"), ("SHARD_GRAD_OP", "zero3"), ("ZeRO stage 2", "zero2"),
     ("zero-0", "ddp"), ("deepspeed_stage_3", "zero3"), ("DistributedDataParallel", "ddp"),
     ("none (dp=1)", "ddp"), ("auto", "")],
)  # fmt: skip
def test_spellings_of_shardings(written, read_as):
    assert sharding_of(written) == read_as


@pytest.mark.parametrize(("text", "default", "value"), [("", True, True), ("Yes", False, True), ("0", True, False)])
def test_flag(text, default, value):
    assert flag(text, default) is value


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("AdamW", "adamw"), ("adamw-fused", "adamw"), ("adamw-forloop", "adamw"), ("AdamW (fused)", "adamw"),
     ("fused adam", "adamw"), ("SGD", "sgd"), ("lion", "lion"), ("", ""),
     ("8-bit Adam", "adamw-8bit"), ("PagedAdamW8bit", "adamw-8bit"), ("Adafactor", "adafactor")],
)  # fmt: skip
def test_spellings_of_optimizers(written, read_as):
    assert optimizer_of(written) == read_as


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("8x NVIDIA H100 80GB HBM3", "h100-sxm"), ("H200 (SXM)", "h200-sxm"), ("AMD Instinct MI250 (one GCD)", "mi250"),
     ("A100-80GB SXM (Selene DGX A100)", "a100-80gb-sxm"), ("B200 [HGX]", "b200"), ("abacus", "abacus")],
)  # fmt: skip
def test_spellings_of_chips(written, read_as):
    assert chip_of(written) == read_as
