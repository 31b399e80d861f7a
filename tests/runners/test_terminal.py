"""Lines of a run on a terminal: what tells a row from others, and one number of it."""

from __future__ import annotations

import pytest

from estimator.scenario.measurement import MeasuredMemory, Measurement, Origin
from runners.job import progress, state
from runners.terminal import event_text, result_text

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
