"""Lines of a run on a terminal: what tells a row from others, and one number of it."""

from __future__ import annotations

import pytest

from estimator.scenario.measurement import MeasuredMemory, Measurement, Origin
from runners.job import progress, state
from runners.terminal import Told, event_text, rates_text, result_text

ATTENTION = {"implementation": "triton", "seq_len": 1024, "causal": True, "pass": "both", "recompute": "none"}


@pytest.mark.parametrize(
    ("row", "step_s", "text"),
    [
        (
            {**ATTENTION, "status": "ok", "median_s": 4.12e-4, "peak_bytes": 3e9},
            4.12e-4,
            "measure 2/9  412 µs  triton, seq len 1024, causal, both",
        ),
        (
            {**ATTENTION, "causal": False, "status": "unsupported", "message": "it needs a GPU"},
            None,
            "measure 2/9  triton, seq len 1024, both: unsupported: it needs a GPU",
        ),
        (
            {"model": "tiny", "size_bytes": 4096, "status": "ok", "left_over_bytes": 1.0, "peak_bytes": 3.1e6},
            None,
            "measure 2/9  tiny, size 4.1 kB: peak 3.1 MB",
        ),
        (
            {"addend": "fp16", "value": 0.01, "status": "ok", "samples": 3, "result": 9.953125},
            None,
            "measure 2/9  fp16, value 0.01: result 9.95",
        ),
        ({"model": "tiny", "status": "ok", "peak_bytes": None}, None, "measure 2/9  tiny"),
    ],
)
def test_a_row_is_one_short_line(row, step_s, text):
    assert event_text({**progress("measure", 2, 9, step_s), "row": row}) == text


def test_progress_and_states():
    assert event_text(progress("warmup", 1, 3, 0.0213)) == "warmup 1/3  21.3 ms"
    assert event_text(progress("build", 1, 1, None)) == "build 1/1"
    assert event_text(state("ok")) == "ok"
    assert event_text(state("oom", "out of memory in forward")) == "oom: out of memory in forward"
    assert event_text(state("running")) == event_text(state("failed", "said where it happened")) == ""


def test_a_result_is_told_by_its_step_or_its_rows():
    blank = {"label": "", "origin": Origin(kind="run", format="step", producer="")}
    step = Measurement(**blank, steps_s=(0.02, 0.03, 0.021), memory=MeasuredMemory(peak_bytes=2.3e9))
    assert result_text(step) == "step 21 ms (20 ms to 30 ms), peak memory 2.3 GB"
    rows = Measurement(**blank, rows=({"status": "ok"}, {"status": "ok"}, {"status": "oom"}))
    assert result_text(rows) == "3 rows (2 ok, 1 oom)"
    assert result_text(Measurement(**blank, rows=({"status": "ok"},))) == "1 row (1 ok)"


def test_no_line_is_said_twice_and_none_before_something_is_done():
    told = Told()
    events = [
        progress("build", 0, 1, None),
        progress("build", 1, 1, None),
        progress("warmup", 0, 3, None),
        progress("warmup", 3, 3, 0.02),
        progress("measure", 10, 20, 0.02),
        progress("measure", 10, 20, None),
        progress("measure", 20, 20, 0.01),
        progress("profile", 0, 1, None),
        progress("profile", 1, 1, None),
        state("ok"),
    ]
    said = [text for event in events if (text := told.text(event))]
    assert said == [
        "build 0/1", "build 1/1", "warmup 3/3  20 ms",
        "measure 10/20  20 ms", "measure 20/20  10 ms", "profile 1/1", "ok"
    ]  # fmt: skip


def test_probes_end_with_their_rates():
    rows = (
        {"ladder": "gemm", "precision": "bf16", "status": "ok", "flops_per_s": 7e14},
        {"ladder": "gemm", "precision": "bf16", "status": "ok", "flops_per_s": 8e14},
        {"ladder": "gemm", "precision": "fp32", "status": "failed"},
        {"ladder": "launch", "op": "op", "status": "ok", "launch_s": 8e-6},
        {"ladder": "launch", "op": "op", "status": "ok", "launch_s": 5e-6},
        {"ladder": "elementwise", "op": "to fp32", "precision": "fp32", "status": "ok", "bytes_per_s": 1e15},
    )
    found = Measurement(origin=Origin(kind="run", format="probes"), rows=rows)
    assert rates_text(found) == "gemm    bf16 800 TFLOP/s\nlaunch  op 5 µs"
    assert rates_text(Measurement(rows=rows)) == ""
