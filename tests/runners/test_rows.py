"""The frame of benchmarks with many rows: whatever a configuration does, its row comes and the next one runs."""

from __future__ import annotations

import time

import pytest
import torch

from runners.clocks import clocks, parse
from runners.job import Job
from runners.ranks import Ranks
from runners.row_status import Unsupported, is_out_of_memory
from runners.rows import begin
from runners.timing import SPREAD_COLUMNS, spread_columns, time_calls


def a_suite(events, limit_s=100.0):
    return begin(Job(benchmark="collectives", device="cpu"), events.append, 5, limit_s)


def raising(error):
    def work():
        raise error

    return work


def test_every_outcome_is_a_row_and_is_reported_as_it_comes():
    events: list[dict] = []
    suite = a_suite(events)
    suite.measure({"name": "a"}, lambda: {"median_s": 0.5})
    suite.measure({"name": "b"}, raising(MemoryError()))
    suite.measure({"name": "c"}, raising(Unsupported("no such link")))
    suite.measure({"name": "d"}, raising(RuntimeError("boom\nand more")))
    suite.measure({"name": "e"}, lambda: [{"part": 1}, {"part": 2, "status": "unsupported"}])
    assert [(row["name"], row["status"]) for row in suite.rows] == [
        ("a", "ok"),
        ("b", "oom"),
        ("c", "unsupported"),
        ("d", "failed"),
        ("e", "ok"),
        ("e", "unsupported"),
    ]
    assert suite.rows[3]["message"] == "RuntimeError: boom"
    progress = [event for event in events if event["phase"] == "measure"]
    assert [event["step"] for event in progress] == [1, 2, 3, 4, 5]
    assert progress[0]["row"] == suite.rows[0]
    assert progress[0]["step_s"] == 0.5
    result = suite.result({"median_s": "of what"})
    assert result.rows == tuple(suite.rows)
    assert result.status == "ok"
    assert result.samples["clocks"]


@pytest.mark.parametrize(
    ("errors", "status", "words"),
    [
        ([MemoryError()], "oom", "no row was measured (1 oom)"),
        (
            [Unsupported("no such link"), MemoryError()],
            "oom",
            "no row was measured (1 unsupported, 1 oom): no such link",
        ),
        ([Unsupported("no such link")], "failed", "no row was measured (1 unsupported): no such link"),
    ],
)
def test_a_run_in_which_nothing_was_measured_has_not_succeeded(errors, status, words):
    suite = a_suite([])
    for error in errors:
        suite.measure({"name": "a"}, raising(error))
    result = suite.result({})
    assert (result.status, result.warnings[-1].code) == (status, status)
    assert result.warnings[-1].message.startswith(words)


def test_rows_are_completed_after_all_are_measured_and_keep_what_they_had():
    events: list[dict] = []
    suite = a_suite(events)
    rows = [suite.measure({"name": name}, lambda: {"median_s": 1.0}) for name in "ab"]
    suite.complete([(rows[0], lambda: {"extra_s": 2.0}), (rows[1], raising(RuntimeError("no profiler")))])
    assert suite.rows[0] == {"name": "a", "status": "ok", "median_s": 1.0, "extra_s": 2.0}
    assert suite.rows[1]["status"] == "ok"
    assert suite.rows[1]["message"] == "not profiled: RuntimeError: no profiler"
    assert [event["phase"] for event in events][-2:] == ["profile", "profile"]


def test_nothing_starts_after_the_limit():
    suite = a_suite([], limit_s=0.01)
    time.sleep(0.02)
    row = suite.measure({"name": "late"}, raising(AssertionError("must not run")))
    assert row["status"] == "not_run"


def test_a_call_is_timed_alone_or_as_one_of_many():
    calls: list[float] = []
    seconds = time_calls(Ranks(), lambda: calls.append(0.0) or time.sleep(0.002), warmup=2, repeats=3, calls=4)
    assert len(calls) == 2 + 3 * 4
    assert len(seconds) == 3
    assert 0.002 <= min(seconds) < 0.1
    columns = spread_columns(seconds)
    assert set(columns) == {*SPREAD_COLUMNS, "samples"}
    assert columns["minimum_s"] <= columns["median_s"] <= columns["maximum_s"]


def test_clocks_are_read_where_something_tells():
    assert parse("1980, 3201, 1980, 120.5, 700.0, [N/A]\n") == {
        "sm_clock_hz": 1980e6,
        "memory_clock_hz": 3201e6,
        "maximum_sm_clock_hz": 1980e6,
        "power_w": 120.5,
        "power_limit_w": 700.0,
    }
    assert parse("") == {}
    assert all(value > 1e8 for value in clocks(cuda=False).values())


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried"),
            True,
        ),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_out_of_memory_is_told_from_other_errors(error, expected):
    assert is_out_of_memory(error) == expected
