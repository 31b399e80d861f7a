from __future__ import annotations

import pytest

from tests.app.importers.reading import codes, one, read

HEADER = "head_dim  seq_len  fwd (ms)  bwd (ms)  peak mem (MB)\n"


def table(ratio, unit=1024**2, batch=8):
    lines = []
    for seq in (1024, 2048, 4096, 8192):
        forward = 3e-7 * seq**2
        peak = (4 * batch * 4 * seq**2 + 8 * batch * 4 * seq * 64) / unit
        lines.append(f"64  {seq}  {forward:.3f}  {forward * ratio:.3f}  {peak:.2f}")
    return HEADER + "\n".join(lines)


@pytest.mark.parametrize(("unit", "code"), [(1024**2, "mb-is-mib"), (1e6, "mb-is-decimal")])
def test_megabytes_of_either_kind(tmp_path, unit, code):
    imported = read(tmp_path, table(2.2, unit))
    assert code in codes(imported)
    assert one(imported).rows[-1]["peak_memory_bytes"] == pytest.approx(
        4 * 8 * 4 * 8192**2 + 8 * 8 * 4 * 8192 * 64, rel=1e-4
    )


def test_backward_alone_stays_backward(tmp_path):
    imported = read(tmp_path, table(2.3))
    assert "backward-contains-forward" not in codes(imported)
    assert "backward_s" in one(imported).rows[0]


def test_backward_with_the_forward_inside(tmp_path):
    imported = read(tmp_path, table(3.3))
    assert "backward-contains-forward" in codes(imported)
    assert {"forward_s", "forward_backward_s"} <= set(one(imported).rows[0])


def test_two_lengths_leave_the_megabyte_open(tmp_path):
    imported = read(tmp_path, "\n".join(table(2.2).splitlines()[:3]))
    assert "mb-ambiguous" in codes(imported)


def test_versions_and_precisions(tmp_path):
    text = "version  d_model  seq_len  dtype  forward (us)\ncompiled  16  128  f32  5.5\neager  16  128  bf16  6.5\n"
    first, second = one(read(tmp_path, text), "attention").rows
    assert (first["compile"], first["precision"], first["forward_s"]) == (True, "fp32", 5.5e-6)
    assert (second["compile"], second["precision"]) == (False, "bf16")


def test_a_sentence_before_a_table_of_attention_says_its_batch_and_precision(tmp_path):
    table = "| d_model | seq_len | Forward (ms) | Backward (ms) |\n|---|---|---|---|\n| 16 | 256 | 0.14 | 0.31 |\n"
    found = one(read(tmp_path, "### attention\n\nBatch size 16, single head, bf16, A100\n\n" + table))
    assert (found.origin.format, found.rows[0]["batch"], found.rows[0]["precision"]) == ("text/attention", 16, "bf16")
    assert "said-in-text" in codes(found)
