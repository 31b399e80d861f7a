"""``headroom import``: measurements of files, and the names of those that cannot be read."""

from __future__ import annotations

import json

from app.cli import run
from estimator.scenario.codec import encode
from tests.app.examples import MEASUREMENT


def test_import_gives_measurements_and_names_files_that_cannot_be_read(write, capsys):
    good, bad = write(encode(MEASUREMENT), "good.json"), write("nothing here", "bad.txt")
    assert run(["import", good, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"measurements", "warnings", "skipped"}
    assert found["measurements"][0]["steps_s"] == [0.011, 0.010, 0.012]
    assert run(["import", good, bad, "--json"]) == 2
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["measurements"]) == 1
    assert captured.err.startswith(f"headroom: {bad}: ")
    assert len(captured.err.splitlines()) == 1
    assert run(["import", good]) == 0
    assert "step 11 ms" in capsys.readouterr().out
