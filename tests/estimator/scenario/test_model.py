"""Model: parameter counts by hand and as published, FLOPs per token in PaLM's convention, impossible shapes."""

import pytest

from estimator.scenario import catalog
from estimator.scenario.model import BlockKind, Model, block_kinds
from estimator.scenario.parameters import (
    active_parameters,
    active_parameters_per_layer,
    block_parameters,
    embedding_parameters,
    head_parameters,
    linear_parameters_per_layer,
    model_flops_per_token,
    parameters,
    parameters_per_layer,
)


def small_parameters_per_layer(model: Model) -> int:
    """Biases, norm weights and attention sinks of one block."""
    return parameters_per_layer(model) - linear_parameters_per_layer(model)


def test_a_gpt2_block_by_hand():
    # d = 768, ffn = 3072: qkv 768·2304 + 2304, proj 768² + 768, fc 768·3072 + 3072, proj 3072·768 + 768, 2 LayerNorms.
    model = catalog.model("gpt2")
    assert linear_parameters_per_layer(model) == 768 * 2304 + 768 * 768 + 2 * 768 * 3072
    assert small_parameters_per_layer(model) == 2304 + 768 + 3072 + 768 + 4 * 768
    assert parameters_per_layer(model) == 7_087_872


def test_grouped_heads_shrink_only_keys_and_values():
    grouped = Model(layers=1, hidden=64, heads=8, kv_heads=2, ffn=128, vocab=10)
    whole = Model(layers=1, hidden=64, heads=8, ffn=128, vocab=10)
    assert (grouped.kv, grouped.dim, grouped.query_width, grouped.kv_width) == (2, 8, 64, 16)
    assert linear_parameters_per_layer(whole) - linear_parameters_per_layer(grouped) == 2 * 64 * (64 - 16)


def test_a_head_may_be_wider_than_its_share_of_the_stream():
    model = catalog.model("qwen3-0.6b")
    assert model.query_width == 2 * model.hidden
    assert linear_parameters_per_layer(model) == 1024 * (2 * 2048 + 2 * 1024) + 3 * 1024 * 3072
    # Two norms of the stream, and one weight per width of a query and of a key head.
    assert small_parameters_per_layer(model) == 2 * 1024 + 2 * 128


def test_a_tied_head_has_no_parameters_of_its_own():
    tied = Model(layers=2, hidden=8, heads=2, ffn=16, vocab=100, tied_embedding=True)
    untied = Model(layers=2, hidden=8, heads=2, ffn=16, vocab=100)
    assert head_parameters(tied) == 0
    assert parameters(untied) - parameters(tied) == 100 * 8


def test_learned_positions_are_a_table_of_the_sequence_unless_its_rows_are_given():
    model = Model(layers=1, hidden=8, heads=2, ffn=16, vocab=100, position="learned")
    assert embedding_parameters(model, 50) == 150 * 8
    assert embedding_parameters(Model(**{**vars(model), "max_positions": 64}), 50) == 164 * 8
    assert embedding_parameters(Model(**{**vars(model), "position": "rope"}), 50) == 100 * 8


def test_biases_of_queries_keys_and_values_alone():
    base = {"layers": 1, "hidden": 8, "heads": 2, "ffn": 16, "vocab": 10}
    plain, qkv, full = Model(**base), Model(**base, qkv_bias=True), Model(**base, bias=True)
    assert small_parameters_per_layer(qkv) - small_parameters_per_layer(plain) == 3 * 8
    assert small_parameters_per_layer(full) - small_parameters_per_layer(qkv) == 2 * 8 + 2 * 16


def test_flops_per_token_follow_palm():
    # PaLM 540B's own accounting: 6·N of the matrices and 12·L·H·Q·T of attention (arXiv 2204.02311, appendix B).
    model = Model(layers=3, hidden=64, heads=4, ffn=256, vocab=1000, gated_ffn=False)
    matrices = 3 * (4 * 64 * 64 + 2 * 64 * 256) + 1000 * 64
    assert model_flops_per_token(model, 128) == 6 * matrices + 12 * 3 * 4 * 16 * 128


def test_a_tied_head_costs_the_same_products():
    tied = Model(layers=1, hidden=8, heads=2, ffn=16, vocab=100, tied_embedding=True)
    untied = Model(layers=1, hidden=8, heads=2, ffn=16, vocab=100)
    assert model_flops_per_token(tied, 10) == model_flops_per_token(untied, 10)


BASE = {"layers": 4, "hidden": 8, "heads": 2, "ffn": 16, "vocab": 10}
MOE = {**BASE, "experts": 4, "top_k": 2, "moe_ffn": 6}
MLA = {**BASE, "head_dim": 6, "kv_lora_rank": 5, "q_lora_rank": 7, "qk_rope_head_dim": 2, "v_head_dim": 3}


def test_a_block_with_experts_by_hand():
    # Grouped attention 8·(2·8 + 2·8), two RMSNorms, a router 8·4, four experts of three 8×6 matrices.
    model = Model(**MOE)
    found = block_parameters(model)
    assert (found.split, found.whole, found.expert) == (8 * 32, 2 * 8 + 8 * 4, 4 * 3 * 8 * 6)
    assert parameters_per_layer(model) == found.total
    assert active_parameters_per_layer(model) == found.total - 2 * 3 * 8 * 6
    assert linear_parameters_per_layer(model) == found.total - 2 * 8


def test_shared_experts_are_divided_like_a_dense_network_and_gated_by_one_column():
    plain, shared = Model(**MOE), Model(**MOE, shared_experts=3, shared_expert_gate=True)
    assert block_parameters(shared).split - block_parameters(plain).split == 3 * 3 * 8 * 6
    assert block_parameters(shared).whole - block_parameters(plain).whole == 8
    assert shared.shared_ffn == 18


def test_biases_of_router_and_experts():
    plain, biased = Model(**MOE), Model(**MOE, router_bias=True, ffn_bias=True, shared_experts=1)
    with_shared = Model(**MOE, shared_experts=1)
    assert block_parameters(biased).expert - block_parameters(plain).expert == 4 * (2 * 6 + 8)
    assert block_parameters(biased).whole - block_parameters(with_shared).whole == 4 + 8
    assert block_parameters(biased).split - block_parameters(with_shared).split == 2 * 6


def test_latent_attention_by_hand():
    # MLA: q 8·7, 7·(2·6); kv 8·(5 + 2), 5·2·(4 + 3); o (2·3)·8; norms of 7 and 5.
    model = Model(**MLA)
    found = block_parameters(model)
    assert found.split == 7 * 12 + 5 * 14 + 6 * 8 + 3 * 8 * 16
    assert found.whole == 8 * 7 + 8 * 7 + 7 + 5 + 2 * 8
    assert (model.output_width, model.latent_width) == (6, 7)
    without = Model(**{**MLA, "q_lora_rank": 0})
    assert block_parameters(without).split - found.split == (8 - 7) * 12
    assert found.whole - block_parameters(without).whole == 8 * 7 + 7


def test_sinks_output_biases_and_norms_after_the_halves():
    plain = Model(**BASE)
    assert small_parameters_per_layer(Model(**BASE, attention_sinks=True)) - small_parameters_per_layer(plain) == 2
    assert small_parameters_per_layer(Model(**BASE, output_bias=True)) - small_parameters_per_layer(plain) == 8
    assert small_parameters_per_layer(Model(**BASE, norms_per_layer=4)) - small_parameters_per_layer(plain) == 2 * 8


def test_blocks_differ_where_the_first_are_dense_and_windows_alternate():
    model = Model(**MOE, dense_layers=1, sliding_window=3, full_attention_every=2)
    assert block_kinds(model) == (
        BlockKind(layers=1, experts=False, window=3, leading=True),
        BlockKind(layers=2, experts=True, window=0),
        BlockKind(layers=1, experts=True, window=3),
    )
    dense = parameters_per_layer(model, experts=False)
    assert dense == 8 * 32 + 3 * 8 * 16 + 2 * 8
    outside = 2 * 10 * 8 + 8
    assert parameters(model) == dense + 3 * parameters_per_layer(model) + outside
    assert active_parameters(model) == parameters(model) - 3 * 2 * 3 * 8 * 6


def test_what_sets_a_shape_apart_from_a_dense_transformer_is_named():
    assert Model(**BASE, qk_norm=True, qkv_bias=True).special == ()
    assert Model(**MOE, sliding_window=3, norms_per_layer=4).special == ("experts", "sliding_window", "norms_per_layer")
    assert catalog.model("llama3-8b").special == catalog.model("gpt2").special == ()
    assert catalog.model("deepseek-v3").special == ("experts", "kv_lora_rank")


def test_every_second_block_has_experts():
    kinds = block_kinds(Model(**MOE, moe_every=2))
    assert kinds == (BlockKind(layers=2, experts=False), BlockKind(layers=2, experts=True))


def test_equal_blocks_are_one_kind():
    assert block_kinds(Model(**BASE)) == (BlockKind(layers=4),)
    assert block_kinds(Model(**MOE)) == (BlockKind(layers=4, experts=True),)
    assert block_kinds(Model(**BASE, sliding_window=8)) == (BlockKind(layers=4, window=8),)


def test_flops_count_the_experts_that_a_token_meets_and_the_keys_in_its_window():
    model = Model(**MOE, dense_layers=1, shared_experts=1, sliding_window=16, full_attention_every=4)
    attention, router, expert = 8 * 32, 8 * 4, 3 * 8 * 6
    matrices = 4 * attention + 3 * 8 * 16 + 3 * (router + 3 * expert) + 10 * 8
    assert model_flops_per_token(model, 64) == 6 * matrices + 12 * 8 * (3 * 16 + 64)
    assert model_flops_per_token(model, 4) == 6 * matrices + 12 * 8 * 4 * 4


def test_flops_of_latent_attention_have_keys_and_values_of_different_width():
    model = Model(**MLA)
    assert model_flops_per_token(model, 9) - model_flops_per_token(model, 0) == 6 * 4 * 9 * 2 * (6 + 3)


@pytest.mark.parametrize(("network", "matrices"), [("ffn", 3 * 8 * 16), ("attention", 4 * 8 * 8)])
def test_bare_stacks_have_their_matrices_and_nothing_else(network, matrices):
    model = Model(**{**BASE, "vocab": 0, "network": network})
    assert model.problems() == []
    assert parameters(model, 32) == 4 * matrices
    core = 12 * 8 * 32 if network == "attention" else 0
    assert model_flops_per_token(model, 32) == 4 * (6 * matrices + core)


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        ({"heads": 3}, "model.heads"),
        ({"heads": 16}, "model.heads"),
        ({"kv_heads": 3}, "model.kv_heads"),
        ({"kv_heads": 8}, "model.kv_heads"),
        ({"vocab": 0}, "model.vocab"),
        ({"full_attention_every": 2}, "model.full_attention_every"),
        ({"top_k": 2}, "model.top_k"),
        ({"shared_experts": 2}, "model.shared_experts"),
        ({"moe_every": 2}, "model.moe_every"),
        ({"experts": 4}, "model.top_k"),
        ({"experts": 4, "top_k": 5}, "model.top_k"),
        ({"expert_groups": 2}, "model.expert_groups"),
        ({"experts": 4, "top_k": 1, "expert_groups": 3, "top_groups": 1}, "model.expert_groups"),
        ({"experts": 4, "top_k": 1, "expert_groups": 2, "top_groups": 3}, "model.top_groups"),
        ({"experts": 4, "top_k": 1, "dense_layers": 1}, "model.dense_layers"),
        ({"experts": 4, "top_k": 1, "moe_every": 2}, "model.moe_every"),
        ({"experts": 4, "top_k": 1, "layers": 3, "moe_every": 2, "dense_layers": 2}, "model.moe_every"),
        ({"experts": 4, "top_k": 1, "shared_expert_gate": True}, "model.shared_expert_gate"),
        ({"experts": 4, "top_k": 1, "network": "attention"}, "model.experts"),
        ({"qk_rope_head_dim": 2}, "model.qk_rope_head_dim"),
        ({"q_lora_rank": 2}, "model.q_lora_rank"),
        ({"kv_lora_rank": 4}, "model.qk_rope_head_dim"),
        ({"kv_lora_rank": 4, "qk_rope_head_dim": 2}, "model.head_dim"),
        ({"kv_lora_rank": 4, "qk_rope_head_dim": 1, "kv_heads": 2}, "model.kv_heads"),
        ({"kv_lora_rank": 4, "qk_rope_head_dim": 1, "qk_norm": True}, "model.qk_norm"),
    ],
)
def test_impossible_shapes_name_their_field(shape, field):
    model = Model(**{"layers": 1, "hidden": 8, "heads": 4, "ffn": 16, "vocab": 10, **shape})
    assert {problem.field for problem in model.problems()} == {field}


def test_a_given_head_width_frees_heads_from_dividing_hidden():
    model = Model(layers=1, hidden=8, heads=3, head_dim=4, ffn=16, vocab=10)
    assert model.problems() == []
    assert model.query_width == 12
