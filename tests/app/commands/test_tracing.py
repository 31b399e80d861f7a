"""``headroom trace``: a program's op list and its prediction, from a process of its own."""

import json
from pathlib import Path

from app.cli import run
from estimator.scenario.op_list import from_json

PROGRAM = Path(__file__).parents[2] / "reference" / "ops" / "gpt2.py"


def test_a_program_ends_in_an_estimate_and_its_op_list(tmp_path, capfd):
    out = tmp_path / "ops.json"
    assert run(["trace", str(PROGRAM), "--chip", "h200-sxm", "--out", str(out), "--json"]) == 0
    estimate = json.loads(capfd.readouterr().out)
    assert estimate["step_time_s"] > 0
    found = from_json(json.loads(out.read_text()))
    assert (found.program, found.chip) == (PROGRAM.name, "h200-sxm")


def test_a_mistake_of_the_program_is_told_with_its_remedy(tmp_path, capfd):
    assert run(["trace", str(tmp_path / "nothing.py")]) == 2
    said = capfd.readouterr().err
    assert said.startswith(f"headroom: {tmp_path / 'nothing.py'}: there is no such file")
    assert run(["trace", str(PROGRAM), "--out", str(tmp_path / "none" / "ops.json")]) == 2
    assert "there is no folder" in capfd.readouterr().err
    assert run(["trace", "--", "--bogus"]) == 2
    assert capfd.readouterr().err.startswith("headroom: --bogus: is no program. Give SCRIPT.py")


def test_what_follows_the_dashes_reaches_the_program(tmp_path, capfd):
    script = tmp_path / "own.py"
    script.write_text("import sys; print(sys.argv[1:]); sys.exit('no such flag')")
    assert run(["trace", str(script), "--", "--lr", "0.1"]) == 1
    captured = capfd.readouterr()
    assert "['--lr', '0.1']" in captured.err
    assert "Traceback" not in captured.err, "an exit of its own has its own last line"
    assert f"\nheadroom: {script.name}: ended: no such flag" in captured.err
    assert captured.out == ""
