"""Watchdog: the process that ends a guarded one when its time is over or it does not end when told, and all it started.

It needs no cooperation: SIGKILL ends what holds the interpreter's lock in C, and what ignores SIGTERM. Before that it
writes the result that the journal makes, and asks for a traceback of all threads in the log. It ends with the process
that it watches, and takes along what that one left behind, such as compile workers that hold an output open.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from estimator.scenario.units import seconds
from runners.backends.processes import carrying
from runners.guard.heartbeat import ALIVE, LEAVING, MARK, Watch
from runners.guard.journal import KEPT, has_rows, older_of, recover
from runners.job import CANCEL_FILE, append_event, state

POLL_S = 0.5
"""How often it looks whether the process is there; the end of their pipe comes at once, unless a child holds it."""

LEAVE_S = 5.0
"""From the last word of a process to its end; one that goes on for longer keeps what it started."""

LATER_S = 2.0
"""How much later other ranks end, so that the first one's watchdog tells the reason."""

START_S = 120.0
"""What the first row may take longer: torch is imported, and ranks meet."""

TRACEBACK_S = 0.3
GONE_S = 20.0
"""How long a killed process may take; a driver may hold it, and then nobody can do more."""


@dataclass(kw_only=True)
class Clock:
    """Until when the process may run, and why no longer; a deadline that is nearer wins."""

    watch: Watch
    began_s: float = field(default_factory=time.monotonic)
    row_began_s: float = 0.0
    told_s: float | None = None
    leaving: bool = False

    def __post_init__(self) -> None:
        """Nothing is known yet of the first row."""
        self.row_began_s = self.began_s + START_S

    def hear(self, said: bytes) -> None:
        """Take in what the process says: signs of life, its last word, and signals that it got."""
        now_s = time.monotonic()
        for byte in said:
            if byte == ALIVE[0]:
                self.row_began_s = now_s
            elif byte == LEAVING[0]:
                self.leaving = True
            elif byte in (signal.SIGTERM, signal.SIGINT) and self.told_s is None:
                self.told_s = now_s

    def deadline(self) -> tuple[float, str]:
        """When it must be gone, and why: told, time or row; infinity where there is no bound."""
        watch = self.watch
        later_s = LATER_S if watch.rank else 0.0
        found = [(float("inf"), "")]
        if self.told_s is not None:
            found.append((self.told_s + watch.grace_s, "told"))
        if watch.time_limit_s:
            found.append((self.began_s + watch.time_limit_s + watch.overtime_s + later_s, "time"))
        if watch.row_limit_s:
            found.append((self.row_began_s + watch.row_limit_s + later_s, "row"))
        return min(found)


def main() -> None:
    """Watch the process that started this one until it is gone, then end what it left."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watch = Watch(**json.loads(sys.argv[1]))
    clock = Clock(watch=watch)
    while _there(watch):
        until_s, reason = clock.deadline()
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            _end(watch, reason)
            break
        if select.select([0], [], [], min(POLL_S, left_s))[0]:
            said = os.read(0, 4096)
            clock.hear(said)
            if not said:
                _wait_until_gone(watch, LEAVE_S)
                break
    clock.hear(_still_unread())
    if clock.leaving and _there(watch):
        return
    if not clock.leaving and watch.result and has_rows(Path(watch.result)):
        _conclude(watch, "failed", "its process ended without a word; see the log", "failed")
    _end_what_is_left(watch)


def _there(watch: Watch) -> bool:
    """Whether the watched process lives: this one is its child until it ends, even if nobody takes note of that."""
    return os.getppid() == watch.pid


def _still_unread() -> bytes:
    """What a process said that was gone before this one listened: its last word may be among it."""
    os.set_blocking(0, False)
    said = b""
    with contextlib.suppress(BlockingIOError):
        while part := os.read(0, 4096):
            said += part
    return said


def _end(watch: Watch, reason: str) -> None:
    """Leave the outcome, then kill the process."""
    message, row_status = {
        "told": (f"stopped by force, because it did not end in {watch.grace_s:g} s when told to", "not_run"),
        "time": (f"stopped at its time limit of {seconds(watch.time_limit_s)}", "timed_out"),
        "row": (f"stopped because a row took longer than {seconds(watch.row_limit_s)}, its limit", "timed_out"),
    }[reason]
    status = "cancelled" if reason == "told" and watch.world_size == 1 else "failed"
    _say(watch, message)
    _conclude(watch, status, message, row_status)
    # It prints where all threads are; what it interrupts may go on, but the outcome stands
    _signal(watch.pid, signal.SIGUSR1)
    time.sleep(TRACEBACK_S)
    _signal(watch.pid, signal.SIGKILL)
    _wait_until_gone(watch, GONE_S)


def _conclude(watch: Watch, status: str, message: str, row_status: str) -> None:
    """Write the first rank's outcome, where it has left none itself."""
    if watch.rank or not watch.result:
        return
    if watch.folder and (Path(watch.folder) / CANCEL_FILE).exists():
        status, row_status = "cancelled", "not_run"
    result = Path(watch.result)
    with contextlib.suppress(OSError):
        if not recover(result, status, message, row_status):
            return
        if watch.folder:
            append_event(Path(watch.folder), state(status, message))
            return
        _say(watch, f"what was measured until then: {result}")
        if older_of(result).exists():
            _say(watch, KEPT.format(older_of(result)))


def _end_what_is_left(watch: Watch) -> None:
    """Kill all that carries the process's mark: its children, and theirs."""
    deadline_s = time.monotonic() + GONE_S
    while time.monotonic() < deadline_s:
        left = [pid for pid in carrying(f"{MARK}={watch.mark}") if pid not in (os.getpid(), watch.pid)]
        if not left:
            return
        for pid in left:
            _signal(pid, signal.SIGKILL)
        time.sleep(0.05)


def _wait_until_gone(watch: Watch, limit_s: float) -> None:
    deadline_s = time.monotonic() + limit_s
    while _there(watch) and time.monotonic() < deadline_s:
        time.sleep(0.02)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _say(watch: Watch, message: str) -> None:
    with contextlib.suppress(OSError):
        print(f"rank {watch.rank}: {message}", file=sys.stderr, flush=True)
