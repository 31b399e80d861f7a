"""Windows of steps in a trace whose times are known."""

from __future__ import annotations

import pytest

from tests.app.importers.kineto import made
from tests.app.importers.reading import codes, one, read


def test_steps_that_the_profiler_cut_are_left_out(tmp_path):
    document = made.trace(steps=4)
    last = max(event["ts"] for event in document["traceEvents"] if event["name"].startswith("ProfilerStep"))
    document["traceEvents"] = [event for event in document["traceEvents"] if event["ts"] < last + 2000]
    imported = read(tmp_path, document)
    assert len(one(imported).steps_s) == 3
    assert "step-cut" in codes(imported)
    assert one(imported).environment["step"] in ("ProfilerStep#5", "ProfilerStep#6", "ProfilerStep#7")


def test_one_step_and_none(tmp_path):
    assert "single-step" in codes(read(tmp_path, made.trace(steps=1)))
    document = made.trace(steps=1)
    document["traceEvents"] = [event for event in document["traceEvents"] if "ProfilerStep" not in event["name"]]
    imported = read(tmp_path, document)
    assert "no-step-marks" in codes(imported)
    assert one(imported).steps_s == (pytest.approx((6500 - 50) * 1e-6),)


def test_a_slow_first_step_is_said_and_not_taken(tmp_path):
    document = made.trace(steps=3)
    for event in document["traceEvents"]:
        if event["ts"] > 1000.5 + made.STEP_US - 1:
            event["ts"] += 5000
        if event["name"] == "ProfilerStep#5":
            event["dur"] += 5000
    imported = read(tmp_path, document)
    assert "first-step-slow" in codes(imported)
    assert one(imported).steps_s[0] == pytest.approx(0.015)
    assert one(imported).environment["step"] != "ProfilerStep#5"


def test_a_device_that_lags_behind_the_host_shifts_the_windows(tmp_path):
    document = made.trace(steps=3)
    for event in document["traceEvents"]:
        if event.get("cat") == "kernel":
            event["ts"] += 9000
    steps_s = one(read(tmp_path, document)).steps_s
    assert steps_s == (pytest.approx(15.5e-3), pytest.approx(10e-3), pytest.approx(10e-3))
