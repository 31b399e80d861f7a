from __future__ import annotations

import pytest

from app.importers.text.layout.aligned import read

RULED = """\
Model      Params       Forward (s)     Backward (s)
----------------------------------------------------
small_seq128 128,625,408 0.024990±0.003563 0.038322±0.002954
xl_seq128  1,998,235,200 0.147299±0.000618 0.310275 ± 0.001511
====================================================
"""


def test_rows_narrower_than_their_header():
    table, after = read(RULED.splitlines(), 0)
    assert table.columns == ("Model", "Params", "Forward(s)", "Backward(s)")
    assert [row[0] for row in table.rows] == ["small_seq128", "xl_seq128"]
    assert table.rows[1][3] == "0.310275±0.001511"
    assert after == 4


def test_header_with_single_spaces():
    table, _ = read(["d_model seq_len fwd(ms)", "16      256     0.12", "16      16384   OOM"], 0)
    assert table.columns == ("d_model", "seq_len", "fwd(ms)")
    assert table.rows == (("16", "256", "0.12"), ("16", "16384", "OOM"))


def test_names_with_spaces_need_wide_gaps():
    table, _ = read(["Config               Speedup", "d=16, seq=256        0.75", "d=16, seq=1024       0.76"], 0)
    assert table.rows[0] == ("d=16, seq=256", "0.75")


def test_index_column_of_pandas():
    table, _ = read(["   seq    ms", "0  128  0.10", "1  256  0.20"], 0)
    assert table.columns == ("seq", "ms")
    assert table.rows == (("128", "0.10"), ("256", "0.20"))


@pytest.mark.parametrize(
    "text",
    [
        "The kernel takes most time\nand this is a longer line of 5 words",
        "2 def __init__(self, in_features: int):\n3 super().__init__()",
        "a b\n1 2",
        "",
        "Only a header  here",
    ],
)
def test_prose_is_no_table(text):
    assert read(text.split("\n"), 0) is None
