from __future__ import annotations

from app.importers.text.layout.share_lists import COLUMNS, read


def test_both_orders():
    table, after = read(["ampere_sgemm 241 times 43%", "and", "other_kernel 96 times 4.5%", "", "end"], 0)
    assert table.columns == COLUMNS
    assert table.rows == (("ampere_sgemm", "241", "43"), ("other_kernel", "96", "4.5"))
    assert after == 3
    table, _ = read(["14.0%\tvoid a<b, c>(int)", "3 % x"], 0)
    assert table.rows == (("void a<b, c>(int)", "", "14.0"), ("x", "", "3"))


def test_one_line_or_a_bullet_is_no_list():
    assert read(["14.0% of all people"], 0) is None
    assert read(["- **3.6%**: copies", "- **2.4%**: products"], 0) is None
