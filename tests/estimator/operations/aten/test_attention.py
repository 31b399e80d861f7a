"""Kernels of fused attention: what they see, at whose rate they run, how often they multiply backward."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from estimator.cost.price import price
from tests.estimator.operations.aten.signatures import CHIP, E, one, tensor

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
