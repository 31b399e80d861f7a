"""Nothing half-written is ever seen: folders and files appear whole or not at all."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.disk import DataFolder, finished_folders, new_id, read_json, whole_folder, write_json
from estimator.scenario.problems import InputProblems


def test_a_folder_appears_only_when_its_writing_ended_well(tmp_path):
    with whole_folder(tmp_path, "a") as folder:
        (folder / "file").write_text("x")
        assert finished_folders(tmp_path) == []
    assert [path.name for path in finished_folders(tmp_path)] == ["a"]
    with pytest.raises(FileNotFoundError), whole_folder(tmp_path, "b") as folder:
        (folder / "nowhere" / "file").write_text("x")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_reader_finds_the_old_file_or_the_new_one(tmp_path):
    path = tmp_path / "value.json"
    write_json(path, [0] * 1000)
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            write_json(path, [number] * 1000)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(200):
            found = read_json(path)
            assert len(found) == 1000
            assert len(set(found)) == 1
    finally:
        stop.set()
        writer.join()
    assert [item.name for item in tmp_path.iterdir()] == ["value.json"]


def test_ids_are_unique_and_sort_by_time():
    found = [new_id() for _ in range(200)]
    assert len(set(found)) == 200
    stamps = [name.rpartition("-")[0] for name in found]
    assert stamps == sorted(stamps)


def hold(root, ready, release):
    with DataFolder(root).locked():
        ready.set()
        release.wait(60)


def test_one_server_at_a_time_and_its_death_frees_the_folder(tmp_path):
    data = DataFolder(tmp_path)
    data.create()
    context = multiprocessing.get_context("spawn")
    ready, release = context.Event(), context.Event()
    other = context.Process(target=hold, args=(tmp_path, ready, release))
    other.start()
    assert ready.wait(60)
    with pytest.raises(InputProblems, match="another Headroom server"), data.locked():
        pass
    other.kill()
    other.join(10)
    other.close()
    with data.locked():
        pass


def test_one_file_may_be_written_by_many_threads_at_once(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: write_json(tmp_path / "file.json", [number] * 1000), range(64)))
    assert [path.name for path in tmp_path.iterdir()] == ["file.json"]
    assert len(set(read_json(tmp_path / "file.json"))) == 1
