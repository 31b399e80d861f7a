"""The reference jobs: each is one that the runners take and ends within ten minutes; the command measures them."""

from __future__ import annotations

import argparse
import json
import subprocess

import pytest

from estimator.scenario.scenario import scenario_from_json
from runners.__main__ import main
from runners.benchmarks import MODULES
from runners.model.by_name import model_of
from runners.options import options_of
from runners.parallel.variants import parse
from runners.reference.command import _measure_plans
from runners.reference.jobs import entries, job_of
from runners.refusals import refusals
from tests import warm
from tests.runners.examples import ROOT

EACH = [(ranks, entry) for ranks in (1, 2, 4) for entry in entries(ranks)]


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize(("ranks", "entry"), EACH, ids=lambda value: getattr(value, "name", value))
def test_a_job_is_taken_and_ends_within_ten_minutes(ranks, entry, small):
    job = job_of(entry, ranks, small=small)
    assert 0 < job.row_limit_s < job.time_limit_s <= 540
    options = options_of(job.benchmark, job.options)
    if hasattr(options, "limit_s") and not job.scenario:
        assert options.limit_s + job.row_limit_s < job.time_limit_s
    for name in getattr(options, "models", ()):
        assert model_of(name).layers
    for variant in getattr(options, "variants", ()):
        assert parse(variant).text == variant
    if job.scenario:
        scenario = scenario_from_json(job.scenario)
        assert refusals(scenario, world_size=ranks, cuda=not small, options=options) == []


def test_names_are_folders_and_one_rank_and_several_cover_every_benchmark():
    for ranks in (1, 2):
        names = [entry.name for entry in entries(ranks)]
        assert len(set(names)) == len(names)
    assert {entry.benchmark for _, entry in EACH} == set(MODULES) - {"probe"}


def test_pipelines_have_twice_as_many_micro_batches_as_ranks():
    (entry,) = [entry for entry in entries(4) if entry.name == "ddp-pipelines"]
    assert job_of(entry, 4).options["variants"][0] == "pp:gpipe:8"


@pytest.mark.parametrize(("ranks", "only"), [(1, ["attention-bf16", "trace"]), (2, ["collectives"])])
def test_the_command_measures_what_is_asked_for(tmp_path, ranks, only):
    command = [
        warm.python(),
        "-m",
        "runners",
        "reference",
        "--small",
        "--device",
        "cpu",
        "--out",
        str(tmp_path / "out"),
    ]
    command += ["--ranks", str(ranks), "--only", ",".join(only)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {one["status"] for one in found.values()} == {"ok"}
    assert set(found) == {f"{name}-{ranks}" for name in only}
    if "trace" in only:
        assert (tmp_path / "out" / "trace-1" / "trace.json.gz").stat().st_size > 1000
    else:
        assert set(found["collectives-2"]["rows"]) == {"ok"}
    assert len(done.stderr.splitlines()) == 2 * len(only)


def test_the_series_of_plans_is_one_of_its_parts(tmp_path, monkeypatch, capsys):
    started = []

    class Ended:
        def __init__(self, command, env):
            started.append((command, env["PYTHONPATH"]))

        def wait(self, limit_s=None):
            return 0

        def poll(self):
            return 0

    monkeypatch.setattr("runners.reference.command.subprocess.Popen", Ended)
    values = {"ranks": 2, "out": tmp_path, "device": "cpu", "small": True, "again": False}
    assert _measure_plans(argparse.Namespace(**values), 300.0)
    ((command, path),) = started
    assert command[-3:] == ["--limit-s", "300", "--small"]
    assert command[-8:-5] == ["series", "--out", str(tmp_path / "plans-2")]
    assert "--nproc-per-node" in command
    assert path.startswith(str(ROOT))
    assert "headroom predict --ranks 2" in capsys.readouterr().err
    assert not _measure_plans(argparse.Namespace(**values), 10.0)
    assert len(started) == 1, "no time was left"


def test_a_list_measures_nothing_and_shows_the_commands(tmp_path, capsys):
    assert main(["reference", "--list", "--ranks", "2", "--device", "cpu", "--out", str(tmp_path / "out")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * (len(entries(2)) + 1)
    assert all("--nproc-per-node 2" in line for line in lines[1::2])
    assert all(" timeout " in f" {line}" for line in lines[1:-2:2])
    assert lines[-2] == "plans-2: at most 540 s"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "attention,atention"], "--only: 'atention' is not known. One of: probes, trace, "),
        (["--ranks", "0"], "--ranks: is below 1. "),
    ],
)
def test_bad_input_names_the_remedy(tmp_path, capsys, arguments, message):
    assert main(["reference", "--out", str(tmp_path), "--device", "cpu", *arguments]) == 2
    assert capsys.readouterr().err.startswith(message)
