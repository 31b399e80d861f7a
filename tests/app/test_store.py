"""The index: the same on SQLite and PostgreSQL, and rebuilt from the folders whenever it is missing or behind."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from app import database
from app.disk import DataFolder, write_json
from app.runs.run import read_run
from app.store import Store
from estimator.scenario.codec import encode
from tests.app.examples import MEASUREMENT, write_run, write_upload


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'index.sqlite3'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def data(tmp_path):
    folder = DataFolder(tmp_path / "data")
    folder.create()
    return folder


@pytest.fixture
def open_store(url, data, tmp_path):
    opened = []

    def open_again() -> Store:
        opened.append(Store(url, data, tmp_path / "samples"))
        opened[-1].open()
        return opened[-1]

    yield open_again
    for store in opened:
        store.close()


def test_a_run_and_its_measurement_become_known_together(open_store, data, url):
    store = open_store()
    assert store.check() == url.partition(":")[0]
    run = read_run(write_run(data.runs, "r1"))
    store.put_run(run, dataclasses.replace(MEASUREMENT, id="r1"))
    assert store.run("r1") == run
    assert store.runs() == [run]
    assert store.runs(unfinished=True) == []
    (summary,) = store.summaries()
    assert (summary.id, summary.step_time_s, summary.kernels, summary.rows) == ("r1", 0.011, 1, 0)
    assert summary.device_name == "NVIDIA A100"
    assert summary.has_scenario
    assert store.measurement("r1") == dataclasses.replace(MEASUREMENT, id="r1")
    assert store.run("r2") is None
    for name in ("../r1", "", "r\0", "r1\n", "r" * 10_000):
        assert store.run(name) is None
        assert store.measurement(name) is None


def test_runs_come_newest_first(open_store, data):
    store = open_store()
    for run_id in ("20260101-000000-001-aa", "20260101-000000-003-aa", "20260101-000000-002-aa"):
        store.put_run(read_run(write_run(data.runs, run_id, state="queued", measurement=None)))
    assert [run.id[16:19] for run in store.runs()] == ["003", "002", "001"]
    assert len(store.runs(unfinished=True)) == 3


def test_an_upload_gives_a_line_for_every_measurement(open_store, data):
    store = open_store()
    write_upload(data.uploads, "u1", count=3)
    assert [summary.label for summary in store.put_upload("u1")] == ["table 0", "table 1", "table 2"]
    assert len(store.summaries()) == 3
    assert store.measurement("u1-2").label == "table 2"


def test_an_index_that_is_behind_the_folders_is_rebuilt(open_store, data):
    open_store()
    write_run(data.runs, "r1")
    write_run(data.runs, "r2", state="failed", measurement=None)
    write_upload(data.uploads, "u1")
    store = open_store()
    assert [run.state for run in store.runs()] == ["failed", "ok"]
    assert store.run("r1").measurement_id == "r1"
    assert store.run("r1").progress.step == 3
    assert store.run("r2").measurement_id is None
    assert {summary.id for summary in store.summaries()} == {"r1", "u1-0", "u1-1"}
    shutil.rmtree(data.runs / "r1")
    shutil.rmtree(data.uploads / "u1")
    store = open_store()
    assert [run.id for run in store.runs()] == ["r2"]
    assert store.summaries() == []


def test_rebuilding_gives_what_was_stored_one_by_one(open_store, data):
    store = open_store()
    run = read_run(write_run(data.runs, "r1"))
    store.put_run(run, dataclasses.replace(MEASUREMENT, id="r1"))
    write_upload(data.uploads, "u1")
    store.put_upload("u1")
    before = store.runs(), store.summaries()
    store.rebuild()
    assert (store.runs(), store.summaries()) == before


def test_a_folder_that_cannot_be_read_is_left_out_and_harms_nothing(open_store, data):
    write_run(data.runs, "good")
    (data.runs / "broken").mkdir()
    (data.runs / "broken" / "job.json").write_text("{")
    write_run(data.runs, "half")
    (data.runs / "half" / "result.json").write_text('{"steps_s": "fast"}')
    (data.uploads / "empty").mkdir()
    store = open_store()
    assert {run.id: run.measurement_id for run in store.runs()} == {"good": "good", "half": None}
    assert [summary.id for summary in store.summaries()] == ["good"]


def test_unfinished_folders_are_not_seen_and_then_removed(open_store, data):
    write_run(data.runs, ".new-r1")
    assert open_store().runs() == []
    data.remove_unfinished()
    assert list(data.runs.iterdir()) == []


def test_the_list_comes_in_pages_that_together_are_all_of_it(open_store, data, tmp_path):
    """Of equal times by name, the bundled ones last: each page begins behind the last line of the one before."""
    samples = tmp_path / "samples"
    samples.mkdir()
    for name in ("a", "b"):
        write_json(samples / f"{name}.json", encode(MEASUREMENT))
    write_upload(data.uploads, "u1")
    store = open_store()
    every = [one.id for one in store.summaries()]
    assert every[-2:] == ["a", "b"]
    for size in range(1, len(every) + 1):
        found, after = [], ""
        while page := [one.id for one in store.summaries(size, after)]:
            assert len(page) <= size
            found, after = [*found, *page], page[-1]
        assert found == every
    with pytest.raises(KeyError):
        store.summaries(1, "gone")


def test_bundled_measurements_follow_their_folder(open_store, tmp_path):
    samples = tmp_path / "samples"
    samples.mkdir()
    write_json(samples / "b.json", encode(MEASUREMENT))
    write_json(samples / "a.json", encode(MEASUREMENT))
    (samples / "bad.json").write_text("[]")
    store = open_store()
    assert store.bundled() == ["a", "b"]
    assert [(summary.id, summary.bundled) for summary in store.summaries()] == [("a", True), ("b", True)]
    assert store.measurement("a").label == "a measured step"
    (samples / "a.json").unlink()
    assert open_store().bundled() == ["b"]


def test_what_is_deleted_goes_from_the_disk_and_the_index_alone(open_store, data):
    for name in ("u1", "u_1", "u%"):
        write_upload(data.uploads, name)
    for name in ("r1", "r2"):
        write_run(data.runs, name)
    store = open_store()
    assert {summary.upload_id for summary in store.summaries()} == {"u1", "u_1", "u%", ""}
    assert store.remove_upload("u_1")
    assert not store.remove_upload("u_1")
    assert not store.remove_upload("\0")
    store.remove_run("r1")
    assert [run.id for run in store.runs()] == ["r2"]
    assert sorted(summary.id for summary in store.summaries()) == ["r2", "u%-0", "u%-1", "u1-0", "u1-1"]
    assert sorted(path.name for path in (*data.runs.iterdir(), *data.uploads.iterdir())) == ["r2", "u%", "u1"]
    assert not store.behind()


def test_corrections_of_one_measurement_at_once_are_all_kept_until_it_is_deleted(data, tmp_path):
    write_upload(data.uploads, "u1")
    store = Store(f"sqlite:///{tmp_path / 'index.sqlite3'}", data, tmp_path / "samples")
    store.open()

    def say(field: str) -> bool:
        """Nobody else says this field, so that what was said stands there."""
        for number in range(20):
            assert store.put_said("u1-0", **{field: {"name": number}})
            assert getattr(store.measurement("u1-0"), field) == {"name": number}
        return True

    def say_on(number: int) -> bool:
        while store.put_said("u1-0", device={"name": number}):
            pass
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(say, ("scenario", "device")))
        saying = [pool.submit(say_on, number) for number in range(4)]
        assert store.remove_upload("u1")
        assert all(one.result() for one in saying)
    assert store.summaries() == []
    assert list(data.uploads.iterdir()) == []
    store.close()


def test_a_folder_that_has_gone_already_is_no_hindrance(open_store, data):
    shutil.rmtree(write_run(data.runs, "r1"))
    store = open_store()
    store.put_run(read_run(write_run(data.runs, "r2")))
    shutil.rmtree(data.runs / "r2")
    store.remove_run("r2")
    assert store.runs() == []


def test_what_is_stored_while_a_locked_index_is_taken_up_is_in_it(data, tmp_path, monkeypatch):
    monkeypatch.setattr(database, "SQLITE_PATIENCE_MS", 100)
    file = tmp_path / "index.sqlite3"
    store, later = (Store(f"sqlite:///{file}", data, tmp_path / "samples") for _ in range(2))
    store.open()
    known = {"r0", *(f"r0-{number}" for number in range(100))}  # reading them takes a while
    for name in known - {write_run(data.runs, "r0").name}:
        shutil.copytree(data.runs / "r0", data.runs / name)
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.open_to_read()
        assert not store.take_up()
        assert store.trouble
        assert store.trouble.status == 503
    begun, ended = threading.Barrier(5, timeout=60), threading.Event()

    def use(name: str) -> list[str]:
        put: list[str] = []
        while len(put) < 3 or not ended.is_set():
            put.append(f"{name}-{len(put)}")
            store.put_run(read_run(write_run(data.runs, put[-1])))
            assert store.run(put[-1])
            if len(put) == 2:
                begun.wait()
        return put

    with ThreadPoolExecutor(4) as pool:
        users = [pool.submit(use, f"user{number}") for number in range(4)]
        try:
            begun.wait()
            assert store.take_up()
        finally:
            ended.set()
        known |= {name for one in users for name in one.result()}
    assert store.trouble is None
    assert {run.id for run in store.runs()} == known
    store.close()
    assert {run.id for run in later.runs()} == known
    later.close()
