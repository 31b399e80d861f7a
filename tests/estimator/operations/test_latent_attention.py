"""Latent attention: its five linears, what tp splits of them, and what is kept."""

from estimator.operations import latent_attention
from tests.estimator.operations.shapes import DEEPSEEK, dims_of, flops, kept, named, weights

DOWN = 256 * 96 + 256 * (64 + 16)
UP = 96 * 16 * 48 + 64 * 16 * (32 + 32)


def ops_of(plan=None, model=DEEPSEEK, **training):
    return latent_attention.projections(dims_of(model, plan, **training), "layer")


def test_flops_are_those_of_the_papers_matrices():
    # DeepSeek-V2 (arXiv 2405.04434), eq. 9 to 17: down and up projections of queries, and of keys and values.
    assert flops(ops_of(), "forward") == 2 * 128 * (DOWN + UP)
    assert flops(ops_of(), "backward") == 4 * 128 * (DOWN + UP)
    assert weights(ops_of()) == DOWN + UP


def test_without_a_latent_for_queries_they_come_from_the_stream():
    direct = ops_of(model={**DEEPSEEK, "q_lora_rank": 0})
    assert weights(direct) == 256 * 16 * 48 + 256 * (64 + 16) + 64 * 16 * (32 + 32)


def test_tp_splits_the_heads_only():
    assert weights(ops_of({"tp": 4})) == DOWN + UP / 4
    assert flops(ops_of({"tp": 4}), "forward") == 2 * 128 * (DOWN + UP / 4)
    # Under sequence parallelism the whole down-projections work on a share of the tokens.
    assert flops(ops_of({"tp": 4, "sequence_parallel": True}), "forward") == 2 * 128 * (DOWN + UP) / 4


def test_kept_are_the_stream_once_and_the_latents_before_and_after_their_norms():
    found = kept(ops_of())
    assert found == 2 * 128 * (256 + 2 * 96 + 2 * 64)
    assert kept(ops_of({"tp": 4, "sequence_parallel": True})) == found / 4


def test_what_turns_queries_and_keys_op_by_op_is_plain_pytorch():
    ops = named(ops_of(framework="megatron-unfused"))
    assert {name: op.plain for name, op in ops.items() if op.plain} == {
        "q, k assembly": 29 - ops["rotary positions"].launches - 1,
        "q, k assembly gradient": 23 - ops["rotary positions gradient"].launches - 1,
    }
    assert not any(op.plain for op in ops_of(framework="megatron"))


def test_queries_and_keys_are_written_with_both_parts():
    ops = named(ops_of())
    assert ops["q, k assembly"].bytes == 4 * 128 * 2 * 16 * 48
    # Rotary parts: one per query head and one key for all heads; read and written.
    assert ops["rotary positions"].bytes == 4 * 128 * 17 * 16
