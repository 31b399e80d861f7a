"""Activations: what forward keeps, what the loss needs, what lives inside one block's backward."""

import pytest

from estimator.estimate.assemble import effective
from estimator.memory.activations import block_moments, kept_bytes, logits_bytes, loss_bytes, mask_bytes
from estimator.operations.rank_sizes import rank_sizes
from estimator.operations.transformer import network
from estimator.scenario.training import MATH
from tests.estimator.examples import GPT, LLAMA, MIXTRAL, scenario


def moments(model=LLAMA, **rest):
    d = rank_sizes(scenario(model, **rest))
    return block_moments(d, network(d).blocks[0])


def test_korthikantis_34_bytes_per_token_and_width():
    # arXiv 2205.05198, table 2 without scores: 34·s·b·h; dropout masks (3 bytes) are the difference without dropout.
    megatron = {"framework": "megatron", "attention": "sdpa", "precision": "bf16", "seq_len": 1024}
    kept = kept_bytes(network(rank_sizes(scenario(GPT, dropout=0.1, **megatron))).blocks[0].ops)
    assert kept / (1024 * 256) == pytest.approx(34, abs=1)


def test_weights_that_autocast_copies_are_not_kept_with_the_activations():
    amp = network(rank_sizes(scenario(LLAMA, precision="bf16-amp"))).blocks[0].ops
    copies = sum(op.saved_bytes * op.count for op in amp if op.name.endswith("weight cast"))
    every = sum(op.saved_bytes * op.count for op in amp if op.phase == "forward")
    assert copies > 0
    assert kept_bytes(amp) == every - copies


def test_the_loss_is_counted_as_logits():
    head = network(rank_sizes(scenario(LLAMA))).head
    assert loss_bytes(head) == 128 * 1024 * 2
    assert kept_bytes(head) > loss_bytes(head)


def test_vocabulary_parallel_ranks_hold_their_share_of_the_logits():
    whole = logits_bytes(rank_sizes(scenario(LLAMA, framework="megatron")))
    shared = logits_bytes(rank_sizes(scenario(LLAMA, framework="megatron", plan={"tp": 2})))
    assert shared == (whole[0] / 2, whole[1] / 2)


def test_inside_the_ffn_gradients_of_gate_and_up_live():
    stream = 2 * 128 * 256 * 2
    assert moments().ffn == stream + 2 * 128 * 704 * 2
    assert moments(GPT).ffn == stream + 128 * 1024 * 2


def test_inside_eager_attention_the_scores_gradient_lives():
    scores = 8 * 128 * 128
    stream = 2 * 128 * 256
    assert moments(attention="eager").attention == stream * 2 + 10 * scores
    assert moments(attention="eager", precision="fp32").attention == stream * 4 + 12 * scores
    # Fused attention has the gradients of q, k and v only.
    assert moments().attention == stream * 2 + 3 * 128 * 256 * 2


@pytest.mark.parametrize("said", [{"precision": "fp32"}, {"attention": "eager", "precision": "fp32"}])
def test_inside_a_ring_by_kernel_a_pieces_scores_live_whatever_attention_is_asked_for(said):
    long = {"seq_len": 4096, "plan": {"cp": 4}, **said}
    d = rank_sizes(effective(scenario(LLAMA, **long)))
    stream = 2 * d.tokens * d.hidden_width * 4
    # 12 bytes for each of 8 heads' 1024 by 1024 scores.
    assert moments(**long).attention == stream + 12 * 8 * 1024**2
    fused = {"seq_len": 4096, "plan": {"cp": 4}, "precision": "bf16"}
    assert moments(**fused).attention == stream / 2 + 3 * d.tokens * d.query_width * 2


def test_what_the_ffn_kept_is_free_when_attention_runs():
    found = moments()
    assert 0 < found.freed < found.kept


@pytest.mark.parametrize(("half", "freed"), [("ffn", True), ("attention", False)])
def test_bare_stacks_have_one_half(half, freed):
    found = moments({**LLAMA, "network": half})
    assert (found.freed == found.kept > 0) == freed
    assert (found.freed == 0) != freed


def test_experts_hold_the_rows_that_are_routed_to_them():
    found = moments(MIXTRAL)
    rows = 128 * 2
    assert found.ffn == 2 * 128 * 256 * 2 + rows * (2 * 512 + 256) * 2


def test_megatrons_flash_attention_keeps_its_output_twice():
    # Transformer Engine gives it sequences before tokens; what the projection keeps is turned back.
    def kept(attention, framework):
        one = scenario(GPT, attention=attention, framework=framework, precision="bf16", seq_len=1024)
        return kept_bytes(network(rank_sizes(one)).blocks[0].ops)

    assert kept("flash", "megatron") - kept("sdpa", "megatron") == 2 * 1024 * 256
    assert kept("flash", "pytorch-compile") == kept("sdpa", "pytorch-compile")


@pytest.mark.parametrize(
    ("rest", "bytes_per_score"),
    [
        # As wide as the stream, which autocast leaves in fp32
        ({"precision": "bf16", "plan": {"recompute": "selective"}}, 2),
        ({"precision": "bf16-amp", "plan": {"recompute": "full"}}, 4),
        ({"precision": "bf16", "plan": {"recompute": "selective", "cp": 2, "cp_kind": "ulysses"}}, 2),
        ({"precision": "bf16", "plan": {"recompute": "selective", "cp": 2, "cp_kind": "all-gather"}}, 1),
        ({"precision": "bf16", "plan": {"recompute": "selective", "cp": 2, "cp_kind": "ring"}}, 0),
        ({"precision": "bf16"}, 0),
        ({"precision": "bf16", "plan": {"recompute": "selective"}, "attention": "sdpa"}, 0),
        ({"precision": "bf16", "plan": {"recompute": "selective"}, "framework": "megatron"}, 0),
    ],
)
def test_a_mask_stays_for_backward_where_checkpoints_have_it(rest, bytes_per_score):
    given = {"attention": "eager", "seq_len": 512, **rest}
    assert mask_bytes(rank_sizes(scenario(LLAMA, **given))) == bytes_per_score * 512 * 512


def test_slopes_make_a_mask_for_each_head_that_fused_kernels_keep():
    model = {**LLAMA, "position": "alibi"}
    assert mask_bytes(rank_sizes(scenario(model, seq_len=512, attention="sdpa"))) == 2 * 8 * 512 * 512


@pytest.mark.parametrize(
    ("position", "recompute", "bytes_per_score"),
    [("alibi", "none", 0), ("alibi", "selective", 4 * 8), ("rope", "none", 0), ("rope", "selective", 0)],
)
def test_torchs_math_path_keeps_no_mask_and_is_given_one_for_slopes_alone(position, recompute, bytes_per_score):
    model = {**LLAMA, "kv_heads": 2, "position": position}
    given = scenario(model, seq_len=512, attention="sdpa", precision="fp32", plan={"recompute": recompute})
    ran = effective(given)
    assert ran.training.attention == MATH
    assert mask_bytes(rank_sizes(ran)) == bytes_per_score * 512 * 512
