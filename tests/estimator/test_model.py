"""Model: parameter counts by hand and as published, FLOPs per token in PaLM's convention, impossible shapes."""

import pytest

from estimator import catalog
from estimator.model import (
    Model,
    embedding_parameters,
    head_parameters,
    linear_parameters_per_layer,
    model_flops_per_token,
    parameters,
    parameters_per_layer,
    small_parameters_per_layer,
)


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


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        ({"heads": 3}, "model.heads"),
        ({"heads": 16}, "model.heads"),
        ({"kv_heads": 3}, "model.kv_heads"),
        ({"kv_heads": 8}, "model.kv_heads"),
    ],
)
def test_impossible_shapes_name_their_field(shape, field):
    model = Model(**{"layers": 1, "hidden": 8, "heads": 4, "ffn": 16, "vocab": 10, **shape})
    assert {problem.field for problem in model.problems()} == {field}


def test_a_given_head_width_frees_heads_from_dividing_hidden():
    model = Model(layers=1, hidden=8, heads=3, head_dim=4, ffn=16, vocab=10)
    assert model.problems() == []
    assert model.query_width == 12
