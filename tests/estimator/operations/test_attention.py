"""Attention core: FLOPs of the full square, 2.5 times that backward, and scores kept only by the eager form."""

from __future__ import annotations

import numpy as np
import pytest

from estimator.estimate.assemble import effective
from estimator.operations import attention
from estimator.operations.attention import attention_part
from estimator.operations.op import Op
from estimator.operations.rank_sizes import rank_sizes
from estimator.operations.torch_kernels import MIXED_ALIKE
from estimator.scenario.training import MATH
from tests.estimator.examples import GPT, LLAMA, scenario
from tests.estimator.operations.shapes import ATTENTION, DEEPSEEK, dims_of, flops, named


def core(model=LLAMA, *, attention_kind="sdpa", plan=None, **training) -> list[Op]:
    return attention.core(rank_sizes(scenario(model, plan=plan or {}, attention=attention_kind, **training)))


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


def at(cp_kind, *, cp=4, kind="sdpa", model=LLAMA, **plan) -> list[Op]:
    found = attention.core(dims_of(model, {"cp": cp, "cp_kind": cp_kind, **plan}, attention=kind))
    return [op for op in found if op.kind != "kernels"]


def test_ulysses_gives_a_rank_some_heads_and_whole_sequences():
    for kind in ("sdpa", "eager"):
        forward = at("ulysses", kind=kind)[0]
        assert (forward.batch, forward.m, forward.n) == (2, 128, 128)


def test_ulysses_copies_key_value_heads_where_ranks_are_more():
    # 2 key/value heads for 4 ranks: each holds one, twice its share.
    assert at("ulysses")[0].saved_bytes == 2 * 32 * (2 * 256 + 2 * 4 * 32) + 4 * 2 * 128


def test_ring_multiplies_short_pieces_one_after_another():
    for kind in ("sdpa", "eager"):
        forward = at("ring", kind=kind)[0]
        assert (forward.batch, forward.m, forward.n, forward.launches) == (8 * 4, 32, 32, 4)


def test_pieces_of_a_sequence_run_in_flash_attention_where_only_that_gives_their_sums():
    def of(cp_kind: str, **about: object) -> list[str]:
        one = scenario(LLAMA, framework=about.get("framework", "pytorch-eager"),
                       plan={"cp": about.get("cp", 2), "cp_kind": cp_kind})  # fmt: skip
        return [op.efficiency for op in attention.core(rank_sizes(one)) if op.kind == "attention"]

    assert of("ring") == of("all-gather") == ["attention_flash_frac"] * 2
    assert of("ulysses") == of("ring", cp=1) == of("ring", framework="megatron") == ["attention_frac"] * 2


def test_ring_adds_up_its_pieces():
    fused, eager, wide = (
        {op.name: op for op in attention.core(rank_sizes(scenario(LLAMA, plan={"cp": 4}, **said)))}
        for said in ({"framework": "megatron"}, {}, {"precision": "fp32"})
    )
    # Three times: read the sum in fp32 and the piece in 2 bytes, write the sum.
    assert fused["ring sums"].bytes == 3 * 10 * 32 * 256
    # Keys and values repeated to all heads; once to fp32 and back; three times the piece to fp32, both parts by their
    # weights, added, and written to their place.
    assert eager["ring sums"].bytes == pytest.approx((2 * 2 * 2 + 2 * 6 + 3 * (6 + 16 + 12 + 8)) * 32 * 256)
    assert eager["ring sums"].strided_elements == pytest.approx((2 + 1 + 3 * 3) * 32 * 256)
    # Output's gradient laid out twice; three gradients to fp32 and back; three times halves of two of them added in 2
    # bytes and one to what is in fp32, and so are at last those that come home.
    back = eager["ring sums gradient"]
    assert back.bytes == pytest.approx((2 * 4 + 3 * 12 + 3 * (10 + 2 * 3) + 2 * (10 + 2)) * 32 * 256)
    assert back.strided_elements == pytest.approx((2 + 3) * 32 * 256)
    assert back.mixed_elements == pytest.approx(MIXED_ALIKE * (3 + 2) * 32 * 256)
    assert eager["ring sums"].flops == fused["ring sums"].flops
    # What is in fp32 is cast by nothing, and added to as it lies.
    assert wide["ring sums"].bytes == pytest.approx((2 * 2 * 4 + 3 * (16 + 12 + 8)) * 32 * 256)
    assert wide["ring sums gradient"].mixed_elements == 0
    assert "ring sums" not in {op.name for op in attention.core(dims_of(LLAMA))}


@pytest.mark.parametrize(
    "said", [{"precision": "fp32"}, {"attention": "eager"}, {"precision": "tf32"}], ids=["fp32", "eager", "tf32"]
)
def test_a_plain_ring_in_fp32_keeps_no_scores_and_makes_them_anew(said):
    found = {op.name: op for op in attention.core(rank_sizes(scenario(LLAMA, plan={"cp": 4}, **said)))}
    width = 4 if "precision" in said else 2
    # 8 heads of 32 queries and keys a piece: a square of the own and halves of three others.
    squares = 8 * (1 + 3 / 2)
    products = [op for op in found.values() if op.kind == "gemm"]
    assert [op.batch * op.m * op.n * op.k for op in products] == pytest.approx([squares * 32**3] * 7)
    assert [op.phase for op in products].count("backward") == 5
    assert found["softmax"].flops > 0
    assert found["softmax"].saved_bytes == found["softmax gradient"].saved_bytes == 0
    # q, k, v, the output and its copy for the projection, the sums; the repeated heads.
    kept = 32 * (256 + 2 * 64) * width + 32 * (2 * 256 * width + 8 * 4)
    assert sum(op.saved_bytes for op in found.values()) == kept + found["ring sums"].saved_bytes
    assert found["ring sums"].saved_bytes == 32 * 2 * (256 - 64) * width


def test_a_ring_repeats_no_more_heads_than_its_tensor_parallel_rank_lacks():
    # 8 heads and 2 of keys: over 4 ranks each has 2 and 1, over 8 one of each.
    for tp, lacks in ((1, 6), (2, 3), (4, 1), (8, 0)):
        ops = attention.core(rank_sizes(scenario(LLAMA, plan={"cp": 4, "tp": tp})))
        (sums,) = (op for op in ops if op.name == "ring sums")
        assert sums.saved_bytes == pytest.approx(32 * 2 * lacks * 32 * 2), tp


def test_rings_of_several_plans_are_those_of_each():
    one = scenario(LLAMA, plan={"cp": 4}, precision="fp32")
    both = attention.core(rank_sizes(one, cp=np.array([1.0, 4.0])))
    for index, cp in enumerate((1, 4)):
        alone = attention.core(rank_sizes(scenario(LLAMA, plan={"cp": cp}, precision="fp32")))
        for amount in ("flops", "bytes", "launches", "strided_elements"):
            own, of_both = (
                sum(np.broadcast_to(getattr(op, amount) * op.count, 2)[index] for op in ops) for ops in (alone, both)
            )
            assert own == pytest.approx(of_both), amount
        kept = [sum(np.broadcast_to(op.saved_bytes, 2)[index] for op in ops) for ops in (alone, both)]
        assert kept[0] == pytest.approx(kept[1])


def test_all_gather_meets_all_keys_but_keeps_its_own():
    forward = at("all-gather")[0]
    assert (forward.batch, forward.m, forward.n) == (8, 32, 128)
    assert forward.saved_bytes == 2 * 32 * (2 * 256 + 2 * 64) + 4 * 8 * 32
    assert forward.bytes == 2 * 32 * (2 * 256 + 4 * 2 * 64) + 4 * 8 * 32


def test_plain_pytorch_copies_what_it_gathers_into_order():
    def copies(**said):
        plan = {"cp": 4, "cp_kind": "all-gather", "recompute": said.pop("recompute", "none")}
        ops = attention.core(rank_sizes(scenario(LLAMA, plan=plan, **said)))
        return [op for op in ops if op.name.startswith("gathered copies")]

    own = 32 * 2 * 64
    whole, heads = 4 * own, 32 * 256
    forward, backward = copies()
    # Keys and values joined twice and laid out by tokens; half flipped, all put into order; two chunks' outputs joined.
    assert forward.strided_elements == 3 * own + 1.5 * whole + heads
    # Joined, half flipped, both halves copied and added; chunks of queries joined, slices of keys and values copied and
    # added; laid out, flipped and ordered once more.
    again = own + 1.5 * whole
    assert backward.strided_elements == pytest.approx(3.5 * whole + heads + (1 + 1 / 8 + 1) * whole + again)
    assert backward.stream_bytes == pytest.approx(2 * 4 * whole)
    redone = copies(recompute="full")
    assert redone[0].strided_elements == forward.strided_elements - own, "none is gathered twice"
    assert redone[-1].strided_elements == pytest.approx(backward.strided_elements - again)
    eager, _ = copies(attention="eager")
    assert eager.strided_elements == forward.strided_elements - heads, "one chunk"
    one = effective(scenario(LLAMA, plan={"cp": 4, "cp_kind": "all-gather"}, precision="fp32"))
    assert one.training.attention == MATH
    (math,) = (op for op in attention.core(rank_sizes(one)) if op.name == "gathered copies")
    assert math.strided_elements == forward.strided_elements, "two, by whatever kernels"
    assert copies(framework="megatron") == []


@pytest.mark.parametrize("cp_kind", ["ring", "ulysses", "all-gather"])
def test_causal_work_is_balanced_over_ranks(cp_kind):
    alone, part = at(cp_kind, cp=1)[0], at(cp_kind)[0]
    assert part.flops * part.visible_frac == alone.flops * alone.visible_frac / 4


@pytest.mark.parametrize(
    ("window", "share"), [(0, 0.5), (128, 0.5), (500, 0.5), (64, 0.375), (1, 1 / 128 - 0.5 / 128**2)]
)
def test_a_window_leaves_a_band_of_the_square(window, share):
    d = dims_of(LLAMA)
    forward, backward = attention.core(d, "layer", window)
    assert forward.visible_frac == backward.visible_frac == share
    # Counted against every pair, one by one, a band is wider by half its edge.
    pairs = sum(min(i + 1, window or 128) for i in range(128)) / 128**2
    assert share == pytest.approx(pairs, abs=0.5 / 128)


def test_eager_attention_computes_the_whole_square_whatever_the_window():
    d = dims_of(LLAMA, attention="eager")
    assert attention.core(d, "layer", 16) == attention.core(d, "layer")


def test_latent_heads_are_wider_for_queries_than_for_values():
    d = dims_of(DEEPSEEK)
    forward, backward = attention.core(d)
    assert forward.flops == 2 * 16 * 128 * 128 * (48 + 32)
    assert backward.flops == 2 * 16 * 128 * 128 * (3 * 48 + 2 * 32)
    assert forward.saved_bytes == 2 * 128 * 16 * (48 + 48 + 32 + 32) + 4 * 16 * 128


def test_rows_of_a_grid_that_split_a_sequence_share_its_queries():
    # 2 x 2 ranks and one sequence: each has 4 of 8 heads and half of the queries.
    forward = at("ring", cp=1, tp=4, tp_kind="2d")[0]
    assert (forward.batch, forward.m, forward.n) == (4, 64, 128)
    several = at("ring", cp=1, tp=4, tp_kind="2d", micro_batch=6)[0]
    assert (several.batch, several.m, several.n) == (4 * 3, 128, 128)


def part(model=LLAMA, *, framework="pytorch-eager") -> list[Op]:
    return attention_part(rank_sizes(scenario(model, framework=framework)), "layer")


def test_fused_projections_do_the_same_products():
    fused, apart = part(framework="megatron"), part()
    for phase in ("forward", "backward"):
        assert flops(fused, phase) == flops(apart, phase)
    assert "qkv projection" in {op.name for op in fused}
    assert {"q projection", "k, v projections"} <= {op.name for op in apart}


def test_per_head_norms_add_their_kernels_and_nothing_else():
    plain = part()
    normed = part({**LLAMA, "qk_norm": True})
    assert {op.name for op in normed} - {op.name for op in plain} == {"q, k norm", "q, k norm gradient"}


def test_biases_are_summed_where_the_model_has_them():
    def biased(**changes):
        ops = attention_part(dims_of({**LLAMA, **changes}, framework="pytorch-eager"), "layer")
        return {op.name for op in ops if op.name.endswith("bias gradient")}

    assert biased() == set()
    assert biased(output_bias=True) == {"output projection bias gradient"}
    assert biased(qkv_bias=True) == {"q projection bias gradient", "k, v projections bias gradient"}


def test_the_input_of_q_k_v_is_kept_once_in_the_share_of_the_stream():
    for plan, share in (({}, 1), ({"tp": 4, "sequence_parallel": True}, 4), ({"tp": 4, "tp_kind": "2d"}, 4)):
        op = named(attention_part(dims_of(ATTENTION, plan), "layer"))["qkv projection"]
        assert op.saved_bytes * op.count == 128 * 256 * 2 / share
