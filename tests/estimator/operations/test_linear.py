"""Linear layers: three products of equal FLOPs, and the copies that autocast makes."""

import pytest

from estimator.operations.linear import linear
from estimator.operations.rank_sizes import rank_sizes
from tests.estimator.examples import GPT, LLAMA, scenario
from tests.estimator.operations.shapes import dims_of


def ops_of(model=LLAMA, *, plan=None, precision="bf16", framework="pytorch-eager", **changes):
    d = rank_sizes(scenario(model, plan=plan or {}, precision=precision, framework=framework))
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
    # The main gradient is read and written, where PyTorch writes a 2-byte gradient of this micro-batch.
    eager, megatron = ops_of(), ops_of(framework="megatron")
    assert megatron["up weight gradient"].bytes - eager["up weight gradient"].bytes == 256 * 512 * (4 + 4 - 2)


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


def test_what_only_weight_gradients_need_is_marked():
    ops = linear(rank_sizes(scenario(GPT, precision="bf16-amp")), "up", "layer", inputs=256, outputs=512, bias=True)
    assert {op.name for op in ops if op.weight} == {
        "up weight gradient",
        "up weight gradient cast",
        "up bias gradient",
        "up bias gradient cast",
    }


def low(**changes):
    return {
        op.name: op for op in linear(dims_of(GPT, precision="fp8"), "up", "layer", inputs=256, outputs=512, **changes)
    }


def test_fp8_products_read_one_byte_and_write_two():
    ops, wide = low(), ops_of(framework="megatron")
    assert {op.precision for op in ops.values() if op.kind == "gemm"} == {"fp8"}
    assert ops["up"].bytes == 128 * 256 + 256 * 512 + 2 * 128 * 512
    # The main gradient of the weight is read and written in fp32.
    assert ops["up weight gradient"].bytes == 128 * 256 + 128 * 512 + (4 + 4) * 256 * 512
    for name in ("up", "up input gradient", "up weight gradient"):
        assert ops[name].flops == wide[name].flops


def test_fp8_copies_are_written_twice_and_one_byte_of_the_input_is_kept():
    ops = low(saves_input=False)
    assert sum(op.saved_bytes * op.count for op in ops.values()) == 128 * 256
    # 2 bytes read, 1 written, 1 written transposed.
    assert ops["up input quantisation"].bytes == 4 * 128 * 256
    assert ops["up weight quantisation"].bytes == 4 * 256 * 512
    assert ops["up gradient quantisation"].bytes == 4 * 128 * 512
    sharing = low(shares_input=True)
    assert "up input quantisation" not in sharing
    assert sharing["up"].saved_bytes == 0


def test_fp4_reads_once_for_the_largest_and_again_for_what_a_hadamard_transform_mixes():
    found = {op.name: op for op in linear(dims_of(GPT, precision="fp4"), "up", "layer", inputs=256, outputs=512)}
    written = 2 * 0.5625
    assert found["up weight quantisation"].bytes == (2 * 2 + written) * 256 * 512
    assert found["up input quantisation"].bytes == (3 * 2 + written) * 128 * 256
    assert found["up gradient quantisation"].bytes == (3 * 2 + written) * 128 * 512
    assert found["up gradient quantisation"].launches == 3


def test_a_linear_outside_fp8_stays_in_16_bit():
    assert {op.precision for op in low(quantised=False).values()} == {"bf16"}


@pytest.mark.parametrize(
    ("plan", "steps", "shape"),
    [
        ({"tp": 16, "tp_kind": "2d"}, 4, (128, 128, 64)),
        ({"tp": 32, "tp_kind": "2.5d", "tp_depth": 2}, 4, (64, 128, 64)),
        ({"tp": 64, "tp_kind": "3d"}, 1, (128, 128, 64)),
    ],
)
def test_products_on_a_grid_of_side_4(plan, steps, shape):
    # M = 512 tokens, K = 256, N = 512. SUMMA adds 4 panel products; 3D gathers both operands and multiplies once.
    d = dims_of(GPT, {**plan, "micro_batch": 4})
    ops = {op.name: op for op in linear(d, "up", "layer", inputs=d.hidden_width, outputs=512 / d.grid_side)}
    forward = ops["up"]
    assert forward.count == steps
    assert (forward.m, forward.n, forward.k) == shape
    for op in ops.values():
        assert op.flops * op.count == 2 * 512 * 256 * 512 / plan["tp"], op.name
    assert forward.saved_bytes * forward.count == 2 * 512 * 256 / plan["tp"]


def test_experts_multiply_side_by_side():
    ops = ops_of(framework="megatron", rows=32, batch=8, kept=100)
    assert (ops["up"].batch, ops["up"].m) == (8, 32)
    assert ops["up"].flops == 2 * 8 * 32 * 256 * 512
    assert ops["up"].saved_bytes == 200
