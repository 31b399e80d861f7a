"""Runs before they start, folder, request and store in agreement, and those that an earlier server left."""

from __future__ import annotations

import json

import pytest

from app.runs.launch import make_runs, still_queued, take_up
from app.runs.live import read_live
from app.runs.run import read_run
from estimator.scenario.problems import InputProblems
from runners.job import Job, read_job
from tests.app.examples import SCENARIO, write_run

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


def test_a_run_is_taken_up_as_its_folder_has_it(data, store):
    folder = write_run(data.runs, "r1", state="running", measurement=None)
    live = take_up(read_run(folder), data, store)
    assert (live.run.state, live.run.progress.step, live.folder) == ("running", 3, folder)


@pytest.mark.parametrize("job", ["{", '{"backend": "os"}'])
def test_a_run_that_cannot_be_read_has_failed(data, store, job):
    folder = write_run(data.runs, "r1", state="running", measurement=None)
    known = read_run(folder)
    (folder / "job.json").write_text(job)
    assert take_up(known, data, store) is None
    run = store.run("r1")
    assert run.state == "failed"
    assert run.message.startswith("its folder cannot be read: ")


@pytest.mark.parametrize(
    ("mark", "state", "expected"),
    [("", "queued", True), ("", "running", False), ("claim", "queued", False), ("cancel", "queued", False)],
)
def test_only_what_nobody_began_or_gave_up_is_still_queued(tmp_path, mark, state, expected):
    folder = write_run(tmp_path, "r1", state=state, measurement=None)
    if mark:
        (folder / mark).touch()
    assert still_queued(read_live(folder)) == expected


def test_what_left_a_handle_was_begun(tmp_path):
    folder = write_run(tmp_path, "r1", state="queued", measurement=None)
    (folder / "handle.json").write_text(json.dumps({"folder": str(folder), "pid": 1, "start_time": 1}))
    assert not still_queued(read_live(folder))
