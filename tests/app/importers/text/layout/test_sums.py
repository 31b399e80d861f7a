from __future__ import annotations

import pytest

from app.importers.text.layout.scan import scan

MARKDOWN = ("| model | batch | step (ms) |", "|---|---|---|", "| gpt2 | 8 | 118 |", "| gpt2 | 8 | 122 |")


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        (MARKDOWN, "| **Average** | | **120** |"),
        (MARKDOWN, "| Mean | - | 120 |"),
        (MARKDOWN, "|Total|—|240|"),
        (("run;model;tokens/s", "1;llama3-8b;98500", ";;", "2;llama3-8b;191000"), "Mittelwert;;144750"),
    ],
)
def test_a_row_that_sums_up_the_others_is_none_in_any_form(lines, last):
    (table,) = scan("\n".join([*lines, last])).blocks
    assert (len(table.rows), table.sums) == (2, (5,))


@pytest.mark.parametrize(
    "lines", [(*MARKDOWN, "| total | 8 | 120 |"), ("collective;bytes;us", "sum;1024;12", "mean;1024;13")]
)
def test_what_is_only_called_so_and_has_all_that_the_others_have_is_one_of_them(lines):
    (table,) = scan("\n".join(lines)).blocks
    assert table.sums == ()
