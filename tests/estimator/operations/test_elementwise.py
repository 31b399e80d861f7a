"""Pieces: fused kernels move the least, eager ones more; dropout keeps a mask; long rows are read three times."""

import pytest

from estimator.operations import elementwise
from estimator.operations.rank_sizes import rank_sizes
from tests.estimator.examples import GPT, LLAMA, scenario


def dims_of(model=LLAMA, *, precision="bf16", framework="pytorch-eager", **training):
    return rank_sizes(scenario(model, precision=precision, framework=framework, **training))


def moved(piece):
    return piece.stream + piece.slow_bytes


ALL = {
    "rms norm": lambda d: elementwise.rms_norm(d, d.widths.residual),
    "layer norm": lambda d: elementwise.layer_norm(d, d.widths.residual),
    "rotary positions": elementwise.rope,
    "activation": elementwise.activation,
    "residual": elementwise.residual,
    "softmax": elementwise.softmax,
    "cross-entropy": elementwise.cross_entropy,
}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ALL)
def test_fusing_never_moves_more_nor_launches_more(name, precision):
    eager = ALL[name](dims_of(precision=precision))
    fused = ALL[name](dims_of(precision=precision, framework="pytorch-compile"))
    for e, f in zip(eager, fused, strict=True):
        assert moved(f) <= moved(e)
        assert f.strided == f.mixed == 0
    assert sum(f.launches for f in fused) <= sum(e.launches for e in eager)


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
    assert elementwise.norm(dims_of(LLAMA), 2) == elementwise.rms_norm(dims_of(LLAMA), 2)
    assert elementwise.norm(dims_of(GPT), 2) == elementwise.layer_norm(dims_of(GPT), 2)


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
    assert elementwise.softmax(without)[0].saved == 2
    assert elementwise.softmax(dropped)[0].saved == 2 + 1 + 2


@pytest.mark.parametrize(("vocab", "reads", "again"), [(12_200, 1, 2), (12_300, 3, 3)])
def test_rows_beyond_shared_memory_are_read_three_times(vocab, reads, again):
    # 48 KiB hold 12 256 fp32 logits beside what a block of threads sums by.
    d = dims_of({**LLAMA, "vocab": vocab}, precision="fp32")
    forward, backward = elementwise.cross_entropy(d)
    assert forward.stream == (reads + 1) * 4
    assert backward.stream == 4 + (again + 1) * 4
