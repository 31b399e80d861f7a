from __future__ import annotations

from app.importers.text.values.precision import from_label, from_text, is_mixed


def test_spellings():
    assert [from_text(t) for t in ("f32", "torch.float32", "BF16", "**half**", "int4")] == [
        "fp32",
        "fp32",
        "bf16",
        "fp16",
        "int4",
    ]
    assert from_label("FP32:") == "fp32"
    assert {from_text(t) for t in ("fp4", "NVFP4", "mxfp4", "float4")} == {"fp4"}
    assert from_label("FP32 results") == ""


def test_mixed_precision_headings():
    assert is_mixed(("benchmarking_mixed_precision", "(c)"))
    assert is_mixed(("Autocast",))
    assert not is_mixed(("torch_compile", "(b)"))
