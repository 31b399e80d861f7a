from __future__ import annotations

from tests.app.importers.reading import one, read


def test_accumulation(tmp_path):
    text = "1. Half:\n   Result: 9.5\n   Expected: 10.0\n2. Two:\n   Expected: 1.0\n"
    text += "   A Result: 0.5, Error: 0.5\n   B Result: x\n"
    rows = one(read(tmp_path, text), "accumulation").rows
    assert rows[0] == {"experiment": "Half", "result": 9.5, "expected": 10.0, "error": 0.5}
    assert rows[1] == {"experiment": "Two", "result": 0.5, "variant": "a", "expected": 1.0, "error": 0.5}
    assert rows[2]["result"] is None
