"""The local backend with real processes, real ranks over gloo, and nothing left of them."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from runners.backends import Status, local
from runners.backends.processes import marked, processes_of, rank_killed, start_time
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
from runners.placement import Placement
from tests import warm
from tests.runners.examples import limited, scenario_json, too_large


def two_ranks(folder: Path, scenario=None, **changes) -> Job:
    job = Job(
        scenario=scenario or scenario_json(dp=2), world_size=2, device="cpu", **{"warmup": 1, "steps": 3} | changes
    )
    write_job(folder, job)
    return job


def wait_for_the_end(handle: Handle) -> None:
    deadline = time.monotonic() + 240
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
    alone = local.render(tmp_path, Job(scenario=scenario_json()))
    assert alone.command[:5] == (sys.executable, "-m", "runners", "step", "--job")


def test_two_ranks_over_gloo_give_one_result(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", warm.COLD)  # as a user's run begins
    handle = local.submit(local.render(tmp_path, two_ranks(tmp_path, label="pair")))
    assert local.status(handle) == Status(alive=True, state="running")
    assert read_handle(tmp_path) == handle
    wait_for_the_end(handle)
    assert local.status(handle).state == "ok", (tmp_path / LOG_FILE).read_text(encoding="utf-8")

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
    job = Job(benchmark="collectives", world_size=2, device="cpu", steps=100_000)  # it begins sooner than a step does
    write_job(tmp_path, job)
    handle = local.submit(local.render(tmp_path, job))
    while not any(event["kind"] == "progress" for event in read_events(tmp_path)):
        assert local.alive(handle)
        time.sleep(0.05)
    processes = processes_of(handle)
    assert len(processes) == 5  # torchrun, two workers and their watchdogs, which have sessions of their own
    assert len({os.getsid(pid) for pid in processes}) == 5

    # Found again as after a restart of the server, from the folder alone
    local.cancel(read_handle(tmp_path))
    assert processes_of(handle) == []
    assert [pid for pid in processes if start_time(pid) is not None] == []
    assert local.status(handle).state == "cancelled"
    assert read_measurement(tmp_path / RESULT_FILE).status == "cancelled"
    assert last_state(tmp_path)["state"] == "cancelled"


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_process_that_a_signal_ended_is_said_to_be_killed(tmp_path, world_size):
    # a benchmark that begins sooner than a step does
    job = Job(benchmark="collectives", world_size=2, device="cpu", steps=100_000)
    if world_size == 1:
        job = Job(benchmark="attention", device="cpu", steps=100_000, time_limit_s=600)
    write_job(tmp_path, job)
    handle = local.submit(local.render(tmp_path, job))
    while not any(event["kind"] == "progress" for event in read_events(tmp_path)):
        assert local.alive(handle)
        time.sleep(0.05)
    workers = [pid for pid in processes_of(handle) if b"--job" in cmdline(pid) and pid != handle.pid]
    os.kill(workers[-1], signal.SIGKILL)
    wait_for_the_end(handle)
    message = "killed, signal 9 (SIGKILL): perhaps out of memory"
    assert local.status(handle) == Status(alive=False, state="failed", message=message)


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_processes_that_ignore_the_polite_signal_are_killed(tmp_path):
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if len(sys.argv) < 2: subprocess.Popen([sys.executable, __file__, 'x'], start_new_session=True)\n"
        "open(f'{__file__}.{len(sys.argv)}.up', 'w').close()\n"
        "time.sleep(600)\n"
    )
    script = tmp_path / "stubborn.py"
    script.write_text(code, encoding="utf-8")
    request = local.render(tmp_path, two_ranks(tmp_path))
    handle = local.submit(replace(request, command=(sys.executable, str(script))))
    while len(list(tmp_path.glob("*.up"))) < 2:
        time.sleep(0.05)
    local.cancel(handle, grace_s=0.2)
    assert processes_of(handle) == []
    assert local.status(handle).state == "cancelled"


def test_out_of_memory_on_two_ranks_is_a_result_and_ends_both(tmp_path):
    request = local.render(tmp_path, two_ranks(tmp_path, too_large(dp=2)))
    handle = local.submit(replace(request, command=limited(request.command)))
    wait_for_the_end(handle)
    assert local.status(handle).state == "oom", (tmp_path / LOG_FILE).read_text(encoding="utf-8")
    assert read_measurement(tmp_path / RESULT_FILE).status == "oom"
    assert [event["state"] for event in read_events(tmp_path) if event["kind"] == "state"] == ["running", "oom"]


def test_a_run_that_dies_without_a_word_has_failed(tmp_path):
    request = local.render(tmp_path, two_ranks(tmp_path))
    handle = local.submit(replace(request, command=(sys.executable, "-c", "print('gone')")))
    wait_for_the_end(handle)
    assert local.status(handle).state == "failed"
    assert (tmp_path / LOG_FILE).read_text(encoding="utf-8") == "gone\n"
    append_event(tmp_path, state("running"))
    assert local.status(handle).state == "failed"
    (tmp_path / CANCEL_FILE).touch()
    assert local.status(handle).state == "cancelled"


def test_a_process_that_took_over_the_id_is_not_the_job(tmp_path):
    stranger = Handle(pid=os.getpid(), start_time=1, folder=str(tmp_path))
    assert not local.alive(stranger)
    local.cancel(stranger)


def test_a_grandchild_without_the_mark_ends_too(tmp_path):
    code = (
        "import subprocess, sys, time\n"
        "command = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "clean = subprocess.Popen(command, env={}, start_new_session=True)\n"
        "open(sys.argv[1], 'w').write(str(clean.pid))\n"
        "time.sleep(600)\n"
    )
    request = local.render(tmp_path, two_ranks(tmp_path))
    handle = local.submit(replace(request, command=(sys.executable, "-c", code, str(tmp_path / "clean"))))
    while not (tmp_path / "clean").exists() or not (tmp_path / "clean").read_text():
        time.sleep(0.05)
    clean = int((tmp_path / "clean").read_text())
    assert clean in processes_of(handle)
    assert clean not in marked(str(tmp_path))
    local.cancel(handle)
    assert start_time(clean) is None


def test_a_job_without_a_handle_is_found_by_its_mark(tmp_path):
    assert local.find(tmp_path) is None
    request = local.render(tmp_path, two_ranks(tmp_path))
    handle = local.submit(replace(request, command=(sys.executable, "-c", "import time; time.sleep(600)")))
    (tmp_path / "handle.json").unlink()
    while local.find(tmp_path) != handle:  # the mark is there once the process has become Python
        time.sleep(0.05)
    assert read_handle(tmp_path) == handle
    local.cancel(handle)
    assert local.find(tmp_path) is None


def test_a_time_limit_holds_without_a_server(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "OVERTIME_S", 0.5)
    request = local.render(tmp_path, two_ranks(tmp_path, time_limit_s=0.5))
    assert request.command[:3] == ("timeout", "--kill-after=5", "1")
    code = (
        "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).wait()"
    )
    handle = local.submit(replace(request, command=(*request.command[:3], sys.executable, "-c", code)))
    wait_for_the_end(handle)
    assert local._exit_codes[handle.pid] == 124, "by its own end, not killed 5 s after it was asked to"
    assert processes_of(handle) == []


def test_the_servers_secrets_stay_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADROOM_TOKEN", "secret")
    code = "import os; print(os.environ.get('HEADROOM_TOKEN'))"
    request = local.render(tmp_path, two_ranks(tmp_path))
    handle = local.submit(replace(request, command=(sys.executable, "-c", code)))
    wait_for_the_end(handle)
    assert (tmp_path / LOG_FILE).read_text() == "None\n"


def test_what_one_machine_has_not_is_a_problem(tmp_path):
    job = two_ranks(tmp_path)
    assert local.problems(job) == []
    several = replace(job, placement=Placement(nodes=2))
    assert [problem.field for problem in local.problems(several)] == ["placement.nodes"]
    queued = replace(job, placement=Placement(partition="gpu"))
    assert [problem.field for problem in local.problems(queued)] == ["placement"]
    threaded = replace(job, placement=Placement(cpus_per_process=3))
    assert local.problems(threaded) == []
    assert local.render(Path("run"), threaded).environment["OMP_NUM_THREADS"] == "3"
    assert [problem.field for problem in local.problems(replace(job, world_size=65))] == ["world_size"]
    on_gpu = local.problems(replace(job, device="cuda", world_size=64))
    assert [problem.field for problem in on_gpu] == ["device"]


@pytest.mark.parametrize(
    ("others", "first", "said"),
    [
        ("", -9, "killed, signal 9 (SIGKILL): perhaps out of memory"),
        # A neighbour that lost the connection was seen failing first; torchrun ended the third.
        ("exitcode  : -9 (pid: 7)\nexitcode  : -15 (pid: 8)\n", 1, "killed, signal 9 (SIGKILL): perhaps out of memory"),
        ("exitcode  : -15 (pid: 8)\n", 1, ""),
    ],
)
def test_a_rank_that_a_signal_ended_is_found_in_the_report_of_torchrun(tmp_path, others, first, said):
    report = f"Failures:\n{others}Root Cause (first observed failure):\nexitcode  : {first} (pid: 6)\n"
    (tmp_path / LOG_FILE).write_text(report)
    assert rank_killed(tmp_path) == said
