"""Which kernels the table gives an op, and that they cost what those of a scenario cost."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from estimator.cost.efficiency import ideal
from estimator.cost.price import price
from estimator.operations.aten import TABLE, is_known, kernels_of
from estimator.operations.aten.operands import broadcast, dimensions
from estimator.operations.aten.optimizer import launches
from estimator.operations.op import WHOLE, gemm
from estimator.operations.torch_kernels import MIXED_ALIKE
from estimator.scenario.op_list import Operand, Signature
from tests.estimator.operations.aten.signatures import CHIP, E, one, tensor

sizes = st.integers(1, 64).map(lambda n: 8 * n)


@given(m=sizes, n=sizes, k=sizes)
def test_a_product_costs_the_same_wherever_it_is_found(m, n, k):
    closed = gemm("mm", "", "forward", m=m, n=n, k=k, element_bytes=2, precision="bf16")
    x, w, y = tensor(m, k), tensor(k, n), tensor(m, n)
    traced = [
        one("aten::mm", x, w, out=y),
        one("aten::mm", x, w),
        one("aten::addmm", tensor(n), x, w, out=y),
        one("aten::linear", x, tensor(n, k), out=y),
        one("aten::matmul", tensor(1, m, k), w, out=tensor(1, m, n)),
        one("aten::bmm", tensor(1, m, k), tensor(1, k, n), out=tensor(1, m, n)),
    ]
    for op in traced:
        # Which operands lie across is told of a traced one alone.
        assert replace(op, name="mm", turned=False) == closed
        assert price(op, CHIP, E).seconds == price(closed, CHIP, E).seconds


def test_products_of_other_types_run_at_their_own_peak():
    def precision(dtype, **arguments):
        return one("aten::mm", tensor(64, 64, dtype=dtype), tensor(64, 64, dtype=dtype), **arguments).precision

    assert precision("float32") == "fp32"
    assert precision("float32", tf32=True) == "tf32"
    assert precision("float16") == "fp16-amp"
    assert precision("float8_e4m3fn") == "fp8"
    assert precision("c10::Float4_e2m1fn_x2") == "fp4"
    packed = one("aten::_scaled_mm", tensor(64, 32, dtype="float4_e2m1fn_x2"), tensor(32, 64, dtype="float4_e2m1fn_x2"))
    assert packed.flops == one("aten::mm", tensor(64, 64), tensor(64, 64)).flops


def test_rows_that_begin_between_16_bytes_are_unaligned():
    odd = tensor(8192, 50257)
    assert one("aten::mm", odd, tensor(50257, 768)).fetched == 1
    assert one("aten::mm", tensor(50257, 8192, strides=(1, 50257)), tensor(8192, 768)).fetched == 1
    assert one("aten::mm", tensor(8192, 768), tensor(768, 50257, strides=(1, 768)), out=odd).fetched == 1
    assert (
        one("aten::mm", tensor(8192, 768), tensor(768, 50264, strides=(1, 768)), out=tensor(8192, 50264)).fetched
        == WHOLE
    )


def test_groups_of_a_grouped_product_are_taken_as_equal():
    found = one("aten::_grouped_mm", tensor(1024, 64), tensor(8, 64, 256), tensor(8, dtype="int32"))
    assert (found.batch, found.m, found.n, found.k) == (8, 128, 256, 64)
    gradient = one(
        "aten::_grouped_mm",
        tensor(64, 1024),
        tensor(1024, 256),
        tensor(8, dtype="int32"),
        out=tensor(8, 64, 256),
    )
    assert gradient.flops == found.flops


def test_a_convolution_is_a_product_and_its_backward_two():
    image, weight, out = tensor(8, 64, 56, 56, dtype="float32"), tensor(128, 64, 3, 3, dtype="float32"), None
    out = tensor(8, 128, 56, 56, dtype="float32")
    forward = one("aten::convolution", image, weight, out=out, groups=1)
    assert forward.flops == 2 * 8 * 56 * 56 * 128 * 64 * 9
    backward = kernels_of(
        Signature(
            op="aten::convolution_backward",
            inputs=(out, image, weight),
            outputs=(image, weight),
            arguments={"output_mask": [True, True, False]},
        )
    )
    assert [op.flops for op in backward] == [forward.flops, forward.flops]
    depthwise = one("aten::convolution", image, tensor(64, 1, 3, 3, dtype="float32"), out=image, groups=64)
    assert depthwise.kind == "kernels"


@pytest.mark.parametrize(
    ("side", "window", "last", "outer", "copies"),
    [(56, 3, False, True, 3), (56, 1, False, False, 0), (14, 1, False, True, 2), (7, 1, True, True, 0)],
)
def test_a_convolutions_weight_gradient_sums_over_pixels_where_channels_come_last(side, window, last, outer, copies):
    strides = (64 * side * side, 1, 64 * side, 64) if last else None
    image = tensor(8, 64, side, side, dtype="float32", strides=strides)
    weight = tensor(64, 64, window, window, dtype="float32")
    given = {"output_mask": [True, True, False], "tf32": True}
    ops = kernels_of(Signature(op="aten::convolution_backward", inputs=(image, image, weight), arguments=given))
    of_input, of_weight = (at for at, op in enumerate(ops) if op.kind == "gemm")
    assert (ops[of_input].outer, ops[of_weight].outer) == (False, outer)
    assert len(ops[of_weight + 1 :]) == copies  # a weight of one pixel lies both ways


@pytest.mark.parametrize(("images", "dtype", "us"), [(224, "bfloat16", 497.7), (168, "float32", 371.0)])
def test_turning_images_of_three_channels_takes_what_it_took_on_an_h200(images, dtype, us):
    image, weight = tensor(images, 3, 224, 224, dtype=dtype), tensor(896, 3, 16, 16, dtype=dtype)
    out = tensor(images, 896, 14, 14, dtype=dtype)
    given = {"stride": [16, 16], "tf32": True}
    _, copied, *_ = kernels_of(
        Signature(op="aten::convolution", inputs=(image, weight), outputs=(out,), arguments=given)
    )
    assert 1e6 * price(copied, CHIP, E).seconds == pytest.approx(us, rel=0.05)


@pytest.mark.parametrize(
    ("shape", "moments_us", "sums_us"),
    [
        ((40, 192, 56, 56), 59.2, 64.8),
        ((40, 576, 56, 56), 157.2, 183.7),
        ((40, 384, 28, 28), 33.4, 59.9),
        ((40, 960, 28, 28), 70.2, 144.2),
        ((40, 192, 28, 28), 17.0, 29.0),
        ((40, 576, 14, 14), 17.3, 20.3),
        ((40, 1152, 14, 14), 22.2, 35.5),
    ],
)
def test_group_norms_blocks_take_what_they_took_on_an_h200(shape, moments_us, sums_us):
    """A profile of a UNet's step in bf16, torch 2.11: kernels of which memory binds none."""
    image = tensor(*shape)
    (moments, _), (sums, _, weights) = (
        kernels_of(Signature(op=f"aten::native_group_norm{way}", inputs=given))
        for way, given in (("", (image,)), ("_backward", (image, image)))
    )
    found = [1e6 * (priced := price(op, CHIP, E)).seconds - 1e6 * priced.launch_s for op in (moments, sums, weights)]
    assert found[0] == pytest.approx(moments_us, rel=0.15, abs=8)
    assert found[1] == pytest.approx(sums_us, rel=0.2)
    assert found[2] == pytest.approx(24, abs=5), "a thread goes over forty images"


def test_half_precision_images_are_turned_unless_their_channels_come_last():
    image, weight, out = tensor(8, 64, 56, 56), tensor(64, 64, 3, 3), tensor(8, 64, 56, 56)
    last = tensor(8, 64, 56, 56, strides=(64 * 56 * 56, 1, 64 * 56, 64))
    turned = [kernels_of(Signature(op="aten::convolution", inputs=(a, weight), outputs=(b,))) for a, b in
              ((image, out), (last, last))]  # fmt: skip
    assert [len(ops) for ops in turned] == [1 + 3, 1 + 1]  # the weight, too
    window = tensor(64, 64, 1, 1)
    assert len(kernels_of(Signature(op="aten::convolution", inputs=(image, window), outputs=(out,)))) == 1


N, D = 8192, 1024
WIDE, TURNED = tensor(N, D, dtype="float32"), tensor(N, D, strides=(1, N))


@pytest.mark.parametrize(
    ("op", "inputs", "out", "kind"),
    [
        ("aten::add", (tensor(N, D), tensor(N, D)), tensor(N, D), "stream"),
        ("aten::add", (TURNED, TURNED), TURNED, "stream"),
        ("aten::mul", (tensor(N, D), tensor(D)), tensor(N, D), "strided"),
        ("aten::mul", (tensor(N, D), TURNED), tensor(N, D), "strided"),
        ("aten::mul", (tensor(N, D), tensor()), tensor(N, D), "strided"),
        ("aten::mul", (tensor(N, D), tensor(dtype="float64")), tensor(N, D), "stream"),
        ("aten::add", (tensor(N, D), WIDE), WIDE, "mixed"),
        ("aten::gt", (tensor(N, D), tensor(N, D)), tensor(N, D, dtype="bool"), "stream"),
        ("aten::where", (tensor(N, D, dtype="bool"), tensor(N, D), tensor(N, D)), tensor(N, D), "stream"),
        ("aten::_to_copy", (WIDE,), tensor(N, D), "stream"),
        ("aten::_to_copy", (tensor(N, D),), WIDE, "strided"),
        ("aten::copy_", (tensor(N, D), WIDE), tensor(N, D), "stream"),
        ("aten::clone", (TURNED,), tensor(N, D), "strided"),
        ("aten::_to_copy", (TURNED,), WIDE, "strided"),
        ("aten::cat", (tensor(N, D), tensor(N, D)), tensor(N, 2 * D), "stream"),
        ("aten::cat", (tensor(N, D, strides=(2 * D, 1)), tensor(N, D)), tensor(N, 2 * D), "mixed"),
        ("aten::zeros", (), tensor(N, D), "stream"),
    ],
)  # fmt: skip
def test_what_binds_an_element_wise_kernel(op, inputs, out, kind):
    found = one(op, *inputs, out=out)
    assert found.launches == 1
    amounts = {"stream": found.stream_bytes, "strided": found.strided_elements, "mixed": found.mixed_elements}
    across = (
        2.5 if TURNED in inputs and kind == "strided" else MIXED_ALIKE if op == "aten::add" and kind == "mixed" else 1.0
    )
    assert [name for name, amount in amounts.items() if amount] == [kind]
    assert amounts[kind] == (
        found.bytes if kind == "stream" else pytest.approx(N * D * len(inputs) ** (op == "aten::cat") * across)
    )


def test_an_expanded_operand_is_read_once():
    found = one("aten::div", tensor(N, D, dtype="float32", strides=(1, 0)), out=WIDE)
    assert found.bytes == 4 * (N + N * D)


def test_what_the_host_sends_goes_over_its_link():
    found = one("aten::_to_copy", out=tensor(64, 3, 224, 224), direction="HtoD")
    assert found.kind == "transfer"
    assert price(found, CHIP, E).seconds == pytest.approx(
        found.bytes / (CHIP.host_bytes_per_s * E.host_link_frac)
    )  # fmt: skip
    pageable = one("aten::_to_copy", out=tensor(64, 3, 224, 224), direction="HtoD", host="pageable")
    assert price(pageable, CHIP, E).seconds == pytest.approx(found.bytes / E.host_pageable_bytes_per_s)
    slow = replace(CHIP, host_bytes_per_s=1e9)
    assert price(pageable, slow, E).seconds == price(found, slow, E).seconds, "no faster than its link"
    assert price(pageable, CHIP, ideal(E)).seconds == price(found, CHIP, ideal(E)).seconds


def test_a_multi_tensor_op_launches_once_for_320_chunks_or_its_most_tensors():
    assert launches([tensor(320 * 65536)], 1) == 1
    assert launches([tensor(320 * 65536 + 1)], 1) == 2
    assert launches([tensor(10)] * 110, 1) == 1
    assert launches([tensor(10)] * 111, 1) == 2
    assert launches([tensor(10)] * 49, 3) == 2
    assert launches([], 1) == 0


def test_foreach_and_fused_steps_move_what_they_must():
    weights = tuple(tensor(1024, 1024, dtype="float32") for _ in range(4))
    size = 4 * 4 * 1024**2
    assert one("aten::_foreach_mul_", *weights).bytes == 2 * size
    assert one("aten::_foreach_add_.Scalar", *weights).bytes == 2 * size
    assert one("aten::_foreach_add_.List", *weights, *weights).bytes == 3 * size
    assert one("aten::_foreach_add_", *weights, *weights).bytes == 3 * size
    assert one("aten::_foreach_lerp_", *weights, *weights).bytes == 3 * size
    assert one("aten::_foreach_addcmul_", *weights, *weights, *weights).bytes == 3 * size
    assert one("aten::_foreach_addcdiv_", *weights, *weights, *weights).bytes == 4 * size
    steps = tuple(tensor(dtype="float32") for _ in range(4))
    assert one("aten::_fused_adamw_", *weights, *weights, *weights, *weights, *steps).bytes == 7 * size


def test_an_op_that_is_not_there_moves_its_operands_once():
    assert not is_known("mylib::rotate")
    assert one("mylib::rotate", tensor(N, D), out=WIDE).stream_bytes == 6 * N * D
    assert is_known("aten::add_")
    assert is_known("aten::mul.Tensor")


dtypes = st.sampled_from(("float32", "bfloat16", "int64", "bool"))
operands = st.builds(
    Operand,
    shape=st.lists(st.integers(0, 5), max_size=4).map(tuple),
    dtype=dtypes,
)


@settings(max_examples=300)
@given(
    op=st.sampled_from(sorted(TABLE)),
    inputs=st.lists(operands, max_size=6).map(tuple),
    outputs=st.lists(operands, max_size=3).map(tuple),
)
@example(op="native_layer_norm_backward", inputs=(tensor(2, 3), tensor(2, 0)), outputs=())
def test_any_operands_give_kernels_that_can_be_priced(op, inputs, outputs):
    for kernel in kernels_of(Signature(op=f"aten::{op}", inputs=inputs, outputs=outputs)):
        assert price(kernel, CHIP, E).seconds >= 0
        assert kernel.launches >= 0
        assert kernel.bytes >= 0


@pytest.mark.parametrize(
    ("op", "operands", "arguments"),
    [
        ("bmm", 1, {}),
        ("convolution", 2, {"groups": [2]}),
        ("_cudnn_rnn", 1, {"hidden_size": 8, "mode": 7}),
        ("_cudnn_rnn", 1, {"hidden_size": [8], "mode": 2}),
    ],
)
def test_what_an_op_cannot_be_given_moves_its_operands_once(op, operands, arguments):
    given = (tensor(2, 4, 8),) * operands
    (kernel,) = kernels_of(Signature(op=f"aten::{op}", inputs=given, outputs=given[:1], arguments=arguments))
    assert kernel.stream_bytes == 2 * (2 * 4 * 8) * (operands + 1)


@pytest.mark.parametrize(("layers", "directions"), [(1, 1), (3, 2), (10**9, 1)])
def test_layers_of_an_lstm_multiply_their_inputs_at_once_and_their_state_step_by_step(layers, directions):
    steps, batch, width, hidden = 5, 2, 16, 8
    arguments = {"hidden_size": hidden, "mode": 2, "num_layers": layers, "bidirectional": directions == 2}
    data = tensor(steps, batch, width, dtype="float32")
    found = kernels_of(Signature(op="aten::_cudnn_rnn", inputs=(data,), outputs=(), arguments=arguments))
    products = sum(one.count * one.flops for one in found if one.kind == "gemm")
    into = width + (layers - 1) * hidden * directions
    assert products == pytest.approx(2 * steps * batch * 4 * hidden * directions * (into + layers * hidden))
    assert sum(one.count for one in found) == layers * directions * (1 + 2 * steps)


def test_a_convolution_s_bias_is_broadcast_over_its_pixels():
    image, weight, bias = tensor(40, 160, 64, 64), tensor(160, 160, 3, 3), tensor(160)
    found = kernels_of(Signature(op="aten::convolution", inputs=(image, weight, bias), outputs=(image,)))
    added = kernels_of(Signature(op="aten::add_", inputs=(image, tensor(1, 160, 1, 1)), outputs=(image,)))
    assert price(found[-1], CHIP, E).seconds == pytest.approx(price(added[0], CHIP, E).seconds)
    plain = kernels_of(Signature(op="aten::relu_", inputs=(image,), outputs=(image,)))
    assert price(found[-1], CHIP, E).seconds > 1.5 * price(plain[0], CHIP, E).seconds


def test_scans_of_state_spaces_take_what_they_took_alone():
    """Products that broadcast over up to six dimensions and sums of Mamba-2 without its kernels, alone on an H200."""
    errors: dict[str, list[float]] = {}
    document = json.loads(
        (Path(__file__).parents[3] / "reference" / "h200_programs" / "mamba2_kernels.json").read_text()
    )
    for program in ("mamba2-1.1k-2l-amp", "mamba2-896-3l"):
        for name, operands, dim, kernels in document[program]:
            took_s = sum(us for _, us in kernels.values()) * 1e-6
            if took_s < 1e-4 or any("vectorized" in kernel for kernel in kernels):
                continue
            *inputs, out = (tensor(*shape, dtype=dtype, strides=strides) for shape, strides, dtype in operands)
            said = {} if dim is None else {"dim": dim}
            took = float(price(one(f"aten::{name}", *inputs, out=out, **said), CHIP, E).seconds) / took_s - 1
            errors.setdefault(name, []).append(abs(took))
    assert len(errors["mul"]) > 10
    assert len(errors["sum"]) > 10
    assert statistics.median(errors["mul"]) < 0.02
    assert statistics.median(errors["sum"]) < 0.06
    assert max(errors["sum"]) < 0.15


@pytest.mark.parametrize(
    ("shapes", "left"),
    [
        (((8, 64, 128), (8, 64, 128)), 1),
        (((8, 64, 128), (128,)), 2),
        (((4, 3, 256, 36, 1, 64), (4, 3, 1, 36, 64, 64), (4, 3, 256, 36, 64, 64)), 5),
        (((1, 1), (1, 1)), 0),
    ],
)
def test_dimensions_join_where_every_operand_walks_them_as_one(shapes, left):
    operands = [tensor(*shape) for shape in shapes]
    assert dimensions(operands, broadcast(operands)) == left
