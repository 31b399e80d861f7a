"""Cancelling a run on GPUs: no process of it is left, and no memory."""

from __future__ import annotations

import subprocess
import time

import pytest
import torch

from runners.backends import local
from runners.backends.processes import processes_of, start_time
from runners.job import Job, read_events, read_handle, write_job
from tests.runners.examples import scenario_json

pytestmark = pytest.mark.gpu

SLACK_BYTES = 64 * 2**20


def used_bytes(count: int) -> list[int]:
    """What all processes together hold on each GPU."""
    text = subprocess.run(
        ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [int(line) * 2**20 for line in text.splitlines()[:count]]


@pytest.mark.parametrize("processes", [1, 2])
def test_cancel_leaves_no_process_and_no_memory(processes, tmp_path):
    if torch.cuda.device_count() < processes:
        pytest.skip(f"needs {processes} GPUs, {torch.cuda.device_count()} are here")
    before = used_bytes(processes)
    model = {"layers": 8, "hidden": 1024, "heads": 16, "kv_heads": 16, "ffn": 4096, "vocab": 32_000}
    document = scenario_json(dp=processes, model=model, training={"seq_len": 1024})
    job = Job(scenario=document, world_size=processes, device="cuda", warmup=1, steps=100_000)
    write_job(tmp_path, job)
    handle = local.submit(local.render(tmp_path, job))
    deadline = time.monotonic() + 120
    while not any(event.get("phase") == "measure" and event["step"] > 5 for event in read_events(tmp_path)):
        assert local.alive(handle), (tmp_path / "log").read_text(encoding="utf-8")
        assert time.monotonic() < deadline
        time.sleep(0.05)
    while_running = used_bytes(processes)
    assert all(now > then + 2**30 for now, then in zip(while_running, before, strict=True))
    found = processes_of(handle)
    assert len(found) >= processes + 1
    begin_s = time.monotonic()
    local.cancel(read_handle(tmp_path))
    print(f"{processes} processes ended {time.monotonic() - begin_s:.2f} s after cancel")
    assert processes_of(handle) == []
    assert [pid for pid in found if start_time(pid) is not None] == []
    assert local.status(handle).state == "cancelled"
    deadline = time.monotonic() + 10
    while any(now > then + SLACK_BYTES for now, then in zip(used_bytes(processes), before, strict=True)):
        assert time.monotonic() < deadline, (before, used_bytes(processes))
        time.sleep(0.2)
