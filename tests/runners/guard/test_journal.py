"""Rows on disk as they come, and what they make of a run that is lost."""

from __future__ import annotations

import resource

import pytest

from estimator.scenario.measurement import Measurement
from runners.__main__ import main
from runners.guard.journal import append, has_rows, journal_of, read, recover, start
from runners.job import read_measurement, write_measurement

HEAD = Measurement(label="grid", environment={"torch": "2.13"})


@pytest.fixture
def result(tmp_path):
    """Where a result would go whose run was lost in its second row."""
    path = tmp_path / "r.json"
    start(journal_of(path), HEAD)
    append(journal_of(path), begins={"n": 1})
    append(journal_of(path), rows=[{"n": 1, "status": "ok"}, {"n": 1, "status": "oom"}])
    append(journal_of(path), begins={"n": 2})
    return path


def test_a_row_that_was_begun_and_not_ended_is_told_with_the_reason(result):
    assert has_rows(result)
    assert recover(result, "failed", "the power went", "failed")
    found = read_measurement(result)
    assert (found.label, found.status, found.warnings[-1].message) == ("grid", "failed", "the power went")
    lost = {"n": 2, "status": "failed", "message": "the power went"}
    assert found.rows == ({"n": 1, "status": "ok"}, {"n": 1, "status": "oom"}, lost)
    assert not journal_of(result).exists()


def test_a_result_that_is_there_stays(result):
    write_measurement(result, Measurement(label="whole"))
    assert not recover(result, "failed", "late", "failed")
    assert read_measurement(result).label == "whole"


def test_a_line_that_a_dying_process_left_unfinished_is_not_read(result):
    with journal_of(result).open("a") as file:
        file.write('{"rows": [{"n": 2, "sta')
    found = read(journal_of(result))
    assert (len(found.rows), found.begun) == (2, {"n": 2})
    with journal_of(result).open("a") as file:
        file.write("\n")
    assert read(journal_of(result)) == found


@pytest.mark.parametrize("text", ["", "{", "[]\n", '{"colour": 1}\n', "\0\n"])
def test_what_is_no_journal_gives_nothing(tmp_path, text):
    path = tmp_path / "r.json"
    assert not has_rows(path)
    journal_of(path).write_text(text)
    assert read(journal_of(path)) is None
    assert not recover(path, "failed", "", "failed")
    assert not path.exists()


def test_a_full_disk_costs_the_rows_that_it_has_no_room_for_and_no_other(result):
    journal = journal_of(result)
    before = read(journal).rows
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (journal.stat().st_size + 20, kept[1]))
    try:
        append(journal, rows=[{"size": 2, "note": "half of this has room"}])
        append(journal, rows=[{"size": 3, "note": "and nothing of this"}])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
    append(journal, rows=[{"size": 4}])
    assert read(journal).rows == [*before, {"size": 4}]


def test_nothing_is_added_to_a_journal_that_was_given_up(tmp_path):
    append(tmp_path / "gone.rows.jsonl", rows=[{"n": 1}])
    assert list(tmp_path.iterdir()) == []


def test_a_person_can_have_the_result_of_a_run_that_was_killed(result, capsys):
    assert main(["recover", str(result)]) == 0
    assert len(read_measurement(result).rows) == 3
    assert main(["recover", str(result)]) == 2
    assert main(["recover", str(result.with_name("other.json"))]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == "result: r.json is there already. Name the result of a run that was killed."
    assert second.startswith("result: other.json has no other.rows.jsonl with rows beside it. ")
