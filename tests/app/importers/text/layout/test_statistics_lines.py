from __future__ import annotations

from app.importers.text.layout.statistics_lines import read


def test_unit_after_the_last_statistic():
    lines = ["GLOO | cpu  | 2 proc |    1 MB -> min   0.68 mean    0.88 max   1.19 MB/s"]
    table, _ = read(lines, 0)
    assert table.columns == ("label 1", "label 2", "label 3", "label 4", "min (MB/s)", "mean (MB/s)", "max (MB/s)")
    assert table.rows == (("GLOO", "cpu", "2 proc", "1 MB", "0.68", "0.88", "1.19"),)


def test_unit_in_the_label():
    table, _ = read(["Flat | backward (ms) |min 0.94 | mean 0.97 | max 1.03"], 0)
    assert table.columns == ("label 1", "label 2", "min (ms)", "mean (ms)", "max (ms)")
    assert table.rows[0][1] == "backward (ms)"


def test_notices_between_lines_are_passed_over():
    line = "NCCL | 2 proc | 1 MB -> min 1 mean 2 max 3 ms"
    table, after = read([line, "[WARNING] NCCL needs more GPUs", line, "end"], 0)
    assert (len(table.rows), table.lines, after) == (2, (1, 3), 3)


def test_lines_of_another_shape_end_the_run():
    table, after = read(["a -> min 1 mean 2", "a | b -> min 1 mean 2"], 0)
    assert (len(table.rows), after) == (1, 1)


def test_what_is_no_such_line():
    assert read(["the mean 3 of these"], 0) is None
    assert read(["min 1 max 2"], 0) is None
