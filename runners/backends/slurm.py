"""Slurm: one sbatch script per job or array of jobs, srun starting torchrun once on each node.

Needs Slurm's commands on this machine, and the job's folder and this code in the same places on the nodes.

Source: Slurm 22.05 manual pages sbatch(1), srun(1), scancel(1).
"""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

from estimator.scenario.problems import InputProblems, Problem
from runners.backends.sbatch import job_name, script
from runners.backends.squeue import NO_SUCH_JOB, UnansweredError, ask, status
from runners.job import LOG_FILE, SCRIPT_FILE, Handle, Job, Request, ask_to_cancel, note_handle
from runners.placement import problems as placement_problems

__all__ = ["ARRAYS", "LOOK_S", "QUEUES", "cancel", "find", "missing", "problems", "render", "status", "submit"]

QUEUES = True
ARRAYS = True
LOOK_S = 2.0
CANCEL_S = 90.0
"""Longer than KillWait, after which Slurm kills what ignored its polite signal (30 s unless a site chose another)."""

POLL_S = 0.25
ELSEWHERE = "Start Headroom where jobs are submitted (a login node), or choose backend local."
NOT_CONFIGURED = re.compile(r"fatal: .*configuration (source|file)")
"""How Slurm's commands end on a machine where they are installed and no cluster is set up (22.05)."""

SUBMITTED = re.compile(r"(\d+)(;.*)?")


def problems(job: Job) -> list[Problem]:
    """List what the job's placement asks that cannot be asked."""
    return placement_problems(job.placement, job.world_size)


def missing() -> list[Problem]:
    """Refuse to submit where Slurm's commands are not installed."""
    absent = [name for name in ("sbatch", "squeue", "scontrol", "scancel") if shutil.which(name) is None]
    if not absent:
        return []
    message = f"this machine has no Slurm: {', '.join(absent)} not found"
    return [Problem(field="backend", message=message, remedy=ELSEWHERE)]


def render(folder: Path, job: Job) -> Request:
    """Return the sbatch command and the script that it reads; raise InputProblems."""
    (request,) = render_array([(folder, job)])
    return request


def render_array(jobs: list[tuple[Path, Job]]) -> list[Request]:
    """Return one request per job, all with the same script: one submission starts them all; raise InputProblems."""
    found = [problem for _, job in jobs for problem in problems(job)]
    alike = {(job.world_size, job.device, job.time_limit_s, repr(job.placement)) for _, job in jobs}
    if len(alike) > 1:
        message = "jobs of one array differ in processes, device, time limit or placement"
        found.append(Problem(field="jobs", message=message, remedy="Make them equal, or submit them one by one."))
    if found:
        raise InputProblems(found)
    folders = [folder.resolve() for folder, _ in jobs]
    text = script([(folder, job) for folder, (_, job) in zip(folders, jobs, strict=True)])
    # What Slurm itself says of the job goes where the job's own output does; an array has one such place for all
    log = "/dev/null" if len(jobs) > 1 else str(folders[0] / LOG_FILE).replace("%", "%%")
    command = ("sbatch", "--parsable", f"--output={log}", str(folders[0] / SCRIPT_FILE))
    return [Request(command=command, environment={}, folder=str(folder), script=text) for folder in folders]


def submit(request: Request) -> Handle:
    """Write the script and hand it to sbatch; raise ChildProcessError with what Slurm says where it refuses."""
    return submit_array([request])[0]


def submit_array(requests: list[Request]) -> list[Handle]:
    """Submit requests that share one script; their handles are written into their folders."""
    first = requests[0]
    Path(first.command[-1]).write_text(first.script, encoding="utf-8")
    try:
        said = ask(*first.command)
    except UnansweredError as error:
        found = _queued(Path(first.folder)) if "did not answer" in str(error) else None
        if found is None:
            unset = "no cluster is set up on this machine. " + ELSEWHERE + " Slurm says: "
            why = unset if NOT_CONFIGURED.search(str(error)) else ""
            raise ChildProcessError(f"Slurm refused it: {why}{error}") from None
        said = found
    match = SUBMITTED.fullmatch(said)
    if match is None:
        raise ChildProcessError(f"sbatch answered {said[:200]!r} instead of a job's number")
    handles = []
    for index, request in enumerate(requests):
        job_id = f"{match[1]}_{index}" if len(requests) > 1 else match[1]
        handles.append(Handle(folder=request.folder, job_id=job_id))
        note_handle(handles[-1])
    return handles


def find(folder: Path) -> Handle | None:
    """Find a job by its name, which holds that of its folder; ended ones are not looked for."""
    job_id = _queued(folder.resolve())
    if job_id is None:
        return None
    handle = Handle(folder=str(folder.resolve()), job_id=job_id)
    note_handle(handle)
    return handle


def cancel(handle: Handle) -> None:
    """Ask Slurm to end the job and wait until it has, or until ``CANCEL_S`` is over."""
    ask_to_cancel(Path(handle.folder))
    deadline_s = time.monotonic() + CANCEL_S
    try:
        ask("scancel", handle.job_id)
    except UnansweredError as error:
        if not NO_SUCH_JOB.search(str(error)):
            raise TimeoutError(f"Slurm did not cancel job {handle.job_id}: {error}") from None
    while status(handle).alive and time.monotonic() < deadline_s:
        time.sleep(POLL_S)


def _queued(folder: Path) -> str | None:
    try:
        said = ask("squeue", "--noheader", "--me", f"--name={job_name(folder)}", "--format=%i")
    except UnansweredError:
        return None
    return said.splitlines()[0].strip() if said else None
