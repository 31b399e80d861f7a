"""Reading a file that others append to: only complete lines, none twice, and broken ones change nothing."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from app.runs.events import EventReader, append_state, final_state, parse
from app.runs.run import Progress, Run, fold, log_tail, read_run
from tests.app.examples import write_run
from tests.odd_json import documents


def progress(**values):
    return json.dumps(
        {"t_s": 7.0, "kind": "progress", "phase": "measure", "step": 2, "steps": 5, "step_s": 0.1} | values
    )


def state(name, t_s=1.0, message=""):
    return json.dumps({"t_s": t_s, "kind": "state", "state": name, "message": message})


def test_only_complete_lines_are_read_and_none_twice(tmp_path):
    reader = EventReader(tmp_path)
    assert reader.read() == []
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\ntw")
    assert reader.read() == ["one"]
    with path.open("ab") as file:
        file.write(b"o\nthree\n")
    assert reader.read() == ["two", "three"]
    assert reader.read() == []


@given(st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))), st.data())
def test_however_the_file_grows_the_lines_are_the_same(tmp_path_factory, lines, data):
    folder = tmp_path_factory.mktemp("events")
    content = "".join(f"{line}\n" for line in lines).encode()
    reader, found = EventReader(folder), []
    while content:
        size = data.draw(st.integers(1, len(content)))
        with (folder / "events.jsonl").open("ab") as file:
            file.write(content[:size])
        content = content[size:]
        found += reader.read()
    assert found == lines


def test_a_state_after_an_unfinished_line_begins_a_new_one(tmp_path):
    append_state(tmp_path, "queued")
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"kind": "progr')
    append_state(tmp_path, "failed", "it died")
    lines = EventReader(tmp_path).read()
    assert len(lines) == 3
    assert parse(lines[1]) is None
    assert final_state(lines) == "failed"
    assert parse(lines[2])["message"] == "it died"


def test_what_is_no_event_is_none():
    for line in ("", "{", "[]", "3", '{"kind": "gossip"}', "[" * 100_000, '"state"'):
        assert parse(line) is None


def test_folding_follows_the_states_and_keeps_the_first_start():
    run = Run(id="r")
    for line in (
        state("queued", 1),
        state("running", 2),
        "broken",
        state("running", 3),
        progress(),
        state("ok", 9, "m"),
    ):
        run = fold(run, line)
    assert (run.state, run.created_s, run.started_s, run.finished_s) == ("ok", 1, 2, 9)
    assert run.progress == Progress(phase="measure", step=2, steps=5, step_s=0.1)
    assert run.message == "m"
    assert fold(run, state("running", 10)) == run
    assert fold(run, state("failed", 11)).state == "failed", "the supervisor has the last word"


@given(
    documents(),
    st.sampled_from(["progress", "state"]),
)
def test_no_event_breaks_the_fold(value, kind):
    event = value if isinstance(value, dict) else {"step": value, "t_s": value, "state": value, "message": value}
    folded = fold(Run(id="r"), json.dumps({**event, "kind": kind}))
    assert folded.state in ("queued", "running", "ok", "oom", "failed", "cancelled")


def test_a_run_is_rebuilt_from_its_folder(tmp_path):
    run = read_run(write_run(tmp_path, "r1"))
    assert (run.id, run.label, run.state, run.measurement_id) == ("r1", "tiny", "ok", "r1")
    assert run.command == ("python", "-m", "runners")
    assert run.started_s is not None
    failed = read_run(write_run(tmp_path, "r2", state="failed"))
    assert failed.measurement_id is None, "what failed measured nothing"


def test_the_end_of_a_log_is_whole_lines(tmp_path):
    assert log_tail(tmp_path) == ""
    (tmp_path / "log").write_bytes(b"first\n" + b"x" * 30 + b"\nlast \xff\n")
    assert log_tail(tmp_path, 15) == "last \ufffd\n"
    assert log_tail(tmp_path).startswith("first\n")
