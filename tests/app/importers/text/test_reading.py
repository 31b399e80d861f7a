from __future__ import annotations

from app.importers.text.layout.document import Table
from app.importers.text.reading import compact, shared_warnings
from app.importers.text.values.figures import Findings
from estimator.scenario.measurement import Warning

TABLE = Table(form="aligned", columns=("a",), rows=(("1",),), line=7, lines=(8,))


def test_what_the_cells_showed():
    findings = Findings(oom=2, missing=1, without_unit={"a": "A", "b": "B"})
    rows = [{"forward_s": 1.0, "forward_std_s": 0.2}, {"forward_s": 1.0, "forward_std_s": 0.05}, {"forward_s": None}]
    found = {warning.code: warning for warning in shared_warnings(findings, rows, [TABLE])}
    assert set(found) == {"oom-cells", "missing-cells", "unit-missing", "wide-spread"}
    assert "'A', 'B'" in found["unit-missing"].message
    assert found["wide-spread"].message.startswith("1 timing spreads by more than 10% of its mean")
    assert found["oom-cells"].message.startswith("2 cells say out of memory and are kept empty")
    assert found["missing-cells"].message.startswith("1 cell holds no figure")
    assert found["oom-cells"].where == found["unit-missing"].where == "line 7"


def test_times_below_zero_are_said():
    rows = [{"step_s": -0.005, "forward_s": -1.0, "saved_bytes": -2}, {"step_s": 0.0, "forward_s": None}]
    (found,) = shared_warnings(Findings(), rows, [TABLE])
    assert (found.code, found.where) == ("negative", "line 7")
    assert found.message.startswith("2 times are below zero")


def test_a_cell_is_found_at_its_row():
    rows = (("1", "n/a"), ("OOM", "2"))
    tables = [TABLE, Table(form="markdown", columns=("a", "b"), rows=rows, line=11, lines=(13, 14))]
    oom, missing = shared_warnings(Findings(oom=1, missing=1), [], tables)
    assert (oom.where, missing.where) == ("line 14", "line 13")
    assert oom.message == "1 cell says out of memory and is kept empty; a row without any other figure has status oom"


def test_nothing_to_say():
    assert shared_warnings(Findings(), [{"forward_s": 1.0}], [TABLE]) == []


def test_the_same_is_said_once():
    said = [Warning(code="a", message="m", where=f"line {i}") for i in (1, 2, 3)]
    (only,) = compact(said)
    assert only.where == "line 1 and 2 more"
