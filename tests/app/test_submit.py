"""Runs before they start: folders, requests and the store agree, or nothing is left."""

from __future__ import annotations

import json

import pytest

from app.submit import make_runs
from estimator.scenario.problems import InputProblems
from runners.job import Job, read_job
from tests.app.examples import SCENARIO

JOB = Job(scenario=SCENARIO, device="cpu")


def test_a_run_is_queued_with_its_folder_and_what_will_start_it(data, store):
    (live,) = make_runs([JOB], data, store)
    assert live.run == store.run(live.run.id)
    assert (live.run.state, live.folder) == ("queued", data.runs / live.run.id)
    assert read_job(live.folder).label == live.run.label == f"step {live.run.id[-6:]}"
    request = json.loads((live.folder / "request.json").read_text())
    assert tuple(request["command"]) == live.run.command
    assert str(live.folder) in request["command"]


def test_what_cannot_be_started_from_here_leaves_nothing(data, store, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputProblems, match="this machine has no Slurm"):
        make_runs([Job(scenario=SCENARIO, device="cpu", backend="slurm")], data, store)
    assert list(data.runs.iterdir()) == []
    assert store.runs() == []
