"""Benchmarks as jobs through the local backend: options from job.json, every row an event, one result."""

from __future__ import annotations

import time

import pytest

from runners.backends import local
from runners.job import LOG_FILE, RESULT_FILE, Job, last_state, read_events, read_measurement, write_job

pytestmark = pytest.mark.usefixtures("warm_python")


def finished(folder, job):
    write_job(folder, job)
    handle = local.submit(local.render(folder, job))
    deadline = time.monotonic() + 240
    while local.alive(handle):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return last_state(folder)["state"], (folder / LOG_FILE).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("benchmark", "options", "world_size", "rows"),
    [
        ("collectives", {"kinds": ["all-reduce"], "sizes_bytes": [64, 4096]}, 2, 4),
        ("step", {"models": ["tiny"], "layers": 1, "seq_lens": [8], "precisions": ["fp32", "bf16"]}, 1, 2),
    ],
)
def test_a_job_gives_rows_as_they_come_and_one_result(tmp_path, benchmark, options, world_size, rows):
    job = Job(benchmark=benchmark, options=options, world_size=world_size, device="cpu", warmup=1, steps=2, label="j")
    status, log = finished(tmp_path, job)
    assert status == "ok", log
    result = read_measurement(tmp_path / RESULT_FILE)
    assert (result.label, result.origin.format, len(result.rows)) == ("j", benchmark, rows)
    assert result.samples["options"] == options
    events = [event for event in read_events(tmp_path) if event.get("phase") == "measure"]
    assert [event["step"] for event in events] == [1, 2]
    assert events[-1]["row"] == result.rows[-1]


def test_bad_options_in_a_job_fail_it_with_field_and_remedy(tmp_path):
    job = Job(benchmark="memory", options={"passes": ["sideways"]}, device="cpu")
    status, log = finished(tmp_path, job)
    assert status == "failed"
    assert "options.passes: 'sideways' is not known. " in log
    assert "One of: forward, forward-backward, step." in log
