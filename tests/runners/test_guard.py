"""What a process tells its watchdog; what that does with it is in test_watchdog.py."""

from __future__ import annotations

import os

import pytest

from runners import guard
from runners.guard import Guard
from runners.journal import journal_of, read
from tests.runners.test_journal import HEAD


@pytest.fixture
def pipe(monkeypatch, tmp_path):
    """The watchdog's end of a pipe to a guard whose journal has begun."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    monkeypatch.setattr(guard, "_guard", Guard(pipe=write_end, journal=journal_of(tmp_path / "r.json")))
    yield read_end
    os.close(read_end)
    guard.end()


def test_rows_are_on_disk_before_the_watchdog_hears_of_them(pipe, tmp_path):
    guard.rows_begin(HEAD)
    guard.row_begins({"n": 1})
    assert os.read(pipe, 10) == guard.ALIVE
    assert read(journal_of(tmp_path / "r.json")).begun == {"n": 1}
    guard.row_ends([{"n": 1, "status": "ok"}])
    assert os.read(pipe, 10) == guard.ALIVE
    assert read(journal_of(tmp_path / "r.json")).rows == [{"n": 1, "status": "ok"}]
    guard.end()
    assert os.read(pipe, 10) == guard.LEAVING
    assert os.read(pipe, 10) == b"", "its end is the end of the pipe"
    guard.alive()
    guard.end()


def test_a_watchdog_that_does_not_listen_holds_nobody_up(pipe):
    for _ in range(200_000):
        guard.alive()


def test_without_a_guard_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(guard, "_guard", Guard())
    guard.rows_begin(HEAD)
    guard.row_begins({"n": 1})
    guard.row_ends([{"n": 1}])
    guard.end()
    assert list(tmp_path.iterdir()) == []
