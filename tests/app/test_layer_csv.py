"""``headroom estimate --table``: the table of one layer as a file."""

from __future__ import annotations

import csv
import json

from app.cli import run
from estimator.estimate.layer_table import COLUMNS
from tests.app.examples import LLAMA


def test_estimate_writes_the_table(tmp_path, capsys):
    (tmp_path / "scenario.json").write_text(json.dumps(LLAMA))
    out = tmp_path / "layers.csv"
    assert run(["estimate", str(tmp_path / "scenario.json"), "--table", str(out)]) == 0
    assert "step time" in capsys.readouterr().out
    header, *rows = csv.reader(out.read_text().splitlines())
    assert tuple(header) == COLUMNS
    assert {"embedding", "layer", "head", "step"} == {row[0] for row in rows}


def test_a_path_that_cannot_be_written_is_named(tmp_path, capsys):
    (tmp_path / "scenario.json").write_text(json.dumps(LLAMA))
    assert run(["estimate", str(tmp_path / "scenario.json"), "--table", str(tmp_path / "none" / "out.csv")]) == 2
    assert "out.csv: cannot be written" in capsys.readouterr().err
