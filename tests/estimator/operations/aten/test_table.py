"""Which kernels the table gives an op, and that they cost what those of a scenario cost."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from estimator.cost.efficiency import efficiencies, efficiencies_for, ideal
from estimator.cost.price import price
from estimator.operations.aten import TABLE, is_known, kernels_of, workspace_bytes_of
from estimator.operations.aten.operands import broadcast, dimensions
from estimator.operations.aten.optimizer import launches
from estimator.operations.op import WHOLE, gemm
from estimator.scenario import catalog
from estimator.scenario.op_list import Operand, Signature

CHIP, E = catalog.chip("h200-sxm"), efficiencies("hopper")


def tensor(*shape, dtype="bfloat16", strides=None):
    return Operand(shape=shape, dtype=dtype, strides=strides)


def one(op, *inputs, out=None, **arguments):
    outputs = () if out is None else (out,)
    (found,) = kernels_of(Signature(op=op, inputs=inputs, outputs=outputs, arguments=arguments))
    return found


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
        assert replace(op, name="mm") == closed
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


def test_sums_over_rows_are_told_from_sums_over_columns():
    assert one("aten::sum", tensor(8, 64, 128), out=tensor(128)).column_bytes > 0
    assert one("aten::sum", tensor(8, 64, 128), out=tensor(8, 64, 1)).column_bytes == 0


Q, K = tensor(2, 32, 2048, 64), tensor(2, 8, 2048, 64)


def attention(name, *more, **arguments):
    return one(f"aten::_scaled_dot_product_{name}_attention", Q, K, K, *more, **arguments)


PACKED = tensor(32768, 6, 128)


@pytest.mark.parametrize("op", ["flash_attn_3::_flash_attn_forward", "flash_attn::_flash_attn_varlen_forward"])
def test_packed_sequences_see_no_further_than_the_longest_and_its_window(op):
    whole, each = (one(op, PACKED, PACKED, PACKED, is_causal=True, max_seqlen=most) for most in (32768, 2048))
    assert (each.batch, each.m, each.n) == (96, 2048, 2048)
    assert each.flops == whole.flops / 16
    assert each.bytes == whole.bytes
    near = one(op, PACKED, PACKED, PACKED, is_causal=True, max_seqlen=2048, window=127)
    assert near.visible_frac == pytest.approx(128 / 2048 - 0.5 * (128 / 2048) ** 2)
    both = one(op, PACKED, PACKED, PACKED, is_causal=False, max_seqlen=2048, window=[127, 127])
    assert both.visible_frac == pytest.approx(2 * near.visible_frac)
    assert one(op, PACKED, PACKED, PACKED, is_causal=False, max_seqlen=2048, window=[-1, -1]).visible_frac == 1.0
    assert price(near, CHIP, E).seconds < 0.4 * price(each, CHIP, E).seconds


def test_a_mask_costs_the_causal_shortcut():
    causal, masked = attention("cudnn", is_causal=True), attention("cudnn", tensor(1, 1, 2048, 2048))
    assert (causal.visible_frac, masked.visible_frac) == (0.5, 1.0)
    assert masked.flops == causal.flops
    assert masked.bytes > causal.bytes
    assert price(masked, CHIP, E).seconds > 1.7 * price(causal, CHIP, E).seconds


def test_cudnn_attention_takes_what_it_took_alone():
    """60 kernels, 128 to 8 192 tokens: without a mask, causal, with a mask in memory, with dropout."""
    errors: dict[str, list[float]] = {}
    for row in json.loads((Path(__file__).parents[3] / "reference" / "h200_attention.json").read_text())["rows"]:
        q = tensor(row["batch"], row["heads"], row["seq_len"], row["head_dim"])
        what = row["what"]
        said = {"is_causal": "causal" in what, "mask": what == "mask", "dropout": 0.1 if "dropout" in what else 0.0}
        for name, inputs, measured_s in (("", (q, q, q), row["forward_s"]), ("_backward", (q,) * 4, row["backward_s"])):
            op = one(f"aten::_scaled_dot_product_cudnn_attention{name}", *inputs, **said)
            errors.setdefault(what, []).append(float(price(op, CHIP, E).seconds) / measured_s - 1)
    for what, found in errors.items():
        assert len(found) == 24
        assert abs(statistics.median(found)) < 0.08, what
        assert statistics.median(map(abs, found)) < 0.12, what


@pytest.mark.parametrize(
    ("backend", "causal", "forward", "backward"),
    [
        ("cudnn", True, 0.03, 0.06),
        ("cudnn", False, 0.06, 0.08),
        ("flash", True, 0.15, 0.3),
        ("flash", False, 0.1, 0.25),
        ("efficient", True, 0.05, 0.25),
        ("efficient", False, 0.05, 0.25),
    ],
)
def test_attention_of_every_length_and_width_takes_what_it_took_alone(backend, causal, forward, backward):
    """177 shapes under three backends: heads of 32 to 192, 49 to 8 192 tokens, keys of their own and shared."""
    errors: dict[str, list[float]] = {"": [], "_backward": []}
    document = json.loads((Path(__file__).parents[3] / "reference" / "h200_attention_ladder.json").read_text())
    for row in document["rows"]:
        if (row["backend"], row["causal"]) != (backend, causal):
            continue
        q = tensor(row["batch"], row["heads"], row["seq_len"], row["head_dim"])
        k = tensor(row["batch"], row["heads"] // row["groups"], row["seq_len"], row["head_dim"])
        for name, inputs, measured_s in (
            ("", (q, k, k), row["forward_s"]),
            ("_backward", (q, q, k, k), row["backward_s"] + row["side_s"]),
        ):
            op = one(f"aten::_scaled_dot_product_{backend}_attention{name}", *inputs, is_causal=causal)
            errors[name].append(float(price(op, CHIP, E).seconds) / measured_s - 1)
    assert len(errors[""]) >= 10
    assert statistics.median(map(abs, errors[""])) < forward
    assert statistics.median(map(abs, errors["_backward"])) < backward


def test_backends_run_at_their_own_rates():
    seconds = [
        price(attention(name, is_causal=True), CHIP, E).seconds for name in ("cudnn", "flash", "efficient")
    ]  # fmt: skip
    assert seconds == sorted(seconds)
    inner = one("aten::_flash_attention_forward", *(tensor(2, 2048, 32, 64) for _ in range(3)), is_causal=True)
    assert (inner.m, inner.batch) == (2048, 64)
    assert price(inner, CHIP, E).seconds == pytest.approx(seconds[1], rel=0.1)


def test_attention_backward_multiplies_five_times_where_forward_does_twice():
    backward = one("aten::_scaled_dot_product_cudnn_attention_backward", Q, Q, K, K, Q, is_causal=True)
    assert backward.flops == 2.5 * attention("cudnn", is_causal=True).flops
    assert backward.launches == 5, "heads that share keys add their gradients up"


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
    across = 2.5 if TURNED in inputs and kind == "strided" else 1.0
    assert [name for name, amount in amounts.items() if amount] == [kind]
    assert amounts[kind] == (
        found.bytes if kind == "stream" else pytest.approx(N * D * len(inputs) ** (op == "aten::cat") * across)
    )


def test_a_layer_norm_copies_what_is_not_contiguous_both_ways():
    """As where a convolution's pixels become positions: 28 sequences of 1,500, 220 µs of it on an H100."""
    turned, plain = tensor(28, 1500, 704, strides=(1056000, 1, 1500)), tensor(28, 1500, 704)
    chip = catalog.chip("h100-sxm")
    e = efficiencies_for(chip, None)
    for op, before in (("native_layer_norm", ()), ("native_layer_norm_backward", (plain,))):
        copied = kernels_of(Signature(op=f"aten::{op}", inputs=(*before, turned), outputs=(plain,)))
        assert len(copied) == 1 + len(
            kernels_of(Signature(op=f"aten::{op}", inputs=(*before, plain), outputs=(plain,)))
        )
        assert price(copied[0], chip, e).seconds == pytest.approx(220e-6, rel=0.05)
    (added,) = kernels_of(Signature(op="aten::add", inputs=(turned, plain), outputs=(turned,)))
    assert price(added, chip, e).seconds == pytest.approx(228e-6, rel=0.05)


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


def test_batch_norm_of_bf16_waits_for_each_load_of_a_channel_s_one_block():
    """As many elements in fewer channels take longer: fewer blocks walk them; where channels are last none does."""

    def seconds(channels, strides=None, dtype="bfloat16"):
        shape = (64, channels, 2**12 // channels, 2**12)
        x = Operand(shape=shape, dtype=dtype, strides=strides)
        found = Signature(op="aten::native_batch_norm", inputs=(x,), outputs=(x,))
        return sum(price(op, CHIP, E).seconds for op in kernels_of(found))

    few, some, many, most = (seconds(channels) for channels in (64, 256, 1024, 2048))
    assert few > some > many == pytest.approx(most)
    assert seconds(64, dtype="float32") < few
    last = (64 * 64 * 2**12, 1, 64 * 2**12, 64)
    assert seconds(64, strides=last) < few


@pytest.mark.parametrize(("depths", "images", "statistics_ms", "gradient_ms"), [
    ((3, 4, 6, 3), 176, 11.12, 25.56), ((3, 8, 36, 3), 160, 16.36, 39.03),
])  # fmt: skip
def test_planes_that_fill_no_row_of_a_block_s_threads_leave_its_places_idle(depths, images, statistics_ms, gradient_ms):
    """Kernels of ResNet-50 and -152 of bf16 on H100 (tests/reference/h100_programs): planes of 14² fill 196 of 256."""
    planes = [(64, 112)]
    for stage, (blocks, width) in enumerate(zip(depths, (64, 128, 256, 512), strict=True)):
        side, before = 56 >> stage, 56 >> max(stage - 1, 0)
        planes += [(width, before), (width, side), (4 * width, side), (4 * width, side)]
        planes += [(width, side), (width, side), (4 * width, side)] * (blocks - 1)
    chip = catalog.chip("h100-sxm")
    e = efficiencies_for(chip, None)
    found = {"statistics": 0.0, "gradient": 0.0}
    for channels, side in planes:
        x = tensor(images, channels, side, side)
        walk, _ = kernels_of(Signature(op="aten::native_batch_norm", inputs=(x,), outputs=(x,)))
        found["statistics"] += price(walk, chip, e).seconds * 1e3
        found["gradient"] += price(one("aten::native_batch_norm_backward", x, x, out=x), chip, e).seconds * 1e3
    assert found["statistics"] == pytest.approx(statistics_ms, rel=0.08)
    assert found["gradient"] == pytest.approx(gradient_ms, rel=0.08)


@pytest.mark.parametrize(("images", "channels", "plane", "forward_us", "backward_us"), [
    (64, 64, 112, 461.1, 1164.8), (64, 64, 56, 150.7, 325.6), (256, 256, 56, 595.8, 1281.4),
])  # fmt: skip
def test_batch_norm_of_fp32_waits_for_cudnn_s_one_block_of_a_channel(images, channels, plane, forward_us, backward_us):
    """Kernels of ResNet-50 on H200 (tests/reference/h200_programs/one, h200_scripts): any channels take as long."""
    x = Operand(shape=(images, channels, plane, plane), dtype="float32")
    chip = catalog.chip("h200-sxm")
    e = efficiencies_for(chip, None)

    def seconds(op, *inputs):
        found = Signature(op=op, inputs=inputs, outputs=(x,))
        return sum(price(kernel, chip, e).seconds for kernel in kernels_of(found))

    assert seconds("aten::native_batch_norm", x) * 1e6 == pytest.approx(forward_us, rel=0.45)
    assert seconds("aten::native_batch_norm_backward", x, x) * 1e6 == pytest.approx(backward_us, rel=0.12)


def test_equal_indices_that_add_up_wait_for_one_another():
    def seconds(places, width, rows):
        target, values = tensor(places, width), tensor(rows, width)
        op = one("aten::_index_put_impl_", target, tensor(rows, dtype="int64"), values, accumulate=True)
        return price(op, CHIP, E).seconds

    # Biases of 16 experts, 1024 rows each: 2.25 ms on H200 (indexing_backward_kernel; six and six others take 14.05 ms)
    assert seconds(16, 4096, 16_384) == pytest.approx(2.2e-3, rel=0.05)
    assert seconds(16, 2048, 16_384) == pytest.approx(seconds(16, 4096, 16_384), rel=0.02)
    assert seconds(32, 4096, 16_384) == pytest.approx(1.1e-3, rel=0.05)
    # Rows of a batch, few of which come twice: what memory and elements take
    assert seconds(16_384, 2048, 16_384) < 2e-4


@pytest.mark.parametrize(
    ("rows", "columns", "seen_bytes"),
    [(80 * 197, 1152, 138_608_640), (112 * 197, 640, 113_049_600), (64, 1152, 0)],
)
def test_blocks_that_share_a_column_s_sum_hand_over_in_memory(rows, columns, seen_bytes):
    # Seen in the allocator's record of two ViTs on an H200, before their biases' gradients
    entering = (tensor(rows, columns),)
    added = Signature(op="aten::sum", inputs=entering, outputs=(tensor(1, columns),), arguments={"dim": [0]})
    assert workspace_bytes_of(added, CHIP.compute_units) == seen_bytes
    along = Signature(op="aten::sum", inputs=entering, outputs=(tensor(rows),), arguments={"dim": [1]})
    assert workspace_bytes_of(along, CHIP.compute_units) == 0


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


def test_a_sum_over_a_middle_dimension_leaves_no_columns_where_sizes_are_equal():
    square = tensor(4, 4, 4, 36, 64)
    assert one("aten::sum", square, out=tensor(4, 4, 36, 64), dim=[1]).column_bytes == 0
    assert one("aten::sum", square, out=tensor(4, 4, 36, 64), dim=[-5]).column_bytes > 0
    assert one("aten::sum", tensor(4, 64, 64), out=tensor(4, 64), dim=[-1]).rows > 0


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
