"""Runs that an earlier server left: taken up where their folder can be read, and started only where nobody did."""

from __future__ import annotations

import json

import pytest

from app.live import read_live
from app.recovery import still_queued, take_up
from app.run import read_run
from tests.app.examples import write_run


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
