"""How a run ended, by what its folder holds."""

from __future__ import annotations

import dataclasses

import pytest

from app.disk import write_json
from app.runs.outcome import outcome
from app.runs.run import Run, read_run
from estimator.scenario.codec import encode
from estimator.scenario.measurement import Warning
from runners.backends import Status
from tests.app.examples import MEASUREMENT, write_run

RUN = Run(id="r1", label="tiny")


def write(folder, **changes):
    write_json(folder / "result.json", encode(dataclasses.replace(MEASUREMENT, **changes)))


@pytest.mark.parametrize("status", ["ok", "oom"])
def test_a_measured_result_decides_even_where_cancelling_came_late(tmp_path, status):
    write(tmp_path, status=status, label="")
    (tmp_path / "cancel").touch()
    found = outcome(tmp_path, RUN)
    assert found.state == status
    assert (found.measurement.id, found.measurement.label) == ("r1", "tiny")


def test_a_failed_result_gives_its_reason(tmp_path):
    write(tmp_path, status="failed", warnings=(Warning(code="failed", message="ValueError: no"),))
    found = outcome(tmp_path, RUN)
    assert (found.state, found.message, found.measurement) == ("failed", "ValueError: no", None)


def test_without_a_result_it_was_cancelled_or_failed_with_the_end_of_the_log(tmp_path):
    (tmp_path / "log").write_text("first\nKilled\n")
    found = outcome(tmp_path, RUN)
    assert (found.state, found.message) == ("failed", "its processes ended without a result; its log ends: Killed")
    (tmp_path / "cancel").touch()
    assert outcome(tmp_path, RUN).state == "cancelled"


def test_a_result_that_cannot_be_read_is_a_failure_that_says_so(tmp_path):
    for text in ("{", "[]", '{"steps_s": [1, "x"]}'):
        (tmp_path / "result.json").write_text(text)
        found = outcome(tmp_path, RUN)
        assert found.state == "failed"
        assert "its result cannot be read" in found.message


def test_what_never_started_says_why(tmp_path):
    status = Status(alive=False, state="failed", message="could not be started: no such file")
    assert outcome(tmp_path, RUN, status).message == "could not be started: no such file"
    assert outcome(tmp_path, RUN, started=False).message == "it was lost before it started"


def test_what_the_backend_says_stands_before_what_a_dying_worker_said(tmp_path):
    write(tmp_path, status="failed", warnings=(Warning(code="failed", message="another process ended"),))
    lost = Status(alive=False, state="failed", message="Slurm: NODE_FAIL")
    found = outcome(tmp_path, RUN, lost)
    assert (found.state, found.message) == ("failed", "Slurm: NODE_FAIL; another process ended")
    elsewhere = Status(alive=False, state="cancelled", message="Slurm: CANCELLED")
    assert outcome(tmp_path, RUN, elsewhere).state == "cancelled"
    assert outcome(tmp_path, RUN, elsewhere).message == "Slurm: CANCELLED"


def test_a_run_that_the_server_stopped_for_a_reason_has_failed_with_it(tmp_path):
    write(tmp_path, status="cancelled")
    (tmp_path / "cancel").write_text("stopped at its time limit of 60 s")
    found = outcome(tmp_path, RUN, Status(alive=False, state="cancelled"))
    assert (found.state, found.message) == ("failed", "stopped at its time limit of 60 s")


@pytest.mark.parametrize(("status", "state"), [("failed", "failed"), ("cancelled", "cancelled")])
def test_rows_that_were_measured_before_a_run_broke_off_are_kept(tmp_path, status, state):
    """By the server that follows it and by the next one, which reads its folder anew."""
    rows = ({"seq_len": 8, "status": "ok"}, {"seq_len": 16, "status": "timed_out"})
    folder = write_run(tmp_path, "r1", state=state, measurement=MEASUREMENT)
    write(folder, status=status, rows=rows)
    found = outcome(folder, RUN, Status(alive=False, state=state))
    assert (found.state, found.measurement.rows) == (state, rows)
    assert read_run(folder).measurement_id == "r1"
    write(folder, status=status, rows=({"seq_len": 8, "status": "not_run"},))
    assert outcome(folder, RUN, Status(alive=False, state=state)).measurement is None
    assert read_run(folder).measurement_id is None
