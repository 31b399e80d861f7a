"""The job folder as protocol."""

from __future__ import annotations

import pytest

from estimator.scenario.measurement import Kernel, Measurement
from estimator.scenario.problems import InputProblems
from runners.job import (
    EVENTS_FILE,
    JOB_FILE,
    Handle,
    Job,
    append_event,
    last_state,
    progress,
    read_events,
    read_handle,
    read_job,
    read_measurement,
    state,
    tell,
    write_handle,
    write_job,
    write_measurement,
)
from tests.runners.examples import scenario_json


def test_a_job_is_read_as_it_was_written(tmp_path):
    job = Job(scenario=scenario_json(), world_size=2, device="cpu", label="two ranks")
    write_job(tmp_path, job)
    assert read_job(tmp_path) == job
    assert [path.name for path in tmp_path.iterdir()] == [JOB_FILE]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "job.json: is not JSON"),
        ("[]", "must be a JSON object"),
        ('{"steps": 0}', "steps: 0 is out of range"),
        ('{"benchmark": "stepp"}', "Did you mean 'step'"),
        ('{"colour": 1}', "colour: unknown key"),
    ],
)
def test_a_bad_job_names_field_and_remedy(tmp_path, text, message):
    (tmp_path / JOB_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(InputProblems, match=message):
        read_job(tmp_path)


def test_a_missing_job_is_a_problem_too(tmp_path):
    with pytest.raises(InputProblems, match="No such file"):
        read_job(tmp_path)


def test_events_are_appended_and_read_by_line_number(tmp_path):
    assert read_events(tmp_path) == []
    assert last_state(tmp_path) is None
    append_event(tmp_path, state("queued"))
    append_event(tmp_path, state("running"))
    append_event(tmp_path, progress("measure", 3, 10, 0.25))
    assert [event["kind"] for event in read_events(tmp_path)] == ["state", "state", "progress"]
    (event,) = read_events(tmp_path, after=2)
    assert (event["phase"], event["step"], event["steps"], event["step_s"]) == ("measure", 3, 10, 0.25)
    assert last_state(tmp_path)["state"] == "running"


def test_a_run_goes_on_where_its_progress_cannot_be_written(tmp_path):
    (tmp_path / "events.jsonl").mkdir()
    tell(tmp_path, progress("measure", 1, 2, None))
    with pytest.raises(IsADirectoryError):
        tell(tmp_path, state("running"))
    (tmp_path / "events.jsonl").rmdir()
    tell(tmp_path, progress("measure", 2, 2, None))
    assert [event["step"] for event in read_events(tmp_path)] == [2]


def test_a_line_that_is_still_being_written_is_not_read(tmp_path):
    append_event(tmp_path, state("running"))
    with (tmp_path / EVENTS_FILE).open("a", encoding="utf-8") as file:
        file.write('{"t_s": 1, "ki')
    assert len(read_events(tmp_path)) == 1


def test_the_first_outcome_stays(tmp_path):
    path = tmp_path / "result.json"
    first = Measurement(status="oom", kernels=(Kernel(name="k", category="matmul", count=1, total_s=0.5),))
    assert write_measurement(path, first, keep=True)
    assert not write_measurement(path, Measurement(status="failed"), keep=True)
    assert read_measurement(path) == first
    assert write_measurement(path, Measurement(status="ok"))
    assert read_measurement(path).status == "ok"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_a_handle_survives_the_process_that_started_the_job(tmp_path):
    assert read_handle(tmp_path) is None
    handle = Handle(pid=12, start_time=345, folder=str(tmp_path))
    write_handle(handle)
    assert read_handle(tmp_path) == handle
