"""Windows of steps in a trace whose times are known."""

from __future__ import annotations

import math

import pytest

from estimator.scenario.measurement import step_time_s
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
    assert "steps-by-repetition" in codes(imported)  # a single update of the optimizer: all of it is one step
    assert one(imported).steps_s == (pytest.approx((6500 - 50) * 1e-6),)
    document["traceEvents"] = [event for event in document["traceEvents"] if "Optimizer" not in event["name"]]
    imported = read(tmp_path, document)
    found = one(imported)
    assert "no-step-marks" in codes(imported)
    assert (found.steps_s, found.phases_s, found.breakdown_s) == ((), {}, {})
    assert len(found.kernels) == 5
    assert imported.op_lists[0]["loop_s"] is None  # its ops have their prediction all the same


def without_marks(steps, *names):
    document = made.trace(steps=steps)
    document["traceEvents"] = [event for event in document["traceEvents"] if not event["name"].startswith(names)]
    return document


def test_updates_of_the_optimizer_tell_steps_that_nobody_marked(tmp_path):
    imported = read(tmp_path, without_marks(4, "ProfilerStep"))
    assert "steps-by-repetition" in codes(imported)
    assert one(imported).steps_s == (pytest.approx(0.01),) * 3
    assert one(imported).breakdown_s == pytest.approx(one(read(tmp_path, made.trace())).breakdown_s)


def test_batches_and_ranges_of_one_s_own_tell_steps_too(tmp_path):
    for name, dur, many in (("enumerate(DataLoader)#_SingleProcess", 10.0, 3), ("iteration {}", made.STEP_US - 1, 4)):
        document = without_marks(4, "ProfilerStep", "Optimizer")
        document["traceEvents"] += [made.mark(name.format(i), 1000.5 + made.STEP_US * i, dur) for i in range(4)]
        imported = read(tmp_path, document)
        assert "steps-by-repetition" in codes(imported), name
        assert len(one(imported).steps_s) == many
        assert one(imported).steps_s[:2] == (pytest.approx(0.01),) * 2


def test_ranges_in_which_the_device_does_nothing_are_no_steps(tmp_path):
    document = without_marks(1, "ProfilerStep", "Optimizer")
    document["traceEvents"] += [made.mark("idle", 5e6 + 100.0 * i, 99.0) for i in range(99)]
    imported = read(tmp_path, document)
    assert "no-step-marks" in codes(imported)
    assert one(imported).steps_s == ()


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


@pytest.mark.parametrize(("slower_us", "step"), [(2_000, "ProfilerStep#6"), (40_000, "ProfilerStep#7")])
def test_parts_are_those_of_the_step_time_that_is_told(tmp_path, slower_us, step):
    """Of three steps the first two are slower, by different times: where disturbed, the fastest is told."""
    document = made.trace(steps=3)
    for event in document["traceEvents"]:
        at = event["ts"]
        for index, more_us in enumerate((2 * slower_us, slower_us)):
            event["ts"] += more_us if at > 1000.5 + made.STEP_US * (index + 1) - 1 else 0
            event["dur"] = event.get("dur", 0) + (more_us if event["name"] == f"ProfilerStep#{5 + index}" else 0)
    imported = read(tmp_path, document)
    found = one(imported)
    assert found.environment["step"] == step
    told_s = step_time_s(found.steps_s)
    assert math.fsum(found.breakdown_s.values()) == pytest.approx(told_s)
    assert imported.op_lists[0]["loop_s"] == told_s


def test_a_device_that_lags_behind_the_host_shifts_the_windows(tmp_path):
    document = made.trace(steps=3)
    for event in document["traceEvents"]:
        if event.get("cat") == "kernel":
            event["ts"] += 9000
    steps_s = one(read(tmp_path, document)).steps_s
    assert steps_s == (pytest.approx(15.5e-3), pytest.approx(10e-3), pytest.approx(10e-3))


def left_over(document, at, length, name="ampere_bf16_s16816gemm_bf16_128x64"):
    """A kernel that the device still ran when the recording began: no launch, no op."""
    args = {"device": 0, "context": 1, "stream": made.COMPUTE, "correlation": 99_999_999}
    kernel = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": made.COMPUTE, "ts": at, "dur": length}
    document["traceEvents"].append(kernel | {"args": args})


def test_what_ran_before_the_recording_belongs_to_no_step(tmp_path):
    whole = one(read(tmp_path, made.trace()))
    document = made.trace()
    left_over(document, 1000.5 + 10, 40.0)
    left_over(document, 1000.5 + 55, 44.0)  # behind the first launch, before the first launched kernel
    imported = read(tmp_path, document)
    found = one(imported)
    assert "left-over-kernels" in codes(imported)
    assert found.kernels == whole.kernels
    assert found.steps_s[0] == pytest.approx(whole.steps_s[0] - 99e-6)
    assert found.steps_s[1:] == whole.steps_s[1:]


def test_without_marks_the_one_step_begins_behind_what_was_left_over(tmp_path):
    document = made.trace(steps=1)
    document["traceEvents"] = [event for event in document["traceEvents"] if "ProfilerStep" not in event["name"]]
    whole = one(read(tmp_path, document))
    left_over(document, 1000.5 - 5000, 5080.0)
    found = one(read(tmp_path, document))
    assert found.kernels == whole.kernels
    assert found.steps_s[0] == pytest.approx(whole.steps_s[0] - 30e-6)  # launched at 50, left over until 80


def test_a_kernel_whose_launch_is_missing_counts_where_it_ran(tmp_path):
    document = made.trace()
    left_over(document, 1000.5 + made.STEP_US + 7000, 100.0, "lost_kernel")
    imported = read(tmp_path, document)
    assert "launches-missing" in codes(imported)
    assert "left-over-kernels" not in codes(imported)
    assert one(imported).steps_s == one(read(tmp_path, made.trace())).steps_s


def test_a_trace_of_the_device_alone_is_left_whole(tmp_path):
    document = made.trace()
    document["traceEvents"] = [e for e in document["traceEvents"] if e.get("cat") in ("kernel", "user_annotation")]
    imported = read(tmp_path, document)
    assert not {"left-over-kernels", "launches-missing"} & codes(imported)
    assert len(one(imported).steps_s) == 3
