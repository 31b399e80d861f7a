"""How a Slurm job stands, without needing accounting.

squeue knows living jobs, scontrol those that ended within MinJobAge, sacct older ones where it answers, and the script
leaves its exit code in the job's folder.

Source: Slurm 22.05 manual pages squeue(1), scontrol(1), sacct(1).
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from estimator.scenario.problems import InputProblems
from runners.backends import Status
from runners.backends.processes import killed, rank_killed
from runners.job import CANCEL_FILE, EXIT_FILE, Handle, read_json

ASK_S = 20.0
"""How long one of Slurm's commands may take to answer."""

NO_SUCH_JOB = re.compile(r"Invalid job id|Job \S+ not found")
ENDED = {
    "COMPLETED": "ok",
    "CANCELLED": "cancelled",
    **dict.fromkeys(
        ("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED"), "failed"
    ),
    "REVOKED": "failed",
}
"""Slurm's final states; all others mean that something of the job is left."""

SHELL_SIGNAL = 128
"""What a shell adds to the number of the signal that ended a command."""

WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "STAGE_IN")


class UnansweredError(Exception):
    """Raised where one of Slurm's commands fails or takes too long; the job may be well."""


def status(handle: Handle) -> Status:
    """Ask squeue, then scontrol, then sacct, then the folder; a Slurm that does not answer leaves the job alive."""
    try:
        return _living(handle) or _ended(handle)
    except UnansweredError as error:
        return _from_folder(handle) or Status(alive=True, state="running", message=f"Slurm does not answer: {error}")


def _living(handle: Handle) -> Status | None:
    try:
        said = ask("squeue", "--noheader", "--array", f"--jobs={handle.job_id}", "--format=%T|%r")
    except UnansweredError as error:
        if NO_SUCH_JOB.search(str(error)):
            return None
        raise
    name, _, reason = said.partition("\n")[0].partition("|")
    if not name or name in ENDED:
        return None
    if name in WAITING:
        why = "" if reason in ("", "None") else f": {reason}"
        return Status(alive=True, state="queued", message=f"waiting in Slurm, job {handle.job_id}{why}")
    return Status(alive=True, state="running")


def _ended(handle: Handle) -> Status:
    known = _controller(handle.job_id) or _accounting(handle.job_id)
    if known is None:
        lost = f"Slurm no longer knows job {handle.job_id}, which left no exit code"
        meant = (Path(handle.folder) / CANCEL_FILE).exists()  # forgotten at once where it had not begun
        return _from_folder(handle) or Status(alive=False, state="cancelled" if meant else "failed", message=lost)
    name = known["JobState"].split()[0].rstrip("+")
    if name not in ENDED:
        return Status(alive=True, state="running")
    state = ENDED[name]
    if state == "ok":
        return Status(alive=False, state=state)
    parts = [f"Slurm: {name}"]
    if name == "TIMEOUT":
        parts.append(f"it ran longer than its time limit {known.get('TimeLimit', '')}".rstrip())
    elif name == "NODE_FAIL":
        parts += _failed_nodes(known.get("NodeList", ""))
    elif name == "FAILED":
        code, _, number = known.get("ExitCode", "").partition(":")
        parts.append(_exit(int(code or 0)) if number in ("", "0") else killed(int(number)))
        parts += filter(None, [rank_killed(Path(handle.folder))])
    elif known.get("Reason", "None") != "None":
        parts.append(known["Reason"])
    return Status(alive=False, state=state, message=", ".join(parts))


def _controller(job_id: str) -> dict[str, str] | None:
    try:
        said = ask("scontrol", "--oneliner", "show", "job", job_id)
    except UnansweredError as error:
        if NO_SUCH_JOB.search(str(error)):
            return None
        raise
    found = _fields(said.partition("\n")[0])
    return found if "JobState" in found else None


def _accounting(job_id: str) -> dict[str, str] | None:
    """What sacct says; None where there is no accounting, or none that answers."""
    columns = ("State", "ExitCode", "NodeList", "Timelimit")
    try:
        command = ("sacct", "--allocations", "--noheader", "--parsable2", f"--format={','.join(columns)}")
        line = ask(*command, "--jobs", job_id).partition("\n")[0]
    except UnansweredError:
        return None
    values = line.split("|")
    return dict(zip(("JobState", *columns[1:]), values, strict=True)) if len(values) == len(columns) else None


def _failed_nodes(nodes: str) -> list[str]:
    """Which of a job's nodes are down, and why, as far as Slurm tells."""
    try:
        lines = ask("scontrol", "--oneliner", "show", "node", nodes).splitlines() if nodes else []
    except UnansweredError:
        lines = []
    found = []
    for fields, line in ((_fields(line), line) for line in lines):
        if "DOWN" in fields.get("State", ""):
            reason = re.search(r"\bReason=(.*?)(?: \[[^\]]*\])?(?: Comment=.*)?$", line.strip())
            found.append(f"node {fields.get('NodeName', '?')} is down" + (f": {reason[1]}" if reason else ""))
    return found or [f"nodes {nodes}"]


def _from_folder(handle: Handle) -> Status | None:
    """The exit code that the script left, whoever else has forgotten the job."""
    try:
        code = int(read_json(Path(handle.folder) / EXIT_FILE, "exit")["exit_code"])
    except (InputProblems, KeyError, TypeError, ValueError):
        return None
    if code and (Path(handle.folder) / CANCEL_FILE).exists():
        return Status(alive=False, state="cancelled")
    if code == 0:
        return Status(alive=False, state="ok")
    said = ", ".join(filter(None, (f"its script ended with {_exit(code)}", rank_killed(Path(handle.folder)))))
    return Status(alive=False, state="failed", message=said)


def _exit(code: int) -> str:
    """Name an exit code, and the signal that a shell means by it."""
    return f"exit code {code}" + (f", {killed(code - SHELL_SIGNAL)}" if SHELL_SIGNAL < code < SHELL_SIGNAL + 65 else "")


def _fields(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S*)", line))


def ask(*command: str) -> str:
    """Run one of Slurm's commands without this server's own settings and secrets; raise UnansweredError."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADROOM_")}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASK_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnansweredError(f"{command[0]} did not answer in {ASK_S:g} s") from None
    except OSError as error:
        raise UnansweredError(f"{command[0]}: {error.strerror or error}") from None
    if done.returncode != 0:
        raise UnansweredError(" ".join((done.stderr or done.stdout).split())[:500] or f"{shlex.join(command)} failed")
    return done.stdout.strip()
