"""The command line as other programs see it: help, exit status, one line per problem on stderr."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys

import pytest

from app.cli import run
from app.commands.validate import COLUMNS
from tests.app.examples import HEADROOM, LLAMA, ROOT

COMMANDS = ["serve", "estimate", "validate", "sweep", "catalog", "import", "run", "study"]


def test_help_answers_at_once():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = subprocess.run([*HEADROOM, "--help"], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    for command in COMMANDS:
        assert command in found.stdout
    assert after.ru_utime - before.ru_utime < 1, "without heavy imports it takes a fifth of a second"


def test_help_imports_nothing_heavy():
    code = "import sys; from app.cli import run; run(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for heavy in ("'numpy'", "'torch'", "'fastapi'", "'sqlalchemy'", "'pandas'", "'pydantic'"):
        assert heavy not in found.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    assert run([command, "--help"]) == 0
    assert "Usage: headroom" in capsys.readouterr().out


def test_the_entry_point_is_installed():
    found = subprocess.run(["headroom", "estimate"], capture_output=True, text=True, env=_path(), check=False)
    assert found.returncode == 2
    assert found.stderr.splitlines() == [
        "headroom: SCENARIO.json: is missing. Name a SCENARIO.json, or a model by --hf config.json."
    ]


def test_the_documents_list_every_column_and_every_option():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    columns = (ROOT / "docs" / "validating.md").read_text(encoding="utf-8")
    assert set(COLUMNS) <= set(re.findall(r"[a-z][a-z0-9_]+", columns))
    for option in ("--wide", "--all", "--set", "--hf", "--table", "--out", "--calibration", "--dry-run", "--port"):
        assert option in readme


@pytest.mark.parametrize("command", ["estimate", "validate", "sweep", "import", "run"])
def test_a_missing_file_is_named(command, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path / "data"))
    assert run([command, str(tmp_path / "none")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path / "none") in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "No such command 'nothing'. Run 'headroom --help'"),
        (["stdy"], "No such command 'stdy'. Did you mean 'study'? Run 'headroom --help'"),
        (["serve", "--port", "many"], "Run 'headroom serve --help'"),
        (["estimate", "--colour"], "No such option: --colour. Run 'headroom estimate --help'"),
        (
            ["trace", "train.py", "--opt", "x"],
            "behind --: headroom trace SCRIPT.py -- --opt. Run 'headroom trace",
        ),
        (["sweep"], "Missing argument 'SPEC.json'. Run 'headroom sweep --help'"),
        (["study", "cs336-4d", "more"], "Run 'headroom study --help'"),
        (["estimate"], "SCENARIO.json: is missing. "),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(arguments, said, capsys):
    assert run(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_an_error_of_our_own_is_one_line_that_names_the_file_with_its_trace(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("app.commands.estimate.scenario_from_json", None)
    scenario = tmp_path / "scenario.json"
    scenario.write_text(json.dumps(LLAMA))
    assert run(["estimate", str(scenario)]) == 70
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("headroom: this is an error of Headroom's own; ")
    (trace,) = tmp_path.glob("headroom-*.txt")
    assert str(trace) in line
    assert "TypeError" in trace.read_text()


def _path():
    return {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
