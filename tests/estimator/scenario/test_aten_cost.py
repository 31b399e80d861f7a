"""FLOPs and bytes of single ops, against the shapes that PyTorch records for them."""

from __future__ import annotations

import pytest

from estimator.scenario.aten_cost import bytes_of, flops_of

B, H, S, D = 2, 8, 64, 16
QKV = [[B, H, S, D], [B, 2, S, D], [B, 2, S, D]]
INNER = [[B, S, H, D], [B, S, 2, D], [B, S, 2, D]]


@pytest.mark.parametrize(
    ("op", "shapes", "flops"),
    [
        ("aten::mm", [[3, 5], [5, 7]], 2 * 3 * 5 * 7),
        ("aten::addmm", [[7], [3, 5], [5, 7], [], []], 2 * 3 * 5 * 7),
        ("aten::bmm", [[4, 3, 5], [4, 5, 7]], 2 * 4 * 3 * 5 * 7),
        ("aten::baddbmm", [[4, 3, 7], [4, 3, 5], [4, 5, 7]], 2 * 4 * 3 * 5 * 7),
        ("aten::mv", [[3, 5], [5]], 2 * 3 * 5),
        ("aten::_scaled_dot_product_flash_attention", QKV, 4 * B * H * S * S * D),
        ("aten::_cudnn_attention_forward", QKV, 4 * B * H * S * S * D),
        ("aten::_cudnn_attention_backward", [QKV[0], *QKV], 10 * B * H * S * S * D),
        ("aten::_flash_attention_forward", INNER, 4 * B * H * S * S * D),
        ("aten::_scaled_dot_product_efficient_attention_backward", [QKV[0], *QKV], 10 * B * H * S * S * D),
        ("aten::_flash_attention_backward", [INNER[0], *INNER], 10 * B * H * S * S * D),
    ],
)
def test_flops(op, shapes, flops):
    assert flops_of(op, shapes) == flops


@pytest.mark.parametrize("op", ["aten::scaled_dot_product_attention", "aten::_scaled_dot_product_attention_math"])
def test_ops_that_call_others_have_no_flops_of_their_own(op):
    assert flops_of(op, QKV) is None


@pytest.mark.parametrize(
    ("op", "shapes"), [("aten::mul", [[3], [3]]), ("aten::mm", []), ("aten::mm", [[], []]), ("aten::bmm", [[1, 2, 3]])]
)
def test_unknown_ops_and_missing_shapes_have_none(op, shapes):
    assert flops_of(op, shapes) is None
    assert bytes_of(op, shapes, ["float", "float"]) is None


def test_bytes_of_a_product_and_of_attention():
    assert bytes_of("aten::mm", [[3, 5], [5, 7]], ["float", "float"]) == 4 * (15 + 35 + 21)
    assert bytes_of("aten::addmm", [[7], [3, 5], [5, 7]], ["c10::BFloat16"] * 3) == 2 * (15 + 35 + 21)
    queries, keys = B * H * S * D, B * 2 * S * D
    forward = bytes_of("aten::_scaled_dot_product_flash_attention", QKV, ["c10::Half"] * 3)
    assert forward == 2 * (2 * queries + 2 * keys)
    assert bytes_of("aten::_flash_attention_backward", [INNER[0], *INNER], ["c10::Half"] * 4) == 2 * forward


def test_bytes_of_an_unknown_type_are_unknown():
    assert bytes_of("aten::mm", [[3, 5], [5, 7]], ["c10::Float8", "c10::Float8"]) is None
