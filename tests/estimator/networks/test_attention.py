"""Attention core: FLOPs of the full square, 2.5 times that backward, and scores kept only by the eager form."""

import pytest

from estimator.networks import attention
from estimator.networks.dims import dims
from estimator.ops import Op
from tests.estimator.examples import GPT, LLAMA, scenario


def core(model=LLAMA, *, attention_kind="sdpa", plan=None, **training) -> list[Op]:
    return attention.core(dims(scenario(model, plan=plan or {}, attention=attention_kind, **training)))


def flops(ops: list[Op], phase: str) -> float:
    return sum(op.flops * op.count for op in ops if op.phase == phase and op.kind in ("gemm", "attention"))


def kept(ops: list[Op]) -> float:
    return sum(op.saved_bytes * op.count for op in ops)


SQUARE = 4 * 8 * 32 * 128 * 128
"""4·S²·D of 8 heads, 32 wide, 128 tokens: two products of 2·S²·D each."""


@pytest.mark.parametrize("kind", ["eager", "sdpa", "flash", "flash1"])
def test_forward_flops_are_two_products_over_the_full_square(kind):
    assert flops(core(attention_kind=kind), "forward") == SQUARE


def test_backward_is_five_products_when_fused_and_four_when_the_scores_were_kept():
    # FlashAttention-2 (arXiv 2307.08691, section 4.1): backward 2.5 times forward, one product recomputed.
    assert flops(core(), "backward") == 2.5 * SQUARE
    assert flops(core(attention_kind="eager"), "backward") == 2 * SQUARE


def test_tp_splits_heads():
    assert flops(core(plan={"tp": 4}), "forward") == SQUARE / 4


def test_fused_attention_keeps_q_k_v_output_and_one_number_per_row():
    # 2 key/value heads for 8 query heads, each 32 wide.
    assert kept(core()) == 2 * 128 * (2 * 256 + 2 * 64) + 4 * 8 * 128


def test_fused_attention_moves_its_operands_not_its_scores():
    forward, backward = core()
    tensors, statistics = 2 * 128 * (2 * 256 + 2 * 64), 4 * 8 * 128
    assert forward.bytes == tensors + statistics
    # Reads q, k, v, output and its gradient; writes three gradients.
    assert backward.bytes == 2.5 * tensors + statistics


def test_fused_memory_is_linear_and_eager_memory_quadratic_in_the_sequence():
    assert kept(core(seq_len=256)) == 2 * kept(core())
    eager, longer = (kept(core(attention_kind="eager", seq_len=s)) for s in (4096, 8192))
    assert longer / eager == pytest.approx(4, rel=0.02)


def test_megatrons_eager_attention_keeps_softmax_mask_and_dropped_scores():
    # Korthikanti 2022, section 4.1: 8·s·b·h for q, k, v and the weighted values, 5·a·s²·b for the scores.
    ops = core(GPT, attention_kind="eager", framework="megatron", dropout=0.1)
    assert kept(ops) == 8 * 128 * 256 + 5 * 8 * 128 * 128


@pytest.mark.parametrize(("kind", "rate"), [("sdpa", "attention_frac"), ("flash", "attention_flash_frac")])
def test_each_fused_kernel_has_its_own_rate(kind, rate):
    assert {op.efficiency for op in core(attention_kind=kind) if op.kind == "attention"} == {rate}


def test_autocast_casts_rotated_queries_and_keys_again():
    names = [op.name for op in core(precision="bf16-amp")]
    assert "q, k casts" in names
    assert "q, k casts gradient" in names
    assert "q, k casts" not in [op.name for op in core(GPT, precision="bf16-amp")]
