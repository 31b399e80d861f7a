"""What a process tells its watchdog; what that does with it is in test_watchdog.py."""

from __future__ import annotations

import os

import pytest

from runners.guard import heartbeat
from runners.guard.heartbeat import Heartbeat
from runners.guard.journal import journal_of, read
from tests.runners.guard.test_journal import HEAD


@pytest.fixture
def pipe(monkeypatch, tmp_path):
    """The watchdog's end of a heartbeat's pipe whose journal has begun."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    monkeypatch.setattr(heartbeat, "_heartbeat", Heartbeat(pipe=write_end, journal=journal_of(tmp_path / "r.json")))
    yield read_end
    os.close(read_end)
    heartbeat.end()


def test_rows_are_on_disk_before_the_watchdog_hears_of_them(pipe, tmp_path):
    heartbeat.rows_begin(HEAD)
    heartbeat.row_begins({"n": 1})
    assert os.read(pipe, 10) == heartbeat.ALIVE
    assert read(journal_of(tmp_path / "r.json")).begun == {"n": 1}
    heartbeat.row_ends([{"n": 1, "status": "ok"}])
    assert os.read(pipe, 10) == heartbeat.ALIVE
    assert read(journal_of(tmp_path / "r.json")).rows == [{"n": 1, "status": "ok"}]
    heartbeat.end()
    assert os.read(pipe, 10) == heartbeat.LEAVING
    assert os.read(pipe, 10) == b"", "its end is the end of the pipe"
    heartbeat.alive()
    heartbeat.end()


def test_a_watchdog_that_does_not_listen_holds_nobody_up(pipe):
    for _ in range(200_000):
        heartbeat.alive()


def test_without_a_guard_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(heartbeat, "_heartbeat", Heartbeat())
    heartbeat.rows_begin(HEAD)
    heartbeat.row_begins({"n": 1})
    heartbeat.row_ends([{"n": 1}])
    heartbeat.end()
    assert list(tmp_path.iterdir()) == []
