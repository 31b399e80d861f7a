"""A run outlives a database that is away, an index that somebody locks, a full disk and a follower that breaks."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest
from fastapi.testclient import TestClient

from app import database
from app.main import create_app
from tests.app.examples import ENDLESS, HEADROOM, QUICK, scenario
from tests.app.postgres import Postgres
from tests.app.serving import serving
from tests.app.waiting import FINAL, measuring, processes_of, run_in, until

STEP = {"scenario": scenario(), "device": "cpu", "warmup": 1, "steps": 2, "label": "tiny"}
MANY_STEPS = {**STEP, "steps": 100_000}


@pytest.fixture(scope="module")
def postgres():
    """A server of our own, because these tests take it away."""
    with Postgres() as server:
        yield server


@pytest.fixture(autouse=True)
def _nothing_goes_on(tmp_path):
    """An endless run of a test that fails would compute until its time limit."""
    yield
    for pid in processes_of(tmp_path):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def on_postgres(settings, postgres):
    chosen = settings.model_copy(update={"database_url": postgres.url})
    with TestClient(create_app(chosen), base_url="http://127.0.0.1:8000") as client:
        yield client


def begin(client, job=ENDLESS) -> tuple[str, int]:
    """Launch an endless run; gives its id and the step that it is at."""
    run_id = client.post("/api/runs", json=job).json()["id"]
    return run_id, measuring(client, run_id)["progress"]["step"]


def goes_on_until_it_is_cancelled(client, folder, step: int) -> None:
    """A run is followed, keeps its slot, and can be cancelled and deleted."""
    run_id = folder.name
    until(lambda: client.get(f"/api/runs/{run_id}").json()["progress"]["step"] > step)
    second = client.post("/api/runs", json=QUICK).json()["id"]
    time.sleep(0.5)
    assert client.get(f"/api/runs/{second}").json()["state"] == "queued", "the run at work keeps its slot"
    assert client.post(f"/api/runs/{run_id}/cancel").json()["state"] == "cancelled"
    assert processes_of(folder) == []
    assert client.delete(f"/api/runs/{run_id}").status_code == 204
    assert not folder.exists()
    run_in(client, second, "ok")
    assert client.delete(f"/api/runs/{second}").status_code == 204


@pytest.mark.postgres
def test_a_run_outlives_a_database_that_is_away(on_postgres, postgres, settings):
    client = on_postgres
    run_id, _ = begin(client)
    folder = settings.data / "runs" / run_id
    postgres.stop()
    try:
        time.sleep(2)
        answer = client.get("/api/health")
        assert answer.status_code == 503, answer.text
        answer = client.get("/api/runs")
        assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
        assert "database" in answer.json()["detail"]
        lines = (folder / "events.jsonl").read_bytes().count(b"\n")
        answer = client.post("/api/runs", json=QUICK)
        assert answer.status_code == 503
        assert [path.name for path in folder.parent.iterdir()] == [run_id], "what was refused leaves nothing"
        assert processes_of(folder)
    finally:
        postgres.start()
    goes_on_until_it_is_cancelled(client, folder, lines)


@pytest.mark.postgres
def test_a_run_that_ends_while_the_database_is_away_is_concluded_when_it_is_back(on_postgres, postgres, settings):
    client = on_postgres
    run_id = client.post("/api/runs", json={**STEP, "steps": 20}).json()["id"]
    run_in(client, run_id, "running")
    folder = settings.data / "runs" / run_id
    postgres.stop()
    try:
        until(lambda: (folder / "result.json").exists() and not processes_of(folder))
        time.sleep(1)
    finally:
        postgres.start()
    assert run_in(client, run_id, "ok")["measurement_id"] == run_id
    assert len(client.get(f"/api/measurements/{run_id}").json()["steps_s"]) == 20
    assert (folder / "events.jsonl").read_text().count('"ok"') == 1
    client.delete(f"/api/runs/{run_id}")


@pytest.mark.postgres
def test_a_run_can_be_cancelled_while_the_database_is_away(on_postgres, postgres, settings):
    client = on_postgres
    run_id, _ = begin(client)
    folder = settings.data / "runs" / run_id
    postgres.stop()
    try:
        answer = client.post(f"/api/runs/{run_id}/cancel")
        assert processes_of(folder) == []
        assert answer.status_code == 503
        assert "database" in answer.json()["detail"]
    finally:
        postgres.start()
    run_in(client, run_id, "cancelled")
    client.delete(f"/api/runs/{run_id}")


def test_a_run_outlives_an_index_that_somebody_else_locks(settings, monkeypatch):
    monkeypatch.setattr(database, "SQLITE_PATIENCE_MS", 500)
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        run_id, _ = begin(client)
        folder = settings.data / "runs" / run_id
        other = sqlite3.connect(settings.data / "index.sqlite3", isolation_level=None, timeout=60)
        other.execute("BEGIN IMMEDIATE")
        time.sleep(2)
        other.execute("ROLLBACK")
        other.close()
        goes_on_until_it_is_cancelled(client, folder, client.get(f"/api/runs/{run_id}").json()["progress"]["step"])


def test_a_run_outlives_a_disk_that_is_full_for_a_while(small_disk):
    data = small_disk.path / "data"
    with serving(data, wrap=small_disk.inside) as (_, client):
        run_id, _ = begin(client, MANY_STEPS)
        seen = small_disk.seen / "data" / "runs" / run_id
        small_disk.fill()
        time.sleep(3)
        second = client.post("/api/runs", json=QUICK)
        assert second.status_code == 507, second.text
        assert "disk is full" in second.json()["detail"]
        assert [path.name for path in seen.parent.iterdir()] == [run_id]
        small_disk.free()
        time.sleep(1)
        step = client.get(f"/api/runs/{run_id}").json()["progress"]["step"]
        until(lambda: client.get(f"/api/runs/{run_id}").json()["progress"]["step"] > step)
        assert client.post(f"/api/runs/{run_id}/cancel").json()["state"] == "cancelled"
        assert processes_of(data / "runs" / run_id) == []
        assert client.delete(f"/api/runs/{run_id}").status_code == 204
        run_in(client, client.post("/api/runs", json=QUICK).json()["id"], "ok")


def test_a_run_can_be_cancelled_on_a_full_disk(small_disk):
    data = small_disk.path / "data"
    with serving(data, wrap=small_disk.inside) as (_, client):
        run_id, _ = begin(client, MANY_STEPS)
        small_disk.fill()
        answer = client.post(f"/api/runs/{run_id}/cancel")
        assert processes_of(data / "runs" / run_id) == []
        assert answer.status_code == 507, answer.text
        small_disk.free()
        run_in(client, run_id, "cancelled")


def test_a_follower_that_breaks_takes_its_run_up_again(client, settings):
    run_id, step = begin(client)
    folder = settings.data / "runs" / run_id
    events = folder / "events.jsonl"
    events.rename(folder / "aside")
    events.mkdir()
    time.sleep(1)
    events.rmdir()
    (folder / "aside").rename(events)
    goes_on_until_it_is_cancelled(client, folder, step)


def test_a_run_whose_folder_is_taken_away_has_failed_and_frees_its_slot(client, settings):
    run_id, _ = begin(client)
    folder = settings.data / "runs" / run_id
    waiting = settings.data / "runs" / client.post("/api/runs", json=QUICK).json()["id"]
    shutil.rmtree(waiting)
    shutil.rmtree(folder, ignore_errors=True)  # its worker may write into it meanwhile
    shutil.rmtree(folder, ignore_errors=True)
    assert run_in(client, run_id, "failed")["message"] == "its folder has gone"
    assert processes_of(folder) == []
    assert client.post(f"/api/runs/{run_id}/cancel").json()["state"] == "failed"
    assert client.delete(f"/api/runs/{run_id}").status_code == 204
    assert run_in(client, waiting.name, "failed")["message"] == "its folder has gone"
    run_in(client, client.post("/api/runs", json=QUICK).json()["id"], "ok")


def test_a_run_that_nobody_follows_any_more_is_concluded_by_cancelling(client, settings, tmp_path):
    """A command started it and was killed."""
    (tmp_path / "job.json").write_text(json.dumps(ENDLESS))
    command = [*HEADROOM, "run", str(tmp_path / "job.json"), "--data", str(settings.data)]
    started = subprocess.Popen(command, env={**os.environ, "HEADROOM_SAMPLES": str(settings.samples)})
    (run,) = until(lambda: client.get("/api/runs").json()["runs"])
    measuring(client, run["id"])
    started.kill()
    started.wait(60)
    folder = settings.data / "runs" / run["id"]
    assert processes_of(folder)
    for _ in range(2):
        assert client.post(f"/api/runs/{run['id']}/cancel").json()["state"] == "cancelled"
        assert processes_of(folder) == []
    assert client.delete(f"/api/runs/{run['id']}").status_code == 204


def test_a_run_whose_processes_and_follower_were_killed_is_concluded_by_cancelling(client, settings, tmp_path):
    (tmp_path / "job.json").write_text(json.dumps(ENDLESS))
    command = [*HEADROOM, "run", str(tmp_path / "job.json"), "--data", str(settings.data)]
    started = subprocess.Popen(command)
    (run,) = until(lambda: client.get("/api/runs").json()["runs"])
    measuring(client, run["id"])
    started.kill()
    started.wait(60)
    folder = settings.data / "runs" / run["id"]
    for pid in processes_of(folder):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not processes_of(folder))
    assert client.post(f"/api/runs/{run['id']}/cancel").json()["state"] in FINAL
    assert client.delete(f"/api/runs/{run['id']}").status_code == 204
