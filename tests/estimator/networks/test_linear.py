"""Linear layers: three products of equal FLOPs, and the copies that autocast makes."""

import pytest

from estimator.networks.dims import dims
from estimator.networks.linear import linear
from tests.estimator.examples import GPT, LLAMA, scenario


def ops_of(model=LLAMA, *, plan=None, precision="bf16", framework="pytorch-eager", **changes):
    d = dims(scenario(model, plan=plan or {}, precision=precision, framework=framework))
    found = linear(d, "up", "layer", **{"inputs": 256, "outputs": 512, **changes})
    return {op.name: op for op in found}


def test_backward_is_two_products_as_large_as_forwards():
    ops = ops_of()
    forward, by_input, by_weight = ops["up"], ops["up input gradient"], ops["up weight gradient"]
    assert forward.flops == by_input.flops == by_weight.flops == 2 * 128 * 256 * 512
    assert (forward.m, forward.n, forward.k) == (128, 512, 256)
    assert (by_input.m, by_input.n, by_input.k) == (128, 256, 512)
    assert (by_weight.m, by_weight.n, by_weight.k) == (256, 512, 128)
    assert [forward.phase, by_input.phase, by_weight.phase] == ["forward", "backward", "backward"]


def test_the_input_is_kept_once():
    assert sum(op.saved_bytes * op.count for op in ops_of().values()) == 128 * 256 * 2
    assert sum(op.saved_bytes * op.count for op in ops_of(saves_input=False).values()) == 0


def test_several_projections_of_one_input_do_the_work_of_one_wide_one():
    one, two = ops_of(), ops_of(projections=2)
    for name in ("up", "up input gradient", "up weight gradient"):
        assert two[name].flops * two[name].count == one[name].flops
    assert two["up"].saved_bytes * two["up"].count == one["up"].saved_bytes
    # Unfused projections each give a gradient of the input; adding them reads two and writes one.
    assert two["up gradient sum"].bytes == 3 * 128 * 256 * 2
    assert "up gradient sum" not in one


def test_megatron_adds_weight_gradients_in_fp32():
    eager, megatron = ops_of(), ops_of(framework="megatron")
    assert megatron["up weight gradient"].bytes - eager["up weight gradient"].bytes == 256 * 512 * 2


@pytest.mark.parametrize("copies", [1, 3])
def test_autocast_casts_the_weight_once_and_the_input_for_each_projection(copies):
    ops = ops_of(precision="bf16-amp", input_copies=copies)
    # fp32 read and 2 bytes written.
    assert ops["up weight cast"].bytes == 6 * 256 * 512
    assert ops["up weight cast"].saved_bytes == 2 * 256 * 512
    assert ops["up input cast"].bytes == 6 * 128 * 256 * copies
    assert ops["up"].saved_bytes == 2 * 128 * 256 * copies
    assert ops["up input gradient cast"].phase == ops["up weight gradient cast"].phase == "backward"


def test_no_casts_without_autocast():
    assert not [name for name in ops_of() if "cast" in name]
    assert not [name for name in ops_of(precision="bf16-amp", plan={"sharding": "fsdp"}) if "cast" in name]


def test_a_bias_costs_a_sum_over_tokens_in_backward():
    ops = ops_of(GPT, bias=True)
    assert ops["up bias gradient"].bytes == 128 * 512 * 2
    assert "up bias gradient" not in ops_of(GPT, bias=True, framework="megatron")
