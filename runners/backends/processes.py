"""Processes of a job on this machine, found in Linux's /proc by what marks them and by whose children they are."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from runners.job import LOG_FILE, Handle

MARK = "HEADROOM_JOB_FOLDER"
"""Environment variable that every process of a job inherits; torchrun's workers leave its process group."""

_RANK_KILLED = re.compile(r"exitcode +: -(\d+) ")
"""What torchrun reports of a rank that a signal ended (torch 2.13, distributed/elastic/multiprocessing/errors)."""

_REPORT_BYTES = 16_384


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
    return [pid for pid, begun_with in _environments() if mark in begun_with and start_time(pid) is not None]


def any_at_work() -> bool:
    """Whether a process of any job lives on this machine, wherever its folder is and whoever started it.

    Of other users' processes only root may know what they were started with.
    """
    mark = f"{MARK}=".encode()
    return any(
        start_time(pid) is not None
        for pid, begun_with in _environments()
        if any(one.startswith(mark) for one in begun_with)
    )


def _environments() -> Iterator[tuple[int, list[bytes]]]:
    """What each process that this user may look into was started with."""
    for pid in _all_processes():
        with contextlib.suppress(OSError):
            yield pid, Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def killed(number: int) -> str:
    """Say that a signal ended a process, and what that may mean."""
    try:
        name = f" ({signal.Signals(number).name})"
    except ValueError:
        name = ""
    return f"killed, signal {number}{name}" + (": perhaps out of memory" if number == signal.SIGKILL else "")


def rank_killed(folder: Path) -> str:
    """Say so where torchrun reports in the run's log that a signal ended one of its ranks; else "".

    The rank that failed first is its root cause. A neighbour that loses the connection to a killed rank may be seen
    failing before it; torchrun itself ends the ranks that are left with SIGTERM.
    """
    log = folder / LOG_FILE
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _REPORT_BYTES))
        others, _, first = file.read().decode("utf-8", "replace").rpartition("Root Cause")
        signals = [int(number) for number in _RANK_KILLED.findall(first)]
        signals += [number for number in map(int, _RANK_KILLED.findall(others)) if number != signal.SIGTERM]
        if signals:
            return killed(signals[0])
    return ""


def age_s(pid: int) -> float | None:
    """Seconds since a process began, by a clock that nobody sets; None where it is gone or there is no /proc."""
    began = start_time(pid)
    if began is None:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began / os.sysconf("SC_CLK_TCK")


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
