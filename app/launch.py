"""Launch: hand runs to their backend, each once at most, and find again what was handed over."""

from __future__ import annotations

import os
from pathlib import Path

from app.live import Live
from app.run import Run
from estimator.scenario.codec import decode
from estimator.scenario.problems import InputProblems
from runners.backends import Status, backend, slurm
from runners.job import Handle, Job, Request, read_handle

CLAIM_FILE = "claim"


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


def requests(jobs: list[tuple[Path, Job]]) -> list[Request]:
    """Say exactly what would be started: one request per job, of one script where they make an array."""
    if len(jobs) > 1:
        return slurm.render_array(jobs)
    return [backend(job.backend).render(folder, job) for folder, job in jobs]


def start(lives: list[Live]) -> Status | None:
    """Start runs, several as one array; return why, where they cannot be started."""
    try:
        jobs = [(live.folder, decode(Job, live.run.job)) for live in lives]
        asked = requests(jobs)
        handles = slurm.submit_array(asked) if len(jobs) > 1 else [backend(jobs[0][1].backend).submit(asked[0])]
    except (OSError, InputProblems) as error:
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
