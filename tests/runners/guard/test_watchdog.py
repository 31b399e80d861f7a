"""Nothing evades its bound: rows that hold the interpreter's lock in C, ignore SIGTERM, and leave children behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from runners.backends import local
from runners.backends.processes import carrying, marked
from runners.guard import watchdog
from runners.guard.heartbeat import ALIVE, LEAVING, MARK, Watch
from runners.guard.journal import has_rows, journal_of, read
from runners.guard.watchdog import Clock
from runners.job import LOG_FILE, RESULT_FILE, Job, last_state, read_measurement, write_job
from tests import warm
from tests.runners.examples import ROOT

SUITE = ("attention", "--implementations", "naive", "--dims", "16", "--heads", "1", "--batch", "1")
SUITE += ("--seq-lens", "16", "--precisions", "fp32", "--causals", "no", "--steps", "1")
"""Three rows, a pass each, of a benchmark that begins soon."""


def start(
    out: Path, *arguments: str, stuck: str = "1,0", command: tuple[str, ...] = (), python: str = ""
) -> subprocess.Popen[str]:
    """Three rows, one of which blocks, with its output in a pipe that its children hold too."""
    module = (
        python or warm.python(),
        "-m",
        "tests.runners.stuck",
        *SUITE,
        "--device",
        "cpu",
        "--out",
        str(out),
        *arguments,
    )
    return subprocess.Popen(
        (*command, *module), cwd=ROOT, env={**os.environ, "STUCK": stuck}, stderr=subprocess.PIPE, text=True
    )


def told(out: Path) -> tuple[str, list[tuple[str, str]], str]:
    """Status, rows by pass and status, and the reason."""
    result = read_measurement(out)
    assert not journal_of(out).exists()
    rows = [(row["pass"], row["status"]) for row in result.rows]
    assert result.samples["options"]["implementations"] == ["naive"]
    assert result.environment["torch"]
    return result.status, rows, result.warnings[-1].message


def test_rows_that_hold_the_lock_and_are_deaf_end_at_their_bounds(tmp_path):
    bounds = {
        ("--row-limit-s", "45"): "stopped because a row took longer than 45 s, its limit",
        ("--time-limit-s", "60"): "stopped at its time limit of 60 s",
    }
    outs = {bound: tmp_path / f"{bound[1]}.json" for bound in bounds}
    processes = {bound: start(out, *bound, stuck="1,0,deaf") for bound, out in outs.items()}
    for bound, reason in bounds.items():
        _, errors = processes[bound].communicate(timeout=240)
        assert processes[bound].returncode == -signal.SIGKILL
        assert told(outs[bound]) == ("failed", [("forward", "ok"), ("backward", "timed_out")], reason)
        assert f"rank 0: {reason}" in errors
        assert "in measure" in errors, "where it was stuck"


def test_who_is_told_to_end_and_cannot_is_ended_and_the_caller_sees_the_end_of_its_pipe(tmp_path):
    out = tmp_path / "r.json"
    process = start(out, command=("timeout", "60"))
    assert wait_for(lambda: begun(out, "backward") and asleep(children(process.pid)[0]))
    process.send_signal(signal.SIGTERM)  # which timeout passes on, as it does when its time is over
    begin_s = time.monotonic()
    _, errors = process.communicate(timeout=240)
    assert time.monotonic() - begin_s >= Watch().grace_s
    assert "stopped by force, because it did not end in 3 s when told to" in errors
    assert told(out)[:2] == ("cancelled", [("forward", "ok"), ("backward", "not_run")])


def test_whoever_is_killed_leaves_the_rows_that_were_measured(tmp_path):
    out = tmp_path / "r.json"
    process = start(out, stuck="2,0")
    assert wait_for(lambda: begun(out, "both"))
    process.kill()
    process.communicate(timeout=120)
    reason = "its process ended without a word; see the log"
    assert told(out) == ("failed", [("forward", "ok"), ("backward", "ok"), ("both", "failed")], reason)


def test_where_all_are_killed_the_journal_stays_and_gives_the_result(tmp_path):
    out = tmp_path / "r.json"
    process = start(out, stuck="2,0", python=warm.COLD)
    assert wait_for(lambda: begun(out, "both"))
    for pid in children(process.pid):
        os.kill(pid, signal.SIGKILL)
    process.kill()
    process.communicate(timeout=120)
    assert not out.exists()
    done = subprocess.run(
        (sys.executable, "-m", "runners", "recover", str(out)), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert told(out)[:2] == ("failed", [("forward", "ok"), ("backward", "ok"), ("both", "failed")])


def test_a_watchdog_that_starts_when_all_is_over_leaves_the_next_run_alone(tmp_path):
    out = tmp_path / "r.json"
    journal_of(out).write_text('{"status": "ok"}\n{"rows": [{"seq_len": 8, "status": "ok"}]}\n')
    assert has_rows(out), "of the run that has begun since"
    code = (
        "import os, sys\n"
        "from runners.guard import heartbeat\n"
        "heartbeat._START = 'import time; time.sleep(1);' + heartbeat._START\n"
        "heartbeat.start(heartbeat.Watch(result=sys.argv[1], mark='late'))\n"
        "heartbeat.end()\n"
        "os._exit(0)"
    )
    done = subprocess.run(
        (sys.executable, "-c", code, str(out)), cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")  # its end is the watchdog's, who holds the pipe
    assert carrying(f"{MARK}=late") == []
    assert not out.exists()
    assert has_rows(out)


def test_a_rank_that_blocks_ends_the_run_of_all_and_the_first_one_tells_why(tmp_path):
    job = Job(
        benchmark="ddp",
        options={"variants": ["naive", "flat"], "layers": 1, "seq_lens": [8], "precisions": ["fp32"]},
        world_size=2,
        device="cpu",
        warmup=0,
        steps=1,
        row_limit_s=40,
    )
    write_job(tmp_path, job)
    request = local.render(tmp_path, job)
    command = tuple("tests.runners.stuck" if word == "runners" else word for word in request.command)
    environment = {**request.environment, "STUCK": "1,1,deaf", "OMP_NUM_THREADS": "1"}
    handle = local.submit(replace(request, command=command, environment=environment))
    assert wait_for(lambda: not local.alive(handle))
    log = (tmp_path / LOG_FILE).read_text()
    result = read_measurement(tmp_path / RESULT_FILE)
    assert [(row["variant"], row["status"]) for row in result.rows] == [("naive", "ok"), ("flat", "timed_out")], log
    assert (result.status, result.world_size) == ("failed", 2)
    assert last_state(tmp_path)["message"] == "stopped because a row took longer than 40 s, its limit"
    assert local.status(handle).state == "failed"
    assert marked(str(tmp_path)) == []


def test_who_goes_on_after_its_run_is_left_alone_with_what_it_started(tmp_path):
    """Where another program measures with these modules and has other things to do."""
    code = (
        "import subprocess, sys, time\n"
        "from runners.__main__ import main\n"
        "code = main(sys.argv[1:])\n"
        "child = subprocess.Popen(('sleep', '600'))\n"
        "time.sleep(6.5)\n"
        "print(code, child.poll())\n"
        "child.kill()\n"
    )
    arguments = ("precision", "--device", "cpu", "--row-limit-s", "200", "--out", str(tmp_path / "r.json"))
    done = subprocess.run(
        (sys.executable, "-c", code, *arguments), cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=240, check=True
    )
    assert done.stdout == "0 None\n"


def test_a_deadline_is_the_nearest_and_signs_of_life_move_that_of_the_row():
    clock = Clock(watch=Watch(time_limit_s=100, row_limit_s=10))
    assert clock.deadline() == (clock.began_s + 100, "time"), "the start has time of its own"
    clock.hear(ALIVE)
    assert clock.row_began_s >= clock.began_s
    assert clock.deadline() == (clock.row_began_s + 10, "row")
    clock.hear(bytes([signal.SIGTERM]))
    clock.hear(bytes([signal.SIGTERM]))
    assert clock.told_s is not None
    assert clock.deadline() == (clock.told_s + clock.watch.grace_s, "told")
    assert not clock.leaving
    clock.hear(ALIVE + LEAVING)
    assert clock.leaving


def test_without_limits_there_is_no_deadline_and_other_ranks_end_later_than_the_first():
    assert Clock(watch=Watch()).deadline() == (float("inf"), "")
    clock = Clock(watch=Watch(rank=3, time_limit_s=100, overtime_s=5))
    assert clock.deadline() == (clock.began_s + 105 + watchdog.LATER_S, "time")


def begun(out: Path, name: str) -> bool:
    """Whether the row of that pass has begun."""
    journal = read(journal_of(out))
    return journal is not None and journal.begun is not None and journal.begun["pass"] == name


def asleep(pid: int, seconds: float = 0.3) -> bool:
    """Whether a process sleeps, and does nothing for a while."""

    def look() -> tuple[str, str, str]:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return words[0], words[11], words[12]

    before = look()
    time.sleep(seconds)
    return before == look() and before[0] == "S"


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(condition, seconds: float = 240.0) -> bool:
    deadline_s = time.monotonic() + seconds
    while not (found := bool(condition())) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return found
