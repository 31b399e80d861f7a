from __future__ import annotations

from app.importers.text.layout.markdown import read


def test_table_of_pandas_loses_its_index():
    lines = ["|    |   a |   b |", "|---:|----:|----:|", "|  0 |   1 |  2  |", "|  1 |   3 |     |", "", "after"]
    table, after = read(lines, 0)
    assert table.columns == ("a", "b")
    assert table.rows == (("1", "2"), ("3", ""))
    assert (table.line, table.lines, after) == (1, (3, 4), 4)


def test_table_without_outer_pipes_and_with_escaped_ones():
    table, _ = read([r"name | ms", "---|---", r"a \| b | 4.5"], 0)
    assert table.rows == ((r"a \| b", "4.5"),)


def test_short_rows_are_filled():
    table, _ = read(["| a | b | c |", "|---|---|---|", "| 1 |"], 0)
    assert table.rows == (("1", "", ""),)


def test_what_is_no_table():
    assert read(["| a | b |", "no rule"], 0) is None
    assert read(["| a | b |", "|---|---|---|", "| 1 | 2 |"], 0) is None
    assert read(["| a | b |", "|---|---|"], 0) is None
    assert read(["a | b"], 0) is None
