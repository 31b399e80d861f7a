"""Shares: a block's parameters on one rank; alone it has what the model counts, in its ops as in its sums."""

import pytest

from estimator.operations.rank_parameters import parameters_of
from estimator.scenario import catalog
from estimator.scenario.codec import decode, encode
from estimator.scenario.model import Model, block_kinds
from estimator.scenario.parameters import block_parameters, linear_parameters_per_layer
from tests.estimator.operations.shapes import ALL, DEEPSEEK, GPT, LLAMA, MIXTRAL, blocks_of, dims_of, weights

MODELS = {**ALL, **{entry.key: encode(entry.value) for entry in catalog.entries("models")}}


@pytest.mark.parametrize("key", MODELS)
def test_one_rank_alone_has_what_the_model_counts(key):
    model = decode(Model, MODELS[key], "model")
    for kind, block in zip(block_kinds(model), blocks_of(MODELS[key]).values(), strict=True):
        found, total = block.parameters, block_parameters(model, kind.experts)
        assert (found.split, found.whole, found.expert) == (total.split, total.whole, total.expert)
        assert found.cast == linear_parameters_per_layer(model, kind.experts)


@pytest.mark.parametrize("key", MODELS)
@pytest.mark.parametrize("framework", ["megatron", "pytorch-eager"])
def test_ops_compute_a_gradient_for_every_matrix(key, framework):
    model = decode(Model, MODELS[key], "model")
    for kind, block in zip(block_kinds(model), blocks_of(MODELS[key], framework=framework).values(), strict=True):
        assert weights(block.ops) == linear_parameters_per_layer(model, kind.experts)


PLANS = [{"tp": 4}, {"tp": 8, "sequence_parallel": True}, {"ep": 4}, {"ep": 2, "expert_tp": 2, "tp": 2}, {"tp": 16}]


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("key", ["llama", "mixtral", "deepseek", "attention"])
def test_a_ranks_parameters_are_those_whose_gradients_it_computes(key, plan):
    # No biases in these models; norms and the rest of ``whole`` are no matrices.
    for block in blocks_of(ALL[key], plan).values():
        assert block.parameters.cast == pytest.approx(weights(block.ops), rel=1e-12)
        small = block.parameters.split + block.parameters.whole + block.parameters.expert - block.parameters.cast
        alone = next(b.parameters for b in blocks_of(ALL[key]).values() if b.name == block.name)
        assert small == pytest.approx(alone.split + alone.whole + alone.expert - alone.cast)


def test_tp_beyond_the_key_value_heads_holds_copies():
    # 2 key/value heads of 32 on 8 ranks: one head each for keys and for values.
    found = parameters_of(dims_of(LLAMA, {"tp": 8}), experts=False)
    assert found.split == 256 * (2 * 32 + 2 * 32) + 3 * 256 * 88


def test_experts_leave_by_their_own_degrees_and_the_router_by_none():
    alone, part = (
        parameters_of(dims_of(MIXTRAL, plan), experts=True) for plan in ({}, {"tp": 4, "ep": 8, "expert_tp": 2})
    )
    assert alone.expert == 8 * 3 * 256 * 704
    assert part.expert == alone.expert / 16
    assert part.whole == alone.whole == 256 * 8 + 2 * 256
    assert part.split == alone.split / 4


@pytest.mark.parametrize(("model", "framework", "tensors"), [
    (LLAMA, "pytorch-eager", 4 + 3 + 2), (LLAMA, "megatron", 2 + 2 + 2), (GPT, "pytorch-eager", 2 * (2 + 2) + 4),
    ({**LLAMA, "qkv_bias": True, "qk_norm": True}, "pytorch-eager", 4 + 3 + 3 + 2 + 2),
])  # fmt: skip
def test_tensors_of_dense_blocks(model, framework, tensors):
    assert parameters_of(dims_of(model, framework=framework), experts=False).tensors == tensors


def test_tensors_of_blocks_with_experts():
    found = parameters_of(dims_of(DEEPSEEK, {"ep": 4}), experts=True)
    # q and kv down and up, output, two latent norms; router; shared gate-up and down; two norms.
    assert found.tensors == 5 + 2 + 1 + 2 + 2
    assert found.expert_tensors == 4 * 2
    apart = parameters_of(dims_of(DEEPSEEK, {"ep": 4}, framework="pytorch-eager"), experts=True)
    assert apart.expert_tensors == 4 * 3


def test_parameters_of_the_feed_forward_part():
    blocks = blocks_of(DEEPSEEK, {"tp": 2, "ep": 4})
    assert blocks["dense layer"].ffn_parameters == 3 * 256 * 352
    assert blocks["expert layer"].ffn_parameters == 256 * 16 + 3 * 256 * 96 + 4 * 3 * 256 * 96
