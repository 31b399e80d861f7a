"""Jobs one after another: what one does, even if it never ends, keeps no other from being measured."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from estimator.scenario.measurement import Measurement
from runners.backends import local
from runners.backends.processes import marked
from runners.job import CANCEL_FILE, RESULT_FILE, Job, read_events, read_measurement, write_job, write_measurement
from runners.reference import job_series
from tests import warm
from tests.runners.examples import ROOT
from tests.runners.guard.test_watchdog import wait_for

SHORT = Job(benchmark="precision", device="cpu", steps=1, time_limit_s=100)
GRID = {"models": ["tiny"], "layers": 1, "seq_lens": [8, 16], "precisions": ["fp32"]}
STUCK = Job(options=GRID, device="cpu", steps=1, time_limit_s=200, row_limit_s=40)


@pytest.fixture
def one_is_stuck(monkeypatch):
    """The local backend, whose jobs of the step benchmark block in C in their second row."""
    real = local.render

    def render(folder, job):
        request = real(folder, job)
        if job.benchmark != "step":
            return request
        command = tuple("tests.runners.stuck" if word == "runners" else word for word in request.command)
        return replace(request, command=command, environment={**request.environment, "STUCK": "1,0,deaf"})

    monkeypatch.setattr(local, "render", render)


def test_a_job_that_never_ends_is_ended_and_the_next_ones_come(tmp_path, one_is_stuck):
    said: list[str] = []
    jobs = {"first": SHORT, "stuck": STUCK, "bad": replace(SHORT, benchmark="collectives"), "last": SHORT}
    assert not job_series.run(jobs, tmp_path / "out", said.append)
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {name: one["status"] for name, one in found.items()} == {
        "first": "ok",
        "stuck": "failed",
        "bad": "failed",
        "last": "ok",
    }
    assert found["stuck"]["rows"] == {"ok": 1, "timed_out": 1}
    assert found["stuck"]["message"] == "stopped because a row took longer than 40 s, its limit"
    assert found["bad"]["message"].startswith("world_size: one process has nobody to talk to")
    assert found["first"]["rows"] == {"ok": 23}
    assert [line for line in said if line.startswith("2/4 stuck: failed")]
    assert marked(str(tmp_path / "out" / "stuck")) == []

    said.clear()
    assert not job_series.run(jobs, tmp_path / "out", said.append)
    assert [line.partition(": ")[2] for line in said] == ["is there already"] * 4


def test_what_was_stopped_before_its_time_is_measured_again_after_all_others(tmp_path):
    out = tmp_path / "out"
    for name, status, limit_s in (
        ("whole", "ok", 10),
        ("tried", "failed", 100),
        ("cut", "failed", 10),
        ("cancelled", "cancelled", 100),
    ):
        (out / name).mkdir(parents=True)
        write_job(out / name, replace(SHORT, time_limit_s=limit_s))
        write_measurement(out / name / RESULT_FILE, Measurement(status=status))
    (out / "killed").mkdir()
    write_job(out / "killed", SHORT)
    names = ("killed", "cut", "whole", "tried", "cancelled", "new")
    assert [name for name in names if job_series.measured(out / name, SHORT)] == ["whole", "tried"]
    said: list[str] = []
    job_series.run(dict.fromkeys(names, SHORT), out, said.append, limit_s=1)
    assert said[0] == "1/6 new: no time is left"
    assert [line for line in said if "already" in line] == [
        "4/6 whole: is there already",
        "5/6 tried: is there already",
    ]
    assert job_series.summary(out)["killed"]["status"] == "lost"


def start(out: Path) -> subprocess.Popen[bytes]:
    """A job of a minute or two, once it measures."""
    command = (warm.python(), "-m", "runners", "reference", "--out", str(out), "--only", "probes", "--device", "cpu")
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert wait_for(lambda: any("row" in event for event in read_events(out / "probes-1")))
    return process


def test_a_series_that_is_told_to_end_ends_its_job_and_says_so(tmp_path):
    process = start(tmp_path)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 143
    folder = tmp_path / "probes-1"
    assert marked(str(folder)) == []
    assert (folder / CANCEL_FILE).exists()
    result = read_measurement(folder / RESULT_FILE)
    assert (result.status, result.rows[0]["status"]) == ("cancelled", "ok")
    assert json.loads((tmp_path / "summary.json").read_text())["probes-1"]["status"] == "cancelled"


def test_nothing_outlives_a_series_that_is_killed(tmp_path):
    process = start(tmp_path)
    process.kill()
    process.wait(60)
    assert wait_for(lambda: not marked(str(tmp_path / "probes-1")))
    assert read_measurement(tmp_path / "probes-1" / RESULT_FILE).rows
