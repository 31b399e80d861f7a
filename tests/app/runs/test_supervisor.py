"""Runs outlive the server: a later one finds them by their folders, follows the living and concludes the dead."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import time

import httpx2
import pytest
from fastapi.testclient import TestClient

from app.main import create_app
from app.runs.supervisor import Supervisor
from runners.backends import local
from runners.job import read_events, read_handle
from tests.app.examples import ENDLESS, HEADROOM, MEASUREMENT, QUICK, scenario, write_run
from tests.app.waiting import events, measuring, processes_of, run_in, until

JOB = {"scenario": scenario(), "device": "cpu", "warmup": 1, "steps": 2, "label": "tiny"}


@pytest.fixture
def server(settings):
    """Start servers one after the other on the same data folder."""

    def start():
        return TestClient(create_app(settings), base_url="http://127.0.0.1:8000")

    return start


@pytest.fixture
def serve(settings):
    """Start ``headroom serve`` as its own process; gives (process, client)."""
    started = []

    def start():
        command = [*HEADROOM, "serve", "--port", "0"]
        environment = {**os.environ, "HEADROOM_DATA": str(settings.data), "HEADROOM_PROBE_CPU": "false"}
        environment["HEADROOM_NO_TOKEN"] = "true"
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        assert line.startswith("Headroom listens on http://127.0.0.1:"), line
        client = httpx2.Client(base_url=line.split()[-1], timeout=120)
        started.append((process, client))
        return process, client

    yield start
    for process, client in started:
        client.close()
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(60)
        process.stdout.close()


def test_a_killed_servers_run_is_found_again_followed_and_can_be_cancelled(serve, settings):
    process, client = serve()
    run_id = client.post("/api/runs", json=ENDLESS).json()["id"]
    measuring(client, run_id)
    process.kill()
    process.wait(60)
    folder = settings.data / "runs" / run_id
    assert processes_of(folder), "the run must outlive its server"

    process, client = serve()
    run = run_in(client, run_id, "running")
    step = run["progress"]["step"]
    until(lambda: client.get(f"/api/runs/{run_id}").json()["progress"]["step"] > step)
    assert client.post(f"/api/runs/{run_id}/cancel").json()["state"] == "cancelled"
    assert processes_of(folder) == []
    seen = events(client, run_id)
    assert [number for number, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[-1][1]["state"] == "cancelled"

    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_what_has_to_be_ready_is_awaited_before_each_start_and_not_once(store, data):
    """As a CPU that somebody measures anew long after the server has started."""
    asked = []

    async def ready():
        asked.append(len(asked))

    async def twice():
        supervisor = Supervisor(store, data, ready=ready)
        work = asyncio.create_task(supervisor._schedule())
        for _ in range(2):
            await asyncio.sleep(0.01)
            supervisor._wake.set()
        await asyncio.sleep(0.01)
        work.cancel()

    asyncio.run(twice())
    assert asked == [0, 1, 2]


def test_a_run_that_ended_while_no_server_looked_is_concluded_from_its_result(server, settings):
    with server() as client:
        run_id = client.post("/api/runs", json=JOB).json()["id"]
        run_in(client, run_id, "running")
    folder = settings.data / "runs" / run_id
    until(lambda: (folder / "result.json").exists() and not processes_of(folder))
    with server() as client:
        run = run_in(client, run_id, "ok")
        assert run["measurement_id"] == run_id
        assert len(client.get(f"/api/measurements/{run_id}").json()["steps_s"]) == 2
        states = [event["state"] for _, event in events(client, run_id) if event["kind"] == "state"]
        assert states.count("ok") == 1


def test_a_run_that_died_while_no_server_looked_fails_with_the_end_of_its_log(server, settings):
    with server() as client:
        run_id = client.post("/api/runs", json={**JOB, "steps": 100_000}).json()["id"]
        measuring(client, run_id)
    folder = settings.data / "runs" / run_id
    with (folder / "log").open("a") as log:
        log.write("RuntimeError: the last words\n")
    for pid in processes_of(folder):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not processes_of(folder))
    with (folder / "events.jsonl").open("a") as file:
        file.write('{"t_s": 1, "kind": "progr')
    with server() as client:
        run = run_in(client, run_id, "failed")
        assert run["message"].startswith("killed, signal 9 (SIGKILL): perhaps out of memory; its log ends: ")
        assert "the last words" in run["message"]
        assert "the last words" in run["log_tail"]
        assert events(client, run_id)[-1][1]["state"] == "failed"


def test_a_run_that_was_still_queued_is_started_by_the_next_server(server, settings):
    write_run(settings.data / "runs", "20260101-000000-000-abcdef", state="queued", measurement=None)
    folder = settings.data / "runs" / "20260101-000000-000-abcdef"
    with server() as client:
        job = client.post("/api/runs?dry_run=true", json=JOB).json()
        assert job["folder"].startswith(str(settings.data))
        run_in(client, folder.name, "running", "ok", "failed")
        assert client.post(f"/api/runs/{folder.name}/cancel").json()["state"] in ("cancelled", "ok", "failed")
    assert processes_of(folder) == []


def test_what_was_concluded_on_disk_but_not_in_the_index_is_taken_over(server, settings):
    with server():
        pass
    folder = write_run(settings.data / "runs", "r1", state="running", measurement=None)
    with server() as client:
        assert run_in(client, "r1", "failed")["message"] == "it was lost before it started"
    shutil.rmtree(folder)
    write_run(settings.data / "runs", "r2", state="ok", measurement=MEASUREMENT)
    with server() as client:
        assert [run["id"] for run in client.get("/api/runs").json()["runs"]] == ["r2"]
        assert client.get("/api/measurements/r2").json()["label"] == "a measured step"


def test_stopping_the_server_ends_the_event_streams_and_not_the_run(serve, settings):
    process, client = serve()
    run_id = client.post("/api/runs", json=ENDLESS).json()["id"]
    run_in(client, run_id, "running")
    with client.stream("GET", f"/api/runs/{run_id}/events") as stream:
        lines = stream.iter_lines()
        next(lines)
        began_s = time.monotonic()
        process.send_signal(signal.SIGINT)
        for _ in lines:
            pass
        ended_s = time.monotonic()
    assert process.wait(60) == 0
    # Streams that waited for the server's patience with connections would end after 5 s.
    assert ended_s - began_s < 5
    folder = settings.data / "runs" / run_id
    assert processes_of(folder)
    _, client = serve()
    assert client.post(f"/api/runs/{run_id}/cancel").json()["state"] == "cancelled"
    assert processes_of(folder) == []


def test_a_run_whose_handle_was_never_written_is_found_and_not_started_again(server, settings):
    with server() as client:
        run_id = client.post("/api/runs", json=ENDLESS).json()["id"]
        measuring(client, run_id)
    folder = settings.data / "runs" / run_id
    (folder / "handle.json").unlink()
    before = processes_of(folder)
    with server() as client:
        step = run_in(client, run_id, "running")["progress"]["step"]
        until(lambda: client.get(f"/api/runs/{run_id}").json()["progress"]["step"] > step)
        assert processes_of(folder) == before
        assert client.post(f"/api/runs/{run_id}/cancel").json()["state"] == "cancelled"
    assert processes_of(folder) == []


def test_a_run_that_somebody_took_on_and_never_started_is_concluded_and_not_started(server, settings):
    folder = write_run(settings.data / "runs", "20260101-000000-000-abcdef", state="queued", measurement=None)
    (folder / "claim").touch()
    with server() as client:
        run = run_in(client, folder.name, "failed")
        assert run["message"] == "it was lost before it started"
    assert not (folder / "handle.json").exists()


def test_a_run_whose_folder_cannot_be_read_does_not_keep_the_server_from_starting(server, settings):
    with server() as client:
        run_id = client.post("/api/runs", json=ENDLESS).json()["id"]
        measuring(client, run_id)
    folder = settings.data / "runs" / run_id
    for pid in processes_of(folder):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not local.alive(read_handle(folder)))
    (folder / "job.json").write_text("{")
    with server() as client:
        assert run_in(client, run_id, "failed")["message"].startswith("its folder cannot be read: ")


def test_a_run_ends_at_its_time_limit_and_a_queued_one_follows(server, settings):
    with server() as client:
        endless = client.post("/api/runs", json={**ENDLESS, "time_limit_s": 1}).json()["id"]
        second = client.post("/api/runs", json={**QUICK, "time_limit_s": 60}).json()["id"]
        assert run_in(client, endless, "failed")["message"] == "stopped at its time limit of 1 s"
        assert processes_of(settings.data / "runs" / endless) == []
        run_in(client, second, "ok")


def test_a_worker_that_a_signal_ended_is_said_to_be_killed(server, settings):
    with server() as client:
        run_id = client.post("/api/runs", json=ENDLESS).json()["id"]
        measuring(client, run_id)
        handle = read_handle(settings.data / "runs" / run_id)
        for pid in processes_of(settings.data / "runs" / run_id):
            if pid != handle.pid:
                os.kill(pid, signal.SIGKILL)
        said = run_in(client, run_id, "failed")["message"]
        assert said.startswith("killed, signal 9 (SIGKILL): perhaps out of memory")


def test_a_clock_that_is_set_ends_no_run(server, settings, monkeypatch):
    real = time.time
    with server() as client:
        run_id = client.post("/api/runs", json={**ENDLESS, "time_limit_s": 600}).json()["id"]
        measuring(client, run_id)
        monkeypatch.setattr(client.app.state.context.cpu, "state", "ready")
        asked = client.post("/api/this-cpu").json()
        assert (asked["measuring"], asked["message"][:19]) == (False, "A run is under way "), "each disturbs the other"
        monkeypatch.setattr(time, "time", lambda: real() + 86_400)
        time.sleep(2)
        assert client.get(f"/api/runs/{run_id}").json()["state"] == "running"
    with server() as client:  # which knows its beginning by the clock that was set
        written = [event["step"] for event in read_events(settings.data / "runs" / run_id) if "step" in event]
        until(lambda: run_in(client, run_id, "running")["progress"]["step"] > written[-1])
        monkeypatch.undo()
        assert client.post(f"/api/runs/{run_id}/cancel").json()["state"] == "cancelled"
    assert processes_of(settings.data / "runs" / run_id) == []
