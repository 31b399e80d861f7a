"""Submit: make the folder of every job and let the store know its run, before anything is started."""

from __future__ import annotations

from app import events
from app.disk import DataFolder, new_id, whole_folder, write_json
from app.jobs import named
from app.launch import requests
from app.live import Live, read_live
from app.run import REQUEST_FILE
from app.store import Store
from estimator.scenario.problems import InputProblems
from runners.backends import backend
from runners.job import Job, write_job


def make_runs(jobs: list[Job], data: DataFolder, store: Store) -> list[Live]:
    """Make queued runs of jobs for one backend; raise InputProblems where it cannot start them from here."""
    missing = backend(jobs[0].backend).missing()
    if missing:
        raise InputProblems(missing)
    ids = [new_id() for _ in jobs]
    folders = [data.runs / run_id for run_id in ids]
    jobs = [named(job, run_id) for job, run_id in zip(jobs, ids, strict=True)]
    asked = requests(list(zip(folders, jobs, strict=True)))
    lives = []
    for folder, job, request in zip(folders, jobs, asked, strict=True):
        with whole_folder(data.runs, folder.name) as unfinished:
            write_job(unfinished, job)
            write_json(unfinished / REQUEST_FILE, request)
            events.append_state(unfinished, "queued")
        lives.append(read_live(folder))
        store.put_run(lives[-1].run)
    return lives
