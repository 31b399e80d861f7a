from __future__ import annotations

import time

import pytest

from app.importers.text.layout.document import Fields, Table, label, place
from app.importers.text.layout.lines import LONGEST
from app.importers.text.layout.scan import scan

TEXT = """\
# Results

## (a)

compiled
Seq  ms
---------
128  1.5
256  2.5
xl ran out of memory

```python
# not a heading
x  ms
1  2.0
2  3.0
```

# Second
====
Block title
====
Mean: 1 ms
Max: 2 ms
"""


def test_blocks_with_their_surroundings():
    first, second, third = scan(TEXT).blocks
    assert isinstance(first, Table)
    assert first.around.heading == ("Results", "(a)")
    assert first.around.labels == ("compiled",)
    assert first.around.before == ("compiled",)
    assert first.around.after[0] == "xl ran out of memory"
    assert second.around.heading == ("Results", "(a)")
    assert isinstance(third, Fields)
    assert third.title == "Block title"
    assert label(third) == "Second"
    assert place(third) == "line 23 (Second)"


def test_comments_of_a_program_are_no_headings():
    table = "\n\nx  ms\n1  2.0\n2  3.0\n"
    program = "import os\n# Results\n\n## Times\n# sum these columns\ncols = ['x']\n    # of each layer\n    y = 1\n"
    assert scan(program + table).blocks[0].around.heading == ("Results", "Times")
    assert scan(program.replace("cols = ", "") + table).blocks[0].around.heading == ("sum these columns",)
    # a report may state its settings right below a heading
    report = "# Results\nbatch = 4"
    assert scan(report + table).blocks[-1].around.heading == ("Results",)


def test_long_lines_are_passed_over():
    document = scan("a" * (LONGEST + 1) + "\nx  ms\n1  2.0\n2  3.0\n")
    assert document.long_lines == 1
    assert len(document.blocks) == 1


def test_hostile_text_takes_no_longer_than_its_length():
    for line in (
        "a: b",
        "a,b",
        "x  y",
        "| a |",
        "min 1 mean 2 max",
        "1 2 3",
        "a" * 5000,
        "%" * 5000,
        "(" * 5000,
        "1," * 2500,
    ):
        few_s, many_s = (scanned_s([line] * count) for count in (200, 800))
        assert many_s < 8 * few_s + 0.2, line[:20]


def scanned_s(lines: list[str]) -> float:
    start_s = time.process_time()
    scan("\n".join(lines))
    return time.process_time() - start_s


TABLES = {
    "markdown": ("| name | a (ms) |", "|---|---|", "| row | 1.5 |"),
    "delimited": ("name,a (ms)", "row,1.5", "row,1.5"),
    "aligned": ("name  a (ms)", "row   1.5", "row   1.5"),
    "statistics": tuple(["1 MB: min 1 mean 2 max 3 MB/s"] * 3),
    "fields": ("forward: 1 ms", "forward: 2 ms", "forward: 3 ms"),
}


@pytest.mark.parametrize("form", TABLES)
def test_a_table_that_is_not_too_long_is_the_same_under_a_limit(form):
    """Wherever it stands in a text that is longer than the limit."""
    first, second, row = TABLES[form]
    table = [first, second, *[row] * 40]
    text = "\n".join(["# heading", "", *(["nothing to see"] * 30), "", *table, "", *(["nothing"] * 3000), "", *table])
    assert scan(text, 60) == scan(text)
    assert len(scan(text).blocks) == 2


@pytest.mark.parametrize("form", ["markdown", "delimited", "aligned"])
def test_a_table_that_is_too_long_is_not_read_to_its_end(form):
    first, second, row = TABLES[form]
    text = "\n".join([first, second, *[row] * 300_000])
    began_s = time.process_time()
    document = scan(text, 10_000)
    assert time.process_time() - began_s < 3
    assert 10_000 < len(document.blocks[0].rows) < 20_000


def test_a_list_that_is_longer_than_a_table_may_be_is_read_whole():
    text = "\n".join(f"forward: {i} ms" for i in range(5000))
    assert scan(text, 100) == scan(text)
