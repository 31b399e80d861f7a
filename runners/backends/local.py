"""This machine: processes in a session of their own, found again by process id, start time and an environment mark.

Needs Linux's /proc.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from estimator.scenario.problems import Problem
from runners.backends import Status
from runners.backends.processes import MARK, killed, marked, processes_of, rank_killed, start_time
from runners.job import (
    CANCEL_FILE,
    FINAL_STATES,
    LOG_FILE,
    TRACE_FILE,
    Handle,
    Job,
    Request,
    ask_to_cancel,
    last_state,
    note_handle,
)
from runners.placement import Placement
from runners.processor import cpu_cores

QUEUES = False
ARRAYS = False
LOOK_S = 0.5
GRACE_S = 5.0
POLL_S = 0.05
KILL_S = 30.0
"""How long the end of a killed process is waited for; giving back a GPU's memory takes seconds."""

OVERTIME_S = 30.0
"""The server ends a run at its time limit; without a server, the command does so itself, this much later."""

SECRETS = ("HEADROOM_TOKEN", "HEADROOM_DATABASE_URL")
MOST_PROCESSES = 64
"""One machine has at most a handful of GPUs."""

_children: dict[int, subprocess.Popen[bytes]] = {}
_exit_codes: dict[int, int] = {}
"""Of those that this process started and saw the end of."""


def problems(job: Job) -> list[Problem]:
    """Refuse what one machine has not: several nodes, more processes than it should start, GPUs that are not there."""
    found = []
    if job.placement.nodes > 1:
        message = f"{job.placement.nodes} nodes, and this machine is one"
        found.append(Problem(field="placement.nodes", message=message, remedy="Set it to 1, or choose backend slurm."))
    elif replace(job.placement, cpus_per_process=0) != Placement():  # threads are shared out here too
        message = "is what a scheduler is asked for, and this machine has none"
        found.append(Problem(field="placement", message=message, remedy="Leave it out, or choose backend slurm."))
    if job.world_size > MOST_PROCESSES:
        message = f"{job.world_size} processes are too many for the local backend"
        chips = ", by a scenario of so many chips" if job.scenario else ""
        remedy = f"Start at most {MOST_PROCESSES}{chips}."
        return [*found, Problem(field="world_size", message=message, remedy=remedy)]
    gpus = gpu_count()
    if job.device == "cuda" and gpus == 0:
        remedy = "Choose device auto or cpu, or backend slurm where nodes have GPUs."
        found.append(Problem(field="device", message="this machine has no GPU", remedy=remedy))
    elif job.device != "cpu" and gpus and job.world_size > gpus:
        message = f"{job.world_size} processes want a GPU each, and this machine has {gpus}"
        found.append(Problem(field="device", message=message, remedy="Start fewer processes, or choose device cpu."))
    return found


def missing() -> list[Problem]:
    """Nothing: Python and torch are here."""
    return []


def gpu_count() -> int:
    """GPUs that this process may use, by their device files; AMD's are counted by their topology."""
    nvidia = [path for path in Path("/dev").glob("nvidia[0-9]*") if path.name[6:].isdigit()]
    if nvidia:
        chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
        return len(nvidia) if chosen is None else len([name for name in chosen.split(",") if name.strip()])
    nodes = Path("/sys/class/kfd/kfd/topology/nodes")
    return sum("simd_count 0\n" not in path.read_text(encoding="utf-8") for path in nodes.glob("*/properties"))


def render(folder: Path, job: Job) -> Request:
    """Say exactly what would be started: one process, or torchrun with several, threads shared among them."""
    folder = folder.resolve()
    threads = job.placement.cpus_per_process or max(1, cpu_cores() // job.world_size)
    limit_s = math.ceil(job.time_limit_s + OVERTIME_S) if job.time_limit_s else 0
    command = ["timeout", f"--kill-after={GRACE_S:g}", str(limit_s)] if limit_s else []
    command += [sys.executable]
    if job.world_size > 1:  # one process has nobody to meet, and begins two seconds sooner without torchrun
        command += ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
        command += ["--nproc-per-node", str(job.world_size), "--max-restarts", "0"]
    command += ["-m", "runners", job.benchmark, "--job", str(folder), "--trace", str(folder / TRACE_FILE)]
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
            env={name: value for name, value in os.environ.items() if name not in SECRETS} | request.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[process.pid] = process
    handle = Handle(pid=process.pid, start_time=start_time(process.pid) or 0, folder=request.folder)
    note_handle(handle)
    return handle


def find(folder: Path) -> Handle | None:
    """Find a job whose handle was not written by its mark, and write the handle; None where none of it lives."""
    pids = marked(str(folder.resolve()))
    if not pids:
        return None
    began = {pid: start_time(pid) or 0 for pid in pids}
    first = min(pids, key=lambda pid: (began[pid], pid))
    handle = Handle(pid=first, start_time=began[first], folder=str(folder.resolve()))
    note_handle(handle)
    return handle


def alive(handle: Handle) -> bool:
    """Whether any process of the job still runs."""
    if start_time(handle.pid) == handle.start_time or marked(handle.folder):
        return True
    child = _children.get(handle.pid)
    if child is not None:
        _exit_codes[handle.pid] = child.wait()  # it has ended: this only takes note of it, for every thread that asks
        _children.pop(handle.pid, None)
    return False


def status(handle: Handle) -> Status:
    """Running, or what its events say of the end; one that ended without a word has failed, or was cancelled."""
    if alive(handle):
        return Status(alive=True, state="running")
    folder = Path(handle.folder)
    event = last_state(folder)
    state = "cancelled" if (folder / CANCEL_FILE).exists() else "failed"
    if event and event["state"] in FINAL_STATES:
        state = str(event["state"])
    if state != "failed":
        return Status(alive=False, state=state)
    code = _exit_codes.get(handle.pid, 0)
    return Status(alive=False, state=state, message=killed(-code) if code < 0 else rank_killed(folder))


def cancel(handle: Handle, grace_s: float = GRACE_S) -> None:
    """Send SIGTERM to every process of the job, SIGKILL to those that are left after ``grace_s``; wait for the end.

    Raises TimeoutError where even that does not end one.
    """
    ask_to_cancel(Path(handle.folder))
    known: dict[int, int] = {}
    _signal_all(processes_of(handle, known), signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while processes_of(handle, known) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    deadline = time.monotonic() + KILL_S
    while left := processes_of(handle, known):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {left} do not end; a driver may hold them.")
        _signal_all(left, signal.SIGKILL)
        time.sleep(POLL_S)
    alive(handle)


def _signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
