from __future__ import annotations

from app.importers.text.document import Table
from app.importers.text.figures import Findings
from app.importers.text.reading import compact, shared_warnings
from estimator.measurement import Warning

TABLE = Table(form="aligned", columns=("a",), rows=(("1",),), line=7, lines=(8,))


def test_what_the_cells_showed():
    findings = Findings(oom=2, missing=1, without_unit={"a": "A", "b": "B"})
    rows = [{"forward_s": 1.0, "forward_std_s": 0.2}, {"forward_s": 1.0, "forward_std_s": 0.05}, {"forward_s": None}]
    found = {warning.code: warning for warning in shared_warnings(findings, rows, TABLE)}
    assert set(found) == {"oom-cells", "missing-cells", "unit-missing", "wide-spread"}
    assert "'A', 'B'" in found["unit-missing"].message
    assert found["wide-spread"].message.startswith("1 timings")
    assert found["oom-cells"].where == "line 7"


def test_nothing_to_say():
    assert shared_warnings(Findings(), [{"forward_s": 1.0}], TABLE) == []


def test_the_same_is_said_once():
    said = [Warning(code="a", message="m", where=f"line {i}") for i in (1, 2, 3)]
    (only,) = compact(said)
    assert only.where == "line 1 and 2 more"
