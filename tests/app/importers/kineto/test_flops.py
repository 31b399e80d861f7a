from __future__ import annotations

import json

import pytest

from app.importers.kineto.flops import arithmetic, results_of, score_size, touches_scores


def shape(dims, kind="c10::BFloat16", concrete=()):
    return json.dumps(dims).encode(), json.dumps([kind] * len(dims)).encode(), json.dumps(list(concrete)).encode()


@pytest.mark.parametrize(
    ("name", "dims", "flops", "moved"),
    [
        ("aten::mm", [[3, 5], [5, 7]], 2 * 3 * 5 * 7, 2 * (15 + 35 + 21)),
        ("aten::addmm", [[7], [3, 5], [5, 7], [], []], 2 * 3 * 5 * 7, 2 * (15 + 35 + 21)),
        ("aten::bmm", [[2, 3, 5], [2, 5, 7]], 2 * 2 * 3 * 5 * 7, 2 * 2 * (15 + 35 + 21)),
        ("aten::_flash_attention_forward", [[2, 16, 4, 8]] * 3, 4 * 2 * 4 * 16 * 16 * 8, 2 * 4 * 1024),
        ("aten::_cudnn_attention_forward", [[2, 4, 16, 8]] * 3, 4 * 2 * 4 * 16 * 16 * 8, 2 * 4 * 1024),
        ("aten::_cudnn_attention_backward", [[2, 4, 16, 8]] * 5, 10 * 2 * 4 * 16 * 16 * 8, 2 * 8 * 1024),
        ("aten::linear", [[3, 5], [7, 5]], None, None),
        ("aten::matmul", [[3, 5], [5, 7]], None, None),
        ("aten::add", [[3, 5], [3, 5]], None, None),
    ],
)
def test_products_and_attention(name, dims, flops, moved):
    assert arithmetic(name, shape(dims)) == (flops, moved)


def test_convolution_forward_and_backward():
    concrete = ["", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"]
    dims = [[2, 3, 32, 32], [8, 3, 3, 3], [8], [], [], [], []]
    each = 2.0 * (2 * 8 * 16 * 16) * (3 * 3 * 3)
    assert arithmetic("aten::mkldnn_convolution", shape(dims, "float", concrete))[0] == each
    backward = ["", "", "", "[8]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, True]"]
    dims = [[2, 8, 16, 16], [2, 3, 32, 32], [8, 3, 3, 3]]
    assert arithmetic("aten::convolution_backward", shape(dims, "float", backward))[0] == 2 * each
    backward[-1] = "[False, True, True]"
    assert arithmetic("aten::convolution_backward", shape(dims, "float", backward))[0] == each


def test_a_convolution_without_its_strides_is_known_by_its_backward_alone():
    entering, weight, leaving = [2, 3, 32, 32], [8, 3, 3, 3], [2, 8, 16, 16]
    each = 2.0 * (2 * 8 * 16 * 16) * (3 * 3 * 3)
    forward = shape([entering, weight, [], [], [], [], [], []])
    prefix = "aten::cudnn_convolution"
    assert arithmetic(prefix, forward) == (None, None)
    assert arithmetic(f"{prefix}_backward_input", shape([[], leaving, weight, [], []]))[0] == each
    assert arithmetic(f"{prefix}_backward_input", shape([[], leaving]))[0] is None
    for name, dims in (
        (f"{prefix}_backward", [entering, leaving, weight]),
        ("aten::convolution_backward", [leaving, entering, weight]),
    ):
        told = results_of([(name, shape(dims)), ("aten::mm", shape([[2, 3], [3, 4]]))])
        assert arithmetic(prefix, forward, told)[0] == each
    other = [entering, [2, 8, 15, 15], weight]
    told = results_of([(f"{prefix}_backward", shape(dims)) for dims in ([entering, leaving, weight], other)])
    assert arithmetic(prefix, forward, told) == (None, None), "two results contradict"


@pytest.mark.parametrize(
    "dims",
    [
        [],
        [[]],
        [1, 2],
        [["a", "b"], [1]],
        [[-1, 2], [2, 3]],
        [[10**12, 2], [2, 3]],
        [[[1, 2]], [[3]]],
        {"a": 1},
        [None] * 4,
    ],
)
@pytest.mark.parametrize("name", ["aten::mm", "aten::bmm", "aten::_flash_attention_forward", "aten::cudnn_convolution"])
def test_shapes_that_are_none(name, dims):
    flops, _ = arithmetic(name, shape(dims))
    assert flops is None or flops >= 0


@pytest.mark.parametrize(
    "concrete", [[], ["", "", "", "[0, 0]", "[1, 1]", "[1, 1]"], ["x"] * 9, ["", "", "", "[9999999999]"]]
)
def test_convolutions_with_impossible_settings(concrete):
    assert arithmetic("aten::mkldnn_convolution", shape([[2, 3, 8, 8], [8, 3, 3, 3]], "float", concrete))[0] in (
        None,
        2.0 * (2 * 8 * 6 * 6) * 27,
    )


def test_scores_of_eager_attention():
    assert score_size("aten::bmm", shape([[8, 128, 16], [8, 16, 128]])) == (8, 128)
    assert score_size("aten::baddbmm", shape([[8, 128, 128], [8, 128, 16], [8, 16, 128]])) == (8, 128)
    assert score_size("aten::bmm", shape([[8, 16, 128], [8, 128, 16]])) is None
    assert score_size("aten::mm", shape([[128, 16], [16, 128]])) is None
    assert touches_scores(shape([[2, 4, 128, 128]]), {(8, 128)})
    assert not touches_scores(shape([[2, 4, 128, 64]]), {(8, 128)})
