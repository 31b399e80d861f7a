from __future__ import annotations

import pytest

from tests.app.importers.reading import codes, one, read


def table(unit="", scale=1.0):
    lines = [f"seq_len  d_model  fwd_naive{unit}  fwd_mine{unit}  bwd_naive{unit}  speedup_fwd"]
    for seq in (1024, 8192, 16384):
        slow, fast = 4 * seq**2 * 64 / 10e12, 4 * seq**2 * 64 / 80e12
        lines.append(f"{seq}  64  {slow / scale:.9f}  {fast / scale:.9f}  OOM  8.0x")
    return "\n".join(lines)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-6])
def test_the_unit_is_inferred_where_only_one_is_possible(tmp_path, scale):
    imported = read(tmp_path, table(scale=scale))
    row = one(imported, "attention-implementations").rows[-1]
    assert "unit-inferred" in codes(imported)
    assert row["mine_forward_s"] == pytest.approx(4 * 16384**2 * 64 / 80e12, rel=1e-3)
    assert (row["naive_backward_s"], row["forward_speedup"], row["status"]) == (None, 8.0, "ok")


def test_a_printed_unit_is_believed(tmp_path):
    imported = read(tmp_path, table(unit=" (us)", scale=1e-6))
    assert "unit-inferred" not in codes(imported)
    assert one(imported).rows[0]["mine_forward_s"] == pytest.approx(4 * 1024**2 * 64 / 80e12, rel=1e-3)


@pytest.mark.parametrize("seq_len", ["short", "128"])
def test_without_sizes_the_unit_is_asked_for(tmp_path, seq_len):
    text = f"seq_len  d_model  fwd_naive  fwd_mine\n{seq_len}  wide  1.5  2.5\n{seq_len}  wide  3.5  4.5\n"
    imported = read(tmp_path, text)
    assert "unit-missing" in codes(imported)
    assert one(imported).rows[0]["naive_forward"] == 1.5


def test_precision_and_batch(tmp_path):
    text = "seq_len,d_model,precision,batch,ft_torch (ms),ft_triton (ms)\n128,64,f32,8,1.5,0.5\n"
    assert one(read(tmp_path, text)).rows[0] == {
        "seq_len": 128,
        "d_model": 64,
        "precision": "fp32",
        "batch": 8,
        "torch_forward_s": 0.0015,
        "triton_forward_s": 0.0005,
        "status": "ok",
    }
