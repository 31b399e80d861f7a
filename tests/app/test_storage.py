"""A full or read-only disk: said with its remedy, what is there is served, and what is deleted makes room."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import subprocess

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from app import database
from app.main import create_app
from app.storage import FULL, READ_ONLY, trouble_of, unwritable
from estimator.scenario.codec import encode
from tests.app.examples import HEADROOM, MEASUREMENT, ROOT, SCENARIO, write_run, write_upload
from tests.app.serving import serving
from tests.app.waiting import until

JOB = {"scenario": SCENARIO, "device": "cpu", "warmup": 0, "steps": 1}
RESULT = json.dumps(encode(MEASUREMENT)).encode()


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    """A data folder with a run and an upload, which a server has indexed."""
    folder = tmp_path_factory.mktemp("indexed") / "data"
    write_run(folder / "runs", "20260101-000000-000-aaaaaa")
    write_upload(folder / "uploads", "20260101-000000-000-bbbbbb")
    with serving(folder) as (_, client):
        assert what_is_there(client) == (1, 3)
    return folder


@pytest.fixture
def data(indexed, small_disk):
    """The same on a small disk."""
    shutil.copytree(indexed, small_disk.seen / "data")
    return small_disk.path / "data"


def what_is_there(client) -> tuple[int, int]:
    """Counts of runs and of measurements that are no samples; each can be opened."""
    assert client.get("/").status_code == 200
    assert client.get("/api/health").status_code == 200
    runs = client.get("/api/runs").json()["runs"]
    found = client.get("/api/measurements").json()["measurements"]
    found = [summary for summary in found if not summary["bundled"]]
    for summary in found:
        assert client.get(f"/api/measurements/{summary['id']}").status_code == 200
    return len(runs), len(found)


def refuses(answer, words: str) -> None:
    assert answer.status_code == 507, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert words in answer.json()["detail"]


@pytest.mark.parametrize("index", ["there", "missing"])
def test_a_server_starts_on_a_full_disk_and_deleting_makes_room(data, small_disk, index):
    if index == "missing":
        (small_disk.seen / "data" / "index.sqlite3").unlink()
    small_disk.fill()
    with serving(data, wrap=small_disk.inside) as (_, client):
        assert what_is_there(client) == (1, 3)
        assert "disk is full" in client.get("/api/health").json()["storage"]
        refuses(client.post("/api/runs", json=JOB), "disk is full")
        refuses(client.put("/api/uploads?filename=r.json", content=RESULT), "disk is full")
        assert client.delete("/api/uploads/20260101-000000-000-bbbbbb").status_code == 204
        assert client.delete("/api/runs/20260101-000000-000-aaaaaa").status_code == 204
        assert what_is_there(client) == (0, 0)
        assert os.listdir(small_disk.seen / "data" / "uploads") == []
        small_disk.free()
        answer = client.put("/api/uploads?filename=r.json", content=RESULT)
        assert answer.status_code == 201, answer.text
    with serving(data, wrap=small_disk.inside) as (_, client):
        assert what_is_there(client) == (0, 1)
        assert client.get("/api/health").json()["storage"] == "ok"


def test_a_disk_that_fills_under_a_server_is_said_and_deleting_makes_room(data, small_disk):
    with serving(data, wrap=small_disk.inside) as (_, client):
        small_disk.fill()
        refuses(client.post("/api/runs", json=JOB), "disk is full")
        refuses(client.put("/api/uploads?filename=r.json", content=RESULT), "disk is full")
        assert client.delete("/api/uploads/20260101-000000-000-bbbbbb").status_code == 204
        assert client.delete("/api/runs/20260101-000000-000-aaaaaa").status_code == 204
        assert what_is_there(client) == (0, 0)
        small_disk.free()
        assert client.put("/api/uploads?filename=r.json", content=RESULT).status_code == 201
        assert what_is_there(client) == (0, 1)


@pytest.mark.parametrize("index", ["there", "missing"])
def test_what_a_read_only_disk_holds_is_served(data, small_disk, index):
    if index == "missing":
        (small_disk.seen / "data" / "index.sqlite3").unlink()
    shutil.rmtree(small_disk.seen / "data" / "cache")
    small_disk.make_read_only()
    with serving(data, wrap=small_disk.inside) as (_, client):
        assert what_is_there(client) == (1, 3)
        assert "read-only" in client.get("/api/health").json()["storage"]
        refuses(client.post("/api/runs", json=JOB), "disk is read-only")
        refuses(client.put("/api/uploads?filename=r.json", content=RESULT), "disk is read-only")
        refuses(client.delete("/api/uploads/20260101-000000-000-bbbbbb"), "disk is read-only")
        refuses(client.delete("/api/runs/20260101-000000-000-aaaaaa"), "disk is read-only")
        assert what_is_there(client) == (1, 3)
        second = headroom(small_disk, "serve", "--port", "0", "--data", str(data))
        assert (second.returncode, second.stderr.splitlines()[0][:44]) == (
            2,
            "headroom: data: another Headroom server uses",
        )


def test_an_index_that_somebody_locks_at_the_start_is_taken_up_once_it_is_free(settings, monkeypatch):
    monkeypatch.setattr(database, "SQLITE_PATIENCE_MS", 100)
    monkeypatch.setattr("app.main.TAKE_UP_S", 0.1)
    write_upload(settings.data / "uploads", "20260101-000000-000-bbbbbb")
    with TestClient(create_app(settings)):
        pass  # makes the index
    index = sqlite3.connect(settings.data / "index.sqlite3", isolation_level=None)
    index.execute("BEGIN IMMEDIATE")
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        assert "locked" in client.get("/api/health").json()["storage"]
        added = client.put("/api/uploads?filename=r.json", content=RESULT).json()["upload_id"]
        assert client.delete("/api/uploads/20260101-000000-000-bbbbbb").status_code == 204
        index.execute("ROLLBACK")
        until(lambda: client.get("/api/health").json()["storage"] == "ok")
        assert what_is_there(client) == (0, 1)
        assert index.execute("SELECT id FROM headroom_uploads").fetchall() == [(added,)]
    index.close()


def headroom(disk, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HEADROOM_PROBE_CPU": "false", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        disk.inside(*HEADROOM, *arguments), env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def test_a_command_says_why_it_cannot_store(data, small_disk, tmp_path):
    job = tmp_path / "job.json"
    job.write_text(json.dumps(JOB))
    small_disk.fill()
    done = headroom(small_disk, "run", str(job), "--data", str(data))
    assert (done.returncode, done.stderr) == (2, f"headroom: data: {FULL.message}. {FULL.remedy}\n")
    small_disk.free()
    small_disk.make_read_only()
    done = headroom(small_disk, "run", str(job), "--data", str(data))
    assert (done.returncode, done.stderr) == (2, f"headroom: data: {READ_ONLY.message}. {READ_ONLY.remedy}\n")
    done = headroom(small_disk, "serve", "--port", "0", "--data", str(small_disk.path / "another" / "folder"))
    assert done.returncode == 2
    assert "another/folder cannot be used: Read-only file system. Let the server write there" in done.stderr


def test_what_sqlite_says_of_its_disk_is_understood():
    engine = sa.create_engine("sqlite://")
    for pragma, expected in (("max_page_count=2", FULL), ("query_only=1", READ_ONLY)):
        with engine.connect() as connection:
            connection.exec_driver_sql("CREATE TABLE t (x)")
            connection.exec_driver_sql(f"PRAGMA {pragma}")
            with pytest.raises(sa.exc.OperationalError) as caught:
                connection.exec_driver_sql("INSERT INTO t VALUES (zeroblob(100000))")
            assert trouble_of(caught.value) == expected
            connection.exec_driver_sql("PRAGMA query_only=0")
        engine.dispose()
    assert trouble_of(OSError(errno.EDQUOT, "quota")) == FULL
    assert trouble_of(FileNotFoundError(errno.ENOENT, "no")) is None
    assert trouble_of(sa.exc.ArgumentError("no")) is None


def test_a_folder_is_tried_by_writing(tmp_path):
    assert unwritable(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    assert "cannot be written (No such file or directory)" in unwritable(tmp_path / "gone").message
