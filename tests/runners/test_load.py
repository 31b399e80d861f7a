"""What else the machine did is told apart from what the run itself did."""

from __future__ import annotations

import pytest

from runners import load
from runners.load import busy_machine, load_since, moment
from runners.ranks import Ranks


def written(folder, monkeypatch, busy_ticks: int, idle_ticks: int) -> None:
    stat = folder / "stat"
    stat.write_text(f"cpu  {busy_ticks} 0 0 {idle_ticks} 7 0 0 0 0 0\ncpu0 1 2 3 4\n", encoding="ascii")
    monkeypatch.setattr(load, "STAT", stat)


def test_others_have_what_this_run_has_not(tmp_path, monkeypatch):
    clock = iter((10.0, 20.0))
    monkeypatch.setattr(load.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(load.os, "sysconf", lambda name: 100)
    own = iter(((1.0, 0.0, 0.0, 0.0, 0.0), (4.0, 1.0, 0.0, 0.0, 0.0)))
    monkeypatch.setattr(load.os, "times", lambda: next(own))
    written(tmp_path, monkeypatch, 1000, 5000)
    begin = moment()
    written(tmp_path, monkeypatch, 3000, 9000)
    found = load_since(begin, Ranks())
    assert found["own_cores"] == pytest.approx(0.4)
    assert found["others_cores"] == pytest.approx(2.0 - 0.4)


def test_a_system_that_does_not_tell_is_no_load(tmp_path, monkeypatch):
    monkeypatch.setattr(load, "STAT", tmp_path / "nowhere")
    assert moment() is None
    assert load_since(None, Ranks()) == {}
    assert busy_machine({}) == []


def test_a_busy_machine_is_warned_of():
    assert busy_machine({"others_cores": 1.5, "cores": 16.0}) == []
    (warning,) = busy_machine({"others_cores": 1.7, "cores": 16.0})
    assert (warning.code, "1.7 of 16 processors" in warning.message) == ("busy_machine", True)
