"""How a run ended, by what its folder holds."""

from __future__ import annotations

import dataclasses

import pytest

from app.disk import write_json
from app.outcome import outcome
from app.run import Run
from estimator.codec import encode
from estimator.measurement import Warning
from tests.app.examples import MEASUREMENT

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
    assert outcome(tmp_path, RUN, "could not be started: no such file").message == "could not be started: no such file"
    assert outcome(tmp_path, RUN, started=False).message == "it was lost before it started"
