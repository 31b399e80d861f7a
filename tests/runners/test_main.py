"""The command line of the runners, as people type it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest

from estimator.scenario.measurement import SCHEMA_VERSION
from runners.__main__ import main
from runners.job import read_measurement
from tests.forks import run_forked
from tests.runners.examples import ROOT, run_module, scenario_json, write_scenario


def test_a_step_is_measured_on_a_host_that_has_only_torch(tmp_path):
    """Copied without the app, and with numpy gone as on a bare host."""
    for package in ("estimator", "runners"):
        shutil.copytree(ROOT / package, tmp_path / package)
    blocked = tmp_path / "blocked"
    for package in ("numpy", "pandas", "msgspec", "fastapi", "sqlalchemy", "psutil"):
        (blocked / package).mkdir(parents=True)
        text = f"raise ModuleNotFoundError('not on this host', name={package!r})\n"
        (blocked / package / "__init__.py").write_text(text, encoding="utf-8")
    path = write_scenario(tmp_path, scenario_json(cluster={"chip": "a100"}))
    path.write_text(json.dumps(scenario_json()), encoding="utf-8")
    arguments = ("--scenario", str(path), "--out", str(tmp_path / "r.json"), "--trace", str(tmp_path / "t.json.gz"))
    done = run_module(
        "step", *arguments, "--steps", "2", "--device", "cpu", cwd=tmp_path, environment={"PYTHONPATH": str(blocked)}
    )
    assert done.returncode == 0, done.stderr
    assert "measure 2/2" in done.stderr
    assert re.search(r"^step \S+ m?s \(.+ to .+\), peak memory .+ MB: .*r\.json$", done.stderr, re.MULTILINE)
    result = read_measurement(tmp_path / "r.json")
    assert (result.status, len(result.steps_s), result.schema_version) == ("ok", 2, SCHEMA_VERSION)
    assert (tmp_path / "t.json.gz").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scenario", "nowhere.json", "--out", "r.json"], "scenario: nowhere.json: No such file or directory."),
        (["--scenario", "no/where.json", "--out", "r.json"], "scenario: no/where.json: No such file or directory."),
        (["--scenario", "s.json"], "--out: is missing. Add --out RESULT.json."),
        (["--scenario", "s.json", "--out", "no/r.json"], "--out: there is no folder no. Choose a file in"),
        (["--scenario", "s.json", "--out", "folder"], "--out: folder is a folder. Choose a file in"),
        (["--scenario", "s.json", "--out", 300 * "x"], f"--out: {300 * 'x'} cannot be written: File name"),
        (["--scenario", "s.json", "--out", "/proc/r.json"], "--out: /proc/r.json cannot be written: "),
        (["--scenario", "s.json", "--out", "r.json", "--trace", "t.txt"], "--trace: has another ending."),
        (["--scenario", "s.json", "--out", "r.json", "--steps", "0"], "steps: 0 is out of range. Give a whole number"),
        (["--scenario", "bad.json", "--out", "r.json"], "scenario: bad.json: is not JSON"),
        (["--job", "."], "job: job.json: No such file"),
    ],
)
def test_bad_input_is_one_line_with_field_and_remedy(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.json").write_text(json.dumps(scenario_json()), encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "bad.json").write_text('{"model":', encoding="utf-8")
    assert main(["step", *arguments]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(message)
    assert errors.count("\n") == 1


def test_what_is_refused_leaves_no_result(tmp_path):
    path = write_scenario(tmp_path, scenario_json(plan={"tp": 2}, cluster={"chips_per_node": 2}))
    arguments = ("--scenario", str(path), "--out", str(tmp_path / "r.json"), "--device", "cpu")
    done = run_forked("step", *arguments, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr.startswith("plan.tp: tp = 2, but 1 process runs. Set plan and cluster to 1 chip")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_rows_are_told_in_short_lines(tmp_path):
    sizes = ("--seq-lens", "16", "--precisions", "fp32", "--passes", "forward", "--device", "cpu")
    done = run_forked("memory", *sizes, "--out", str(tmp_path / "m.json"), cwd=ROOT)
    assert "measure 1/1  tiny, forward, seq len 16, fp32, eager, micro batch 1: peak " in done.stderr
    assert "1 row (1 ok): " in done.stderr
    assert "{" not in done.stderr


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_has_seen_enough_ends_it_quietly(tmp_path, stream):
    """As ``head`` does."""
    arguments = ("reference", "--list", "--out", str(tmp_path / "o"))
    if stream == "stderr":
        arguments = ("memory", "--seq-lens", "16", "--device", "cpu", "--out", str(tmp_path / "m.json"))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen((sys.executable, "-m", "runners", *arguments), cwd=ROOT, text=True, **pipes) as process:
        getattr(process, stream).close()
        other = process.stderr if stream == "stdout" else process.stdout
        assert other.read() == ""
    assert process.returncode == 1


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "1e9"])
def test_a_probe_takes_a_sensible_time(tmp_path, capsys, seconds):
    assert main(["probe", "--out", str(tmp_path / "p.json"), f"--seconds={seconds}"]) == 2
    assert capsys.readouterr().err.startswith("--seconds: ")


@pytest.mark.parametrize("arguments", [["--help"], ["step", "--help"], ["probe", "--help"]])
def test_every_command_has_help(capsys, arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    assert "usage: python -m runners" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["dance"], ["step"], ["step", "--scenario", "a", "--job", "b"]])
def test_unknown_commands_and_contradictions_exit_with_2(capsys, arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: python -m runners" in capsys.readouterr().err
