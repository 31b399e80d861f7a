"""Processes of a job on this machine, found in Linux's /proc by what marks them and by whose children they are."""

from __future__ import annotations

from pathlib import Path

from runners.job import Handle

MARK = "HEADROOM_JOB_FOLDER"
"""Environment variable that every process of a job inherits; torchrun's workers leave its process group."""


def processes_of(handle: Handle, known: dict[int, int] | None = None) -> list[int]:
    """Living processes of the job: the one that was started, all that carry its mark, and all that descend from those.

    ``known`` remembers them with their start times, so that one without a mark is still found when its parent is gone.
    """
    known = {} if known is None else known
    for pid in marked(handle.folder):
        known.setdefault(pid, start_time(pid) or 0)
    if start_time(handle.pid) == handle.start_time:
        known[handle.pid] = handle.start_time
    for pid in [pid for pid, began in known.items() if start_time(pid) != began]:
        del known[pid]
    children = _children_by_parent()
    waiting = list(known)
    while waiting:
        for pid in children.get(waiting.pop(), []):
            began = start_time(pid)
            if pid not in known and began is not None:
                known[pid] = began
                waiting.append(pid)
    return sorted(known)


def _children_by_parent() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for pid in _all_processes():
        fields = _stat(pid)
        if fields:
            found.setdefault(int(fields[1]), []).append(pid)
    return found


def marked(folder: str) -> list[int]:
    """Living processes that were started with the mark of this job's folder."""
    return carrying(f"{MARK}={folder}")


def carrying(variable: str) -> list[int]:
    """Living processes that were started with ``NAME=value`` in their environment; none where there is no /proc."""
    mark = variable.encode()
    found = []
    for pid in _all_processes():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if mark in environment.split(b"\0") and start_time(pid) is not None:
            found.append(pid)
    return found


def _all_processes() -> list[int]:
    proc = Path("/proc")
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()] if proc.is_dir() else []


def start_time(pid: int) -> int | None:
    """Clock ticks from boot to the process's start; None where it is gone or only waits to be reaped."""
    fields = _stat(pid)
    return None if not fields or fields[0] in "ZX" else int(fields[19])


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat behind the name: state, parent, …; none where the process is gone."""
    return _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
