"""The local backend with real torchrun, real ranks over gloo, and nothing left of them."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from runners.backends import local
from runners.job import (
    CANCEL_FILE,
    LOG_FILE,
    RESULT_FILE,
    TRACE_FILE,
    Handle,
    Job,
    append_event,
    last_state,
    read_events,
    read_handle,
    read_measurement,
    state,
    write_job,
)
from tests.runners.examples import limited, scenario_json, too_large


def two_ranks(folder: Path, scenario=None, **changes) -> Job:
    job = Job(
        scenario=scenario or scenario_json(dp=2), world_size=2, device="cpu", **{"warmup": 1, "steps": 3} | changes
    )
    write_job(folder, job)
    return job


def wait_for_the_end(handle: Handle) -> None:
    deadline = time.monotonic() + 120
    while local.alive(handle):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_request_shows_exactly_what_would_run(tmp_path):
    request = local.render(tmp_path, two_ranks(tmp_path))
    assert request.command[:3] == (sys.executable, "-m", "torch.distributed.run")
    assert "--nproc-per-node 2 --max-restarts 0 -m runners step --job" in " ".join(request.command)
    assert request.environment["HEADROOM_JOB_FOLDER"] == request.folder == str(tmp_path)
    assert int(request.environment["OMP_NUM_THREADS"]) >= 1
    assert [path.name for path in tmp_path.iterdir()] == ["job.json"]


def test_two_ranks_over_gloo_give_one_result(tmp_path):
    handle = local.submit(local.render(tmp_path, two_ranks(tmp_path, label="pair")))
    assert local.status(handle) in ("running", "queued")
    assert read_handle(tmp_path) == handle
    wait_for_the_end(handle)
    assert local.status(handle) == "ok", (tmp_path / LOG_FILE).read_text(encoding="utf-8")

    result = read_measurement(tmp_path / RESULT_FILE)
    assert (result.label, result.world_size, result.device["count"], len(result.steps_s)) == ("pair", 2, 2, 3)
    by_rank, alone = result.samples["ranks"], result.samples["ranks_without_communication"]
    assert [len(rank) for rank in by_rank] == [len(rank) for rank in alone] == [3, 3]
    assert [max(rank[i]["step"] for rank in by_rank) for i in range(3)] == list(result.steps_s)
    assert any(kernel.category == "communication" for kernel in result.kernels)
    assert result.memory.by_kind["communication"] == result.memory.by_kind["parameters"]
    assert sum(result.phases_s.values()) == pytest.approx(result.samples["spread"]["step"]["median_s"])

    steps = [event["step"] for event in read_events(tmp_path) if event.get("phase") == "measure"]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, 6)  # three with communication, three without
    phases = [event["phase"] for event in read_events(tmp_path) if event["kind"] == "progress"]
    assert list(dict.fromkeys(phases)) == ["build", "warmup", "measure", "profile"]
    assert [event["state"] for event in read_events(tmp_path) if event["kind"] == "state"] == ["running", "ok"]
    assert (tmp_path / TRACE_FILE).exists()


def test_cancel_ends_every_process_of_the_job(tmp_path):
    handle = local.submit(local.render(tmp_path, two_ranks(tmp_path, steps=100_000)))
    while not any(event.get("phase") == "measure" for event in read_events(tmp_path)):
        assert local.alive(handle)
        time.sleep(0.05)
    processes = local._processes(handle)
    assert len(processes) == 3  # torchrun and two workers, which have sessions of their own
    assert len({os.getsid(pid) for pid in processes}) == 3

    # Found again as after a restart of the server, from the folder alone
    local.cancel(read_handle(tmp_path))
    assert local._processes(handle) == []
    assert [pid for pid in processes if local._start_time(pid) is not None] == []
    assert local.status(handle) == "cancelled"
    assert read_measurement(tmp_path / RESULT_FILE).status == "cancelled"
    assert last_state(tmp_path)["state"] == "cancelled"


def test_processes_that_ignore_the_polite_signal_are_killed(tmp_path):
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if len(sys.argv) < 2: subprocess.Popen([sys.executable, __file__, 'x'], start_new_session=True)\n"
        "open(sys.argv[-1] + '.up', 'w').close()\n"
        "time.sleep(600)\n"
    )
    script = tmp_path / "stubborn.py"
    script.write_text(code, encoding="utf-8")
    request = local.render(tmp_path, two_ranks(tmp_path))
    handle = local.submit(replace(request, command=(sys.executable, str(script))))
    while len(local._processes(handle)) < 2:
        time.sleep(0.05)
    time.sleep(0.3)
    local.cancel(handle, grace_s=0.2)
    assert local._processes(handle) == []
    assert local.status(handle) == "cancelled"


def test_out_of_memory_on_two_ranks_is_a_result_and_ends_both(tmp_path):
    request = local.render(tmp_path, two_ranks(tmp_path, too_large(dp=2)))
    handle = local.submit(replace(request, command=limited(request.command)))
    wait_for_the_end(handle)
    assert local.status(handle) == "oom", (tmp_path / LOG_FILE).read_text(encoding="utf-8")
    assert read_measurement(tmp_path / RESULT_FILE).status == "oom"
    assert [event["state"] for event in read_events(tmp_path) if event["kind"] == "state"] == ["running", "oom"]


def test_a_run_that_dies_without_a_word_has_failed(tmp_path):
    request = local.render(tmp_path, two_ranks(tmp_path))
    handle = local.submit(replace(request, command=(sys.executable, "-c", "print('gone')")))
    wait_for_the_end(handle)
    assert local.status(handle) == "failed"
    assert (tmp_path / LOG_FILE).read_text(encoding="utf-8") == "gone\n"
    append_event(tmp_path, state("running"))
    assert local.status(handle) == "failed"
    (tmp_path / CANCEL_FILE).touch()
    assert local.status(handle) == "cancelled"


def test_a_process_that_took_over_the_id_is_not_the_job(tmp_path):
    stranger = Handle(pid=os.getpid(), start_time=1, folder=str(tmp_path))
    assert not local.alive(stranger)
    local.cancel(stranger)
