"""Series: jobs on this machine one after another, each with its own bound, whatever became of the one before.

Every job has a folder, in which it is found again: what has a result is not measured twice, so a series that was
stopped goes on where it was. ``summary.json`` beside the folders says what became of each.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from estimator.scenario.measurement import rows_by_status, statuses_text
from estimator.scenario.problems import InputProblems
from runners.backends import local
from runners.guard.journal import has_rows, recover
from runners.job import LOG_FILE, RESULT_FILE, Job, read_events, read_job, read_measurement, write_atomically, write_job

SUMMARY_FILE = "summary.json"
LEAST_S = 45.0
"""A job is not begun where less is left of the series' time."""

OVERTIME_S = 20.0
"""How much later than its limit a job is ended from here; its own watchdogs come first."""

POLL_S = 0.5

Say = Callable[[str], None]


def run(jobs: dict[str, Job], out: Path, say: Say, *, limit_s: float = 0.0, again: bool = False) -> bool:
    """Measure the jobs by name in folders of ``out``; says whether all have a result that measured something.

    With ``limit_s`` the series ends by then: the last job gets what is left, others wait for the next call.
    """
    end_s = time.monotonic() + limit_s if limit_s else float("inf")
    out.mkdir(parents=True, exist_ok=True)
    # What was begun before and not ended comes last, so that it keeps no other from its turn
    for number, name in enumerate(sorted(jobs, key=lambda name: (out / name).exists()), 1):
        folder, job, head = out / name, jobs[name], f"{number}/{len(jobs)} {name}"
        if not again and measured(folder, job):
            say(f"{head}: is there already")
            continue
        left_s = end_s - time.monotonic() - OVERTIME_S
        if left_s < LEAST_S:
            say(f"{head}: no time is left")
            continue
        say(f"{head}: at most {min(left_s, job.time_limit_s):.0f} s")
        try:
            one = _measure(folder, replace(job, time_limit_s=min(left_s, job.time_limit_s)))
        finally:
            write_atomically(out / SUMMARY_FILE, summary(out))
        rows = statuses_text(one["rows"]) or "no rows"
        say(f"{head}: {one['status']}, {one['seconds_s']:.0f} s, {rows}{_because(one)}")
    found = summary(out)
    return all(found.get(name, {}).get("status") in ("ok", "oom") for name in jobs)


def measured(folder: Path, job: Job) -> bool:
    """Whether a job has a result, or failed in the time that it should have; one that was stopped earlier did not."""
    try:
        status, time_s = read_measurement(folder / RESULT_FILE).status, read_job(folder).time_limit_s
    except InputProblems:
        return False
    return status in ("ok", "oom") or (status == "failed" and time_s >= job.time_limit_s)


def summary(out: Path) -> dict[str, dict[str, Any]]:
    """What became of every job whose folder is there."""
    return {path.parent.name: _summary(path.parent) for path in sorted(out.glob("*/job.json"))}


def _measure(folder: Path, job: Job) -> dict[str, Any]:
    """Run one job to its end, or end it; nothing that it does ends the series."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write_job(folder, job)
    try:
        problems = local.problems(job)
        if problems:
            raise InputProblems(problems)
        handle = local.submit(local.render(folder, job))
        try:
            deadline_s = time.monotonic() + job.time_limit_s + OVERTIME_S
            while local.alive(handle) and time.monotonic() < deadline_s:
                time.sleep(POLL_S)
        finally:
            if local.alive(handle):
                local.cancel(handle)
    except (OSError, InputProblems) as error:
        with (folder / LOG_FILE).open("a", encoding="utf-8") as log:
            print(error, file=log)
    if has_rows(folder / RESULT_FILE):
        recover(folder / RESULT_FILE, "failed", "its processes were killed", "failed")
    return _summary(folder)


def _summary(folder: Path) -> dict[str, Any]:
    times_s = [event["t_s"] for event in read_events(folder) if "t_s" in event]
    found: dict[str, Any] = {"seconds_s": max(times_s) - min(times_s) if times_s else 0.0}
    try:
        result = read_measurement(folder / RESULT_FILE)
    except InputProblems:
        return {"status": "lost", **found, "rows": {}, "message": _last_words(folder)}
    said = [warning.message for warning in result.warnings if warning.code == result.status]
    return {
        "status": result.status,
        **found,
        "rows": rows_by_status(result.rows),
        "message": "; ".join(said),
    }


def _last_words(folder: Path) -> str:
    try:
        lines = (folder / LOG_FILE).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:500] if lines else ""


def _because(one: dict[str, Any]) -> str:
    return f": {one['message']}" if one["message"] else ""
