"""This machine: torchrun in a session of its own, found again by process id, start time and an environment mark.

Needs Linux's /proc.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from runners.job import (
    CANCEL_FILE,
    FINAL_STATES,
    LOG_FILE,
    TRACE_FILE,
    Handle,
    Job,
    Request,
    last_state,
    write_handle,
)

MARK = "HEADROOM_JOB_FOLDER"
"""Environment variable that every process of a job inherits; torchrun's workers leave its process group."""

GRACE_S = 5.0
POLL_S = 0.05

_children: dict[int, subprocess.Popen[bytes]] = {}


def render(folder: Path, job: Job) -> Request:
    """Say exactly what would be started: torchrun with one worker per process, threads shared among them."""
    folder = folder.resolve()
    threads = max(1, _cores() // job.world_size)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    command += ["--nproc-per-node", str(job.world_size), "--max-restarts", "0", "-m", "runners", job.benchmark]
    command += ["--job", str(folder), "--trace", str(folder / TRACE_FILE)]
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return Request(
        command=tuple(command),
        environment={
            MARK: str(folder),
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": str(threads),
        },
        folder=str(folder),
    )


def submit(request: Request) -> Handle:
    """Start the command in a new session, its output in the folder's log; the handle is written there too."""
    folder = Path(request.folder)
    with (folder / LOG_FILE).open("ab") as log:
        process = subprocess.Popen(
            request.command,
            env={**os.environ, **request.environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[process.pid] = process
    handle = Handle(pid=process.pid, start_time=_start_time(process.pid) or 0, folder=request.folder)
    write_handle(handle)
    return handle


def alive(handle: Handle) -> bool:
    """Whether torchrun or any worker of the job still runs."""
    if _start_time(handle.pid) == handle.start_time or _marked(handle.folder):
        return True
    child = _children.pop(handle.pid, None)
    if child is not None:
        child.wait()  # it has ended: this only takes note of it
    return False


def status(handle: Handle) -> str:
    """What the job's events say; a job that ended without a word has failed, or was cancelled where that was asked."""
    folder = Path(handle.folder)
    running = alive(handle)
    event = last_state(folder)
    name = str(event["state"]) if event else "queued"
    if name in FINAL_STATES or running:
        return name if event else "running"
    return "cancelled" if (folder / CANCEL_FILE).exists() else "failed"


def cancel(handle: Handle, grace_s: float = GRACE_S) -> None:
    """Send SIGTERM to every process of the job, SIGKILL to those that are left after ``grace_s``; wait for the end."""
    (Path(handle.folder) / CANCEL_FILE).touch()
    _signal_all(handle, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while alive(handle) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    while alive(handle):
        _signal_all(handle, signal.SIGKILL)
        time.sleep(POLL_S)


def _signal_all(handle: Handle, number: signal.Signals) -> None:
    for pid in _processes(handle):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _processes(handle: Handle) -> list[int]:
    """Living processes of the job: the one that was started, and all that carry the job's mark."""
    found = set(_marked(handle.folder))
    if _start_time(handle.pid) == handle.start_time:
        found.add(handle.pid)
    return sorted(found)


def _marked(folder: str) -> list[int]:
    mark = f"{MARK}={folder}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if mark in environment.split(b"\0") and _start_time(int(entry.name)) is not None:
            found.append(int(entry.name))
    return found


def _start_time(pid: int) -> int | None:
    """Clock ticks from boot to the process's start; None where it is gone or only waits to be reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
