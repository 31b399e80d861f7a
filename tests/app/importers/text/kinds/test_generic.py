from __future__ import annotations

import pytest

from tests.app.importers.reading import codes, one, read


def test_unknown_tables_keep_their_rows_and_ask_for_units(tmp_path):
    text = "| gpu | queue delay | watt hours | transfers | copy (ms) |\n|---|---|---|---|---|\n"
    text += "| a | 5 | 1.5 | 7 | 2.5 |\n| b | OOM | 2.5 | 8 | 3.5 |\n"
    imported = read(tmp_path, text)
    measurement = one(imported, "table")
    assert measurement.rows[0] == {"gpu": "a", "queue_delay": 5, "watt_hours": 1.5, "transfers": 7, "copy_s": 0.0025}
    assert {"unrecognised-table", "unit-missing", "oom-cells"} <= codes(imported)
    (asked,) = [warning for warning in imported.warnings if warning.code == "unit-missing"]
    assert "watt hours" in asked.message
    assert "transfers" not in asked.message


def test_a_word_among_figures_makes_no_second_column(tmp_path):
    imported = read(tmp_path, "| op | time (ms) | note |\n|---|---|---|\n| a | 5 | x |\n| b | crashed | y |\n")
    rows = one(imported, "table").rows
    assert [row["time_s"] for row in rows] == [0.005, None]
    assert {key for row in rows for key in row} == {"op", "time_s", "note"}
    (said,) = [warning for warning in imported.warnings if warning.code == "words-in-figures"]
    assert "1 cell of 'time' holds no figure and is kept empty: 'crashed'" in said.message


def test_tables_of_one_name_are_told_apart(tmp_path):
    text = "# Ops\n| op | time (ms) |\n|---|---|\n| a | 5 |\n\nThen:\n\n| kernel | time (ms) |\n|---|---|\n| b | 6 |\n"
    assert [one.label for one in read(tmp_path, text).measurements] == ["Ops, line 2", "Ops, line 8"]


@pytest.mark.parametrize("header", ["latency", "total time", "memory", "bandwidth"])
def test_whole_numbers_of_a_quantity_need_a_unit_too(tmp_path, header):
    imported = read(tmp_path, f"gpu,{header}\na,5\nb,6\n")
    assert "unit-missing" in codes(imported)
    assert 5.0 in one(imported).rows[0].values()


@pytest.mark.parametrize(("header", "scale"), [("ms", 1e-3), ("µs", 1e-6), ("seconds", 1.0)])
def test_a_header_that_is_a_unit_of_time_needs_no_other(tmp_path, header, scale):
    imported = read(tmp_path, f"name,{header}\nforward,12.5\nbackward,24\n")
    assert one(imported, "table").rows[0] == {"name": "forward", "time_s": pytest.approx(12.5 * scale)}
    assert "unit-missing" not in codes(imported)


def test_unknown_tables_may_repeat_their_names(tmp_path):
    assert one(read(tmp_path, "gpu,x (ms),x (ms),\na,1,2,3\n")).rows[0] == {
        "gpu": "a",
        "x_s": 0.001,
        "x_2_s": 0.002,
        "column_4": 3,
    }


def test_every_table_is_a_measurement_of_its_own_heading(tmp_path):
    text = "# One\n\ngpu,x (ms)\na,1\n\n# Two\n\ngpu,x (ms)\na,2\n"
    assert [m.label for m in read(tmp_path, text).measurements] == ["One", "Two"]
    assert [m.label for m in read(tmp_path, "gpu,x (ms)\na,1\n", "mine.csv").measurements] == ["mine.csv"]


def test_what_llama_bench_prints(tmp_path):
    text = "| model | size | params | test | t/s |\n|---|---:|---:|---:|---:|\n"
    text += "| llama 7B Q4_0 | 3.56 GiB | 6.74 B | pp512 | 2434.36 ± 30.13 |\n"
    imported = read(tmp_path, text)
    assert one(imported, "table").rows[0] == {
        "model": "llama 7B Q4_0", "size_bytes": pytest.approx(3.56 * 2**30), "params": 6_740_000_000, "test": "pp512",
        "tokens_per_s": 2434.36, "tokens_per_s_std": 30.13,
    }  # fmt: skip
    assert "unit-missing" not in codes(imported)
