from __future__ import annotations

from app.importers.text.layout.delimited import read


def test_csv_with_quoted_commas():
    table, after = read(["name,total (ns)", '"gemm<a, b>",12', "relu,3", "", "x,y"], 0)
    assert table.rows == (("gemm<a, b>", "12"), ("relu", "3"))
    assert after == 3


def test_tabs_and_semicolons():
    assert read(["a\tb", "1\t2"], 0)[0].columns == ("a", "b")
    assert read(["a;b", "1,5;2"], 0)[0].rows == (("1,5", "2"),)


def test_rows_of_another_width_end_the_table():
    table, after = read(["a,b", "1,2", "1,2,3"], 0)
    assert (len(table.rows), after) == (1, 2)


def test_prose_is_no_table():
    assert (
        read(["- When values are large (65,504), squaring overflows", "- it ends at 65,504, so above 255 it fails"], 0)
        is None
    )
    assert read(["First, we do this", "Then, we do that"], 0) is None
    assert read(["1,2", "3,4"], 0) is None
    assert read(['"a,b', "1,2"], 0) is None


def test_words_in_a_thousand_lines_are_given_up_early():
    lines = ["a,b"] * 1000
    assert read(lines, 0) is None


def test_columns_may_have_the_long_names_that_programs_give_runs():
    run = "gpt2_last_character_token_to_character1729587337.8266432-lr3e-4-bs512 - train/loss__MIN"
    table, _ = read([f'"Step","{run}"', '"0","10.98"'], 0)
    assert table.columns == ("Step", run)


def test_a_spreadsheet_s_empty_row_is_none():
    table, after = read(["run;model;tokens/s", "1;llama3-8b;98500", ";;", "2;llama3-8b;191000"], 0)
    assert (after, table.lines) == (4, (2, 4))
