"""Pieces: fused kernels move the least, eager ones more; dropout keeps a mask; long rows are slower to read."""

from dataclasses import replace

import pytest

from estimator.cost.efficiency import efficiencies_for
from estimator.cost.price import price
from estimator.operations import aten, elementwise
from estimator.operations.rank_sizes import rank_sizes
from estimator.scenario import catalog
from estimator.scenario.breakdown import Category
from estimator.scenario.op_list import Operand, Signature
from tests.estimator.examples import GPT, LLAMA, scenario

H200 = catalog.chip("h200-sxm")
HOPPER = efficiencies_for(H200, None)


def dims_of(model=LLAMA, *, precision="bf16", framework="pytorch-eager", **training):
    return rank_sizes(scenario(model, precision=precision, framework=framework, **training))


def kernels_of(piece):
    return [piece, *(kernels_of(piece.then[1]) if piece.then else [])]


def moved(piece):
    return sum(one.stream + one.slow_bytes for one in kernels_of(piece))


def launches(piece):
    return sum(one.launches for one in kernels_of(piece))


KEYS = 1024

ALL = {
    "rms norm": lambda d: elementwise.rms_norm(d, d.widths.residual, d.hidden),
    "layer norm": lambda d: elementwise.layer_norm(d, d.widths.residual, d.hidden),
    "rotary positions": elementwise.rope,
    "activation": elementwise.activation,
    "residual": elementwise.residual,
    "softmax": lambda d: elementwise.softmax(d, KEYS),
    "cross-entropy": elementwise.cross_entropy,
}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ALL)
def test_fusing_never_moves_more_nor_launches_more(name, precision):
    eager = ALL[name](dims_of(precision=precision))
    fused = ALL[name](dims_of(precision=precision, framework="pytorch-compile"))
    for e, f in zip(eager, fused, strict=True):
        assert moved(f) <= moved(e)
        assert f.strided == f.mixed == f.gelus == f.rows == 0
    assert sum(map(launches, fused)) <= sum(map(launches, eager))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", [name for name in ALL if name != "cross-entropy"])
def test_a_fused_forward_reads_and_writes_each_tensor_once(name, precision):
    e = 4 if precision == "fp32" else 2
    forward, _ = ALL[name](dims_of(precision=precision, framework="pytorch-compile"))
    # One input and one output; gated activations and additions have two inputs.
    tensors = 3 if name in ("activation", "residual") else 2
    assert moved(forward) == tensors * e


def test_fp32_moves_twice_the_bytes_of_bf16_when_fused():
    for make in ALL.values():
        wide = make(dims_of(precision="fp32", framework="pytorch-compile"))
        narrow = make(dims_of(precision="bf16", framework="pytorch-compile"))
        assert [moved(p) for p in wide] == [2 * moved(p) for p in narrow]


def test_the_model_chooses_its_norm():
    assert elementwise.norm(dims_of(LLAMA), 2, 64) == elementwise.rms_norm(dims_of(LLAMA), 2, 64)
    assert elementwise.norm(dims_of(GPT), 2, 64) == elementwise.layer_norm(dims_of(GPT), 2, 64)


def test_a_gated_activation_keeps_gate_up_and_product():
    forward, _ = elementwise.activation(dims_of(framework="megatron"))
    assert forward.saved == 3 * 2
    plain, _ = elementwise.activation(dims_of(GPT, framework="megatron"))
    assert plain.saved == 2 * 2


def test_dropout_keeps_one_byte_per_element_and_the_dropped_scores():
    # Korthikanti 2022, section 4: a mask of s·b·h for each of two dropouts; for the scores mask and output.
    without, dropped = dims_of(GPT, framework="megatron"), dims_of(GPT, framework="megatron", dropout=0.1)
    assert elementwise.residual(without)[0].saved == 0
    assert elementwise.residual(dropped)[0].saved == 1
    assert elementwise.softmax(without, KEYS)[0].saved == 2
    assert elementwise.softmax(dropped, KEYS)[0].saved == 2 + 1 + 2


def test_clamped_scores_are_compared_again_in_backward_and_never_dropped():
    plain, clamped = (
        elementwise.softmax(dims_of({**GPT, "clamped_scores": it}, precision="fp32", dropout=0.1 * it), KEYS)
        for it in (False, True)
    )
    assert moved(clamped[0]) == moved(plain[0])
    assert clamped[0].saved == plain[0].saved + 4
    assert moved(clamped[1]) == moved(plain[1]) - 2 * 4 + 40
    assert launches(clamped[1]) == launches(plain[1]) + 4
    fused = dims_of({**GPT, "clamped_scores": True}, framework="pytorch-compile", dropout=0.1)
    assert elementwise.softmax(fused, KEYS)[0].saved == 2 + 1 + 2


@pytest.mark.parametrize(
    ("vocab", "reads", "again"), [(10_200, 1, 2), (12_200, 1.548, 2), (12_300, 1.553, 3), (60_000, 3.3, 3)]
)
def test_longer_rows_take_as_long_as_more_reads(vocab, reads, again):
    # Backward, 48 KiB hold 12 256 fp32 logits beside what a block of threads sums by; forward, 200 KB are the most.
    d = dims_of({**LLAMA, "vocab": vocab}, precision="fp32")
    forward, backward = elementwise.cross_entropy(d)
    assert forward.stream == pytest.approx((reads + 1) * 4, rel=1e-3)
    assert backward.stream == 4 + (again + 1) * 4


@pytest.mark.parametrize("keys", [512, 1024, 1028, 4096])
def test_a_block_of_softmax_goes_over_its_row_twice_again_and_once_in_backward(keys):
    # MI250, rows of 1024 and 2048 alone: 1.05 and 0.48 of the rate of element-wise kernels.
    again = (8, 4) if keys > 1024 else (0, 0)
    both = elementwise.softmax(dims_of(GPT, precision="fp32"), keys)
    assert tuple(sum(one.reduced for one in kernels_of(piece)) for piece in both) == again
    scores = Operand(shape=(8, keys), dtype="float32")
    calls = ("_softmax", (scores,)), ("_softmax_backward_data", (scores, scores))
    assert again == tuple(
        sum(one.reduced_bytes for one in aten.kernels_of(Signature(op=f"aten::{op}", inputs=given, outputs=(scores,))))
        / (8 * keys)
        for op, given in calls
    )


# Seconds of kernels on one H200 (132 SMs at 1.98 GHz, torch 2.11, after a kernel that wrote what they read).
MEASURED_US = [
    ("gelu", 4_096, 16_384, "bfloat16", 90.8),
    ("gelu", 1_024, 16_384, "bfloat16", 23.9),
    ("gelu", 4_096, 16_384, "float32", 128.9),
    ("gelu_backward", 4_096, 16_384, "bfloat16", 121.3),
    ("silu", 4_096, 16_384, "bfloat16", 70.7),
    ("softplus", 4_096, 16_384, "bfloat16", 132.4),
    ("native_layer_norm", 65_536, 256, "bfloat16", 87.6),
    ("native_layer_norm", 21_845, 768, "bfloat16", 47.8),
    ("native_layer_norm", 16_384, 1_024, "float32", 54.0),
    ("native_layer_norm", 8_192, 2_048, "bfloat16", 32.6),
    ("native_layer_norm", 16_384, 4_096, "bfloat16", 104.8),
    ("_fused_rms_norm", 16_384, 1_024, "bfloat16", 24.4),
    ("_fused_rms_norm", 8_192, 2_048, "float32", 36.5),
    ("native_layer_norm_backward", 21_845, 768, "bfloat16", 129.4),
    ("native_layer_norm_backward", 16_384, 1_024, "bfloat16", 115.5),
    ("native_layer_norm_backward", 87_381, 768, "bfloat16", 249.0),
    ("native_layer_norm_backward", 16_384, 4_096, "float32", 439.7),
    ("_fused_rms_norm_backward", 16_384, 1_024, "bfloat16", 98.0),
    ("mean", 32_768, 2_048, "float32", 73.1),
    ("mean", 16_384, 1_024, "float32", 23.7),
    ("mean", 16_384, 4_096, "float32", 73.1),
    ("_softmax", 65_536, 1_024, "bfloat16", 107.0),
    ("_softmax", 65_536, 1_024, "float32", 132.8),
    ("_softmax", 16_384, 4_096, "bfloat16", 214.3),
    ("_softmax", 16_384, 4_096, "float32", 216.4),
    ("_log_softmax", 2_097, 32_000, "float32", 219.1),
    ("_log_softmax", 1_334, 50_304, "bfloat16", 104.6),
    ("_log_softmax", 523, 128_256, "float32", 266.6),
]


@pytest.mark.parametrize(("op", "rows", "width", "dtype", "measured_us"), MEASURED_US)
def test_kernels_alone_take_what_an_h200_took(op, rows, width, dtype, measured_us):
    one, weight = Operand(shape=(rows, width), dtype=dtype), Operand(shape=(width,), dtype=dtype)
    each = Operand(shape=(rows, 1), dtype="float32")
    inputs, outputs = {
        "native_layer_norm": ((one, weight, weight), (one, each, each)),
        "_fused_rms_norm": ((one, weight), (one, each)),
        "native_layer_norm_backward": ((one, one, each, each, weight, weight), (one, weight, weight)),
        "_fused_rms_norm_backward": ((one, one, each, weight), (one, weight)),
        "gelu_backward": ((one, one), (one,)),
        "mean": ((one,), (Operand(shape=(rows, 1), dtype=dtype),)),
    }.get(op, ((one,), (one,)))
    ops = aten.kernels_of(Signature(op=f"aten::{op}", inputs=inputs, outputs=outputs, arguments={"dim": -1}))
    seconds = sum(
        price(replace(one, category=Category.ATTENTION if op == "_softmax" else one.category), H200, HOPPER).seconds
        for one in ops
    )
    assert 1e6 * seconds == pytest.approx(measured_us, rel=0.16)


@pytest.mark.parametrize(("shape", "dims"), [((512, 1), [1]), ((512, 1), None), ((512,), [-1]), ((512,), None)])
def test_a_sum_along_rows_of_a_square_is_one(shape, dims):
    (made,) = sums_of_a_square(shape, dims)
    assert made.rows > 0
    assert made.column_bytes == 0


@pytest.mark.parametrize(("shape", "dims"), [((1, 512), [0]), ((1, 512), None), ((512,), [0])])
def test_a_sum_over_rows_of_a_square_leaves_columns(shape, dims):
    (made,) = sums_of_a_square(shape, dims)
    assert made.column_bytes > 0
    assert made.rows == 0


def sums_of_a_square(shape, dims):
    one, left = (Operand(shape=sizes, dtype="float32") for sizes in ((512, 512), shape))
    arguments = {} if dims is None else {"dim": dims}
    return aten.kernels_of(Signature(op="aten::sum", inputs=(one,), outputs=(left,), arguments=arguments))
