"""Feed-forward network: two or three linears, gated or not, and the casts around an activation in fp32."""

import pytest

from estimator.operations.feed_forward import feed_forward
from tests.estimator.operations.shapes import GPT, LLAMA, dims_of, flops, kept, named


def ops_of(model, plan=None, **training):
    d = dims_of(model, plan, **training)
    return feed_forward(d, "layer", width=d.ffn)


@pytest.mark.parametrize(("model", "matrices"), [(GPT, 2 * 256 * 1024), (LLAMA, 3 * 256 * 704)])
@pytest.mark.parametrize("framework", ["megatron", "pytorch-eager"])
def test_flops_are_six_per_weight_and_token(model, matrices, framework):
    assert flops(ops_of(model, framework=framework)) == 6 * 128 * matrices
    assert flops(ops_of(model, {"tp": 4}, framework=framework)) == 6 * 128 * matrices / 4


def test_kept_are_the_input_and_both_sides_of_the_activation():
    assert kept(ops_of(GPT)) == 2 * 128 * (256 + 2 * 1024)
    assert kept(ops_of(LLAMA)) == 2 * 128 * (256 + 3 * 704)
    assert kept(ops_of(LLAMA, {"tp": 4, "sequence_parallel": True})) == 2 * 128 * (256 + 3 * 704) / 4


def test_fp8_keeps_a_byte_of_what_each_projection_reads():
    assert kept(ops_of(LLAMA, precision="fp8")) == 128 * (256 + 2 * 2 * 704 + 704)


def test_an_activation_in_fp32_is_cast_for_the_down_projection():
    written_out = {**GPT, "activation": "gelu-tanh"}
    assert "down projection input cast" in named(ops_of(written_out, precision="bf16-amp", framework="pytorch-eager"))
    assert "down projection input cast" not in named(ops_of(GPT, precision="bf16-amp", framework="pytorch-eager"))
