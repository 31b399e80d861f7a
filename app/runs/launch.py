"""Launch: make the folders of runs, hand each to its backend once at most, and find again what was handed over."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

import msgspec

from app.disk import DataFolder, discard, new_id, whole_folder, write_json
from app.runs import events
from app.runs.jobs import named
from app.runs.live import Live, read_live
from app.runs.run import REQUEST_FILE, Run
from app.storage import trouble_of
from app.store import Store
from estimator.scenario.codec import decode
from estimator.scenario.problems import InputProblems
from runners.backends import Status, backend, slurm
from runners.job import CANCEL_FILE, Handle, Job, Request, read_handle, write_job

CLAIM_FILE = "claim"
_log = logging.getLogger("headroom")


def requests(jobs: list[tuple[Path, Job]]) -> list[Request]:
    """Say exactly what would be started: one request per job, of one script where they make an array."""
    if len(jobs) > 1:
        return slurm.render_array(jobs)
    return [backend(job.backend).render(folder, job) for folder, job in jobs]


def make_runs(jobs: list[Job], data: DataFolder, store: Store) -> list[Live]:
    """Make a folder and a queued run of each job, all for one backend, before anything is started: all of them or none.

    Raises InputProblems where the backend cannot start them from here.
    """
    missing = backend(jobs[0].backend).missing()
    if missing:
        raise InputProblems(missing)
    ids = [new_id() for _ in jobs]
    folders = [data.runs / run_id for run_id in ids]
    jobs = [named(job, run_id) for job, run_id in zip(jobs, ids, strict=True)]
    asked = requests(list(zip(folders, jobs, strict=True)))
    lives = []
    try:
        for folder, job, request in zip(folders, jobs, asked, strict=True):
            with whole_folder(data.runs, folder.name) as unfinished:
                write_job(unfinished, job)
                write_json(unfinished / REQUEST_FILE, request)
                events.append_state(unfinished, "queued")
            lives.append(read_live(folder))
        store.put_runs([live.run for live in lives])
    except BaseException:  # what nobody was told of must not be started by the next server
        for folder in folders:
            discard(folder)
        raise
    return lives


def claim(folder: Path) -> bool:
    """Take it on to start a run; False where somebody else did, a server that was killed or a command."""
    try:
        os.close(os.open(folder / CLAIM_FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    except FileExistsError:
        return False
    return True


def claimed(folder: Path) -> bool:
    """Whether somebody took it on to start this run."""
    return (folder / CLAIM_FILE).exists()


def start(lives: list[Live]) -> Status | None:
    """Start runs, several as one array; return why, where they cannot be started.

    Raises OSError where the disk does not take what they need; nobody has claimed them then.
    """
    try:
        jobs = [(live.folder, decode(Job, live.run.job)) for live in lives]
        asked = requests(jobs)
        handles = slurm.submit_array(asked) if len(jobs) > 1 else [backend(jobs[0][1].backend).submit(asked[0])]
    except (OSError, InputProblems) as error:
        if trouble_of(error):
            for live in lives:
                (live.folder / CLAIM_FILE).unlink(missing_ok=True)
            raise
        return Status(alive=False, state="failed", message=f"could not be started: {error}")
    for live, handle in zip(lives, handles, strict=True):
        live.handle = handle
    return None


def found(folder: Path, run: Run) -> Handle | None:
    """Find a started run by the handle in its folder, or by what its backend still knows of it."""
    try:
        handle = read_handle(folder)
    except InputProblems:
        handle = None
    return handle or backend(run.job["backend"]).find(folder)


def take_up(known: Run, data: DataFolder, store: Store) -> Live | None:
    """Read an unfinished run; where its folder cannot be read, it has failed, and there is nothing to follow."""
    try:
        live = read_live(data.runs / known.id)
        backend(live.run.job.get("backend", ""))
    except (OSError, msgspec.DecodeError, InputProblems) as error:
        _log.warning("run %s cannot be taken up: %s", known.id, error)
        store.put_run(replace(known, state="failed", message=f"its folder cannot be read: {error}"))
        return None
    return live


def still_queued(live: Live) -> bool:
    """Whether nobody has begun to start it or asked for its end."""
    begun = claimed(live.folder) or found(live.folder, live.run) is not None
    return live.run.state == "queued" and not begun and not (live.folder / CANCEL_FILE).exists()
