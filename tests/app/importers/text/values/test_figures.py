from __future__ import annotations

from app.importers.text.layout.document import Table
from app.importers.text.reading import row_status
from app.importers.text.values.figures import Findings, columns_of, put, scaled, whole
from app.importers.text.values.header import column
from app.importers.text.values.units import Unit


def test_units_of_cell_header_and_assumption_in_that_order():
    findings, row = Findings(), {}
    put(row, "a", "5 us", column("a (ms)"), findings)
    put(row, "b", "5", column("b (ms)"), findings)
    put(row, "c", "5 ± 1", column("c"), findings, assumed=Unit(suffix="_s", scale=1.0))
    put(row, "d", "5", column("d"), findings)
    put(row, "e", "5", column("min e (ms)"), findings)
    put(row, "f", "20 ms ± 300 us", column("f"), findings)
    assert row.pop("f_s") == 0.02
    assert row.pop("f_std_s") == 0.0003
    assert row == {"a_s": 5e-6, "b_s": 0.005, "c_s": 5.0, "c_std_s": 1.0, "d": 5.0, "e_min_s": 0.005}
    assert findings.without_unit == {"d": "d"}


def test_a_header_that_is_a_statistic_alone_is_said_once():
    row = {}
    for header in ("std (ms)", "min", "stddev (ms)"):
        put(row, column(header).name, "5", column(header), Findings())
    assert row == {"std_s": 0.005, "min": 5.0}


def test_missing_and_text():
    findings, row = Findings(), {}
    put(row, "a", "OOM", column("a (ms)"), findings)
    put(row, "b", "N/A", column("b (ms)"), findings)
    put(row, "c", "", column("c (ms)"), findings)
    put(row, "d", "fast", column("d (ms)"), findings)
    assert row == {"a_s": None, "oom_cells": ["a_s"], "b_s": None, "c_s": None, "d": "fast"}
    assert (row_status(row, findings, oom=True), "oom_cells" in row) == ("oom", False), "then all of it is"
    assert (findings.oom, findings.missing) == (1, 1)


def test_loose_sizes_are_noted():
    findings, row = Findings(), {}
    put(row, "m", "2", column("m (MB)"), findings)
    assert row == {"m_bytes": 2e6}
    assert findings.loose_sizes == {"m_bytes": {"MB"}}


def test_a_header_takes_the_unit_that_all_its_cells_name():
    table = Table(form="markdown", columns=("a", "b"), rows=(("1 ms", "1 ms"), ("OOM", "2 s")), line=1, lines=(2, 3))
    first, second = columns_of(table)
    assert first.unit.suffix == "_s"
    assert second.unit is None


def test_decimals_are_kept():
    assert scaled(0.13, 1e-3) == 0.00013
    assert scaled(14.0, 0.01) == 0.14
    assert whole("128,625,408") == 128625408
    assert whole("1.5") is None
    assert whole("x") is None
