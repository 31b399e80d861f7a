from __future__ import annotations

import pytest

from app.importers.text.layout.grid import read
from tests.app.importers.reading import one
from tests.app.importers.reading import read as imported

GRID = """\
+---------+-----------+
| model   | step (ms) |
+=========+===========+
| gpt2    | 10.5      |
+---------+-----------+
| gpt2-xl | 40.5      |
+---------+-----------+
"""
PRETTY = """\
+---------+-----------+
|  model  | step (ms) |
+---------+-----------+
|  gpt2   |   10.5    |
| gpt2-xl |   40.5    |
+---------+-----------+
"""
DATABASE = """\
  model  | step (ms)
---------+-----------
 gpt2    |      10.5
 gpt2-xl |      40.5
(2 rows)
"""
BOX = """\
┏━━━━━━━━━┳━━━━━━━━━━━┓
┃ model   ┃ step (ms) ┃
┡━━━━━━━━━╇━━━━━━━━━━━┩
│ gpt2    │ 10.5      │
│ gpt2-xl │ 40.5      │
└─────────┴───────────┘
"""


@pytest.mark.parametrize("text", [GRID, PRETTY, DATABASE, BOX])
def test_tables_of_bars_and_rules_are_read(tmp_path, text):
    rows = one(imported(tmp_path, f"# Steps\n\n{text}"), "step-times").rows
    assert [(row["model"], row["step_s"]) for row in rows] == [("gpt2", 0.0105), ("gpt2-xl", 0.0405)]


def test_wrapped_cells_are_put_together():
    lines = """\
| model  | step  |
|        | (ms)  |
+--------+-------+
| llama3 | 10.5  |
| -8b    |       |
|        | ± 0.5 |
+--------+-------+
|        | 3     |
+--------+-------+""".splitlines()
    table, after = read(lines, 0)
    assert table.columns == ("model", "step (ms)")
    assert table.rows == (("llama3", "10.5"), ("-8b", "± 0.5"), ("", "3")), "a name that goes on is another row"
    assert (table.lines, after) == ((4, 5, 8), 9)


@pytest.mark.parametrize("text", ["| a | b |\n1", "| a | b |\n+--+--+", "a\n+--+--+\n1", "| a | b |", ""])
def test_what_is_no_grid(text):
    assert read(text.split("\n"), 0) is None
