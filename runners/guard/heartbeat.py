"""Heartbeat: what a process tells its watchdog of itself and its rows; that one ends it when its time is over.

A handler, a thread or a timer of this process may never get its turn: code in C may hold the interpreter's lock, or
wait in the device's driver. The watchdog needs nothing of this process but its signs of life.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from estimator.scenario.measurement import Measurement
from runners.guard import journal

ALIVE, LEAVING = b"+", b"-"
"""Bytes that the watchdog is sent; others are numbers of signals, which Python's own handler in C passes on at once."""

MARK = "HEADROOM_GUARDED"
"""Environment variable that everything inherits which a guarded process starts."""

_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from runners.guard.watchdog import main; main()"


@dataclass(frozen=True, kw_only=True)
class Watch:
    """What the watchdog knows of a process: its id and rank, where its outcome goes, and its limits, 0 for none.

    The time limit is held ``overtime_s`` late, where somebody else holds it first. A process that is told to end has
    ``grace_s``, less than whoever told it waits before he kills its watchdog too.
    """

    pid: int = field(default_factory=os.getpid)
    mark: str = field(default_factory=lambda: f"{os.getpid()}-{time.time_ns()}")
    rank: int = 0
    world_size: int = 1
    result: str = ""
    folder: str = ""
    time_limit_s: float = 0.0
    overtime_s: float = 0.0
    row_limit_s: float = 0.0
    grace_s: float = 3.0


@dataclass(kw_only=True)
class Heartbeat:
    """This process's end of the pipe to its watchdog, and its journal, which the first rank alone has."""

    pipe: int = -1
    journal: Path | None = None


_heartbeat = Heartbeat()


def start(watch: Watch) -> None:
    """Start the watchdog; handlers of SIGTERM and SIGINT must be set, so that it learns of both."""
    os.environ[MARK] = watch.mark
    with contextlib.suppress(AttributeError, OSError, ValueError):  # where there is no stderr, or no such signal
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    subprocess.Popen(
        (sys.executable, "-I", "-S", "-c", _START, str(Path(__file__).resolve().parents[2]), json.dumps(asdict(watch))),
        stdin=read_end,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(read_end)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    _heartbeat.pipe = write_end
    _heartbeat.journal = journal.journal_of(Path(watch.result)) if watch.result and watch.rank == 0 else None


def alive() -> None:
    """Say that something was done: the time of a row begins anew."""
    _tell(ALIVE)


def end() -> None:
    """Say that all is written: the watchdog ends what this process leaves behind when it is gone, and then itself."""
    if _heartbeat.pipe >= 0:
        _tell(LEAVING)
        signal.set_wakeup_fd(-1)
        os.close(_heartbeat.pipe)
    _heartbeat.pipe, _heartbeat.journal = -1, None


def rows_begin(head: Measurement) -> None:
    """Begin the journal of a run that gives rows."""
    if _heartbeat.journal is not None:
        journal.start(_heartbeat.journal, head)


def row_begins(columns: dict[str, Any]) -> None:
    """Note the row that is measured next."""
    alive()
    if _heartbeat.journal is not None:
        journal.append(_heartbeat.journal, begins=columns)


def row_ends(rows: list[dict[str, Any]]) -> None:
    """Put what was measured on disk, before the next row begins."""
    if _heartbeat.journal is not None:
        journal.append(_heartbeat.journal, rows=rows)
    alive()


def _tell(byte: bytes) -> None:
    if _heartbeat.pipe >= 0:
        with contextlib.suppress(OSError):  # a full pipe has signs of life enough
            os.write(_heartbeat.pipe, byte)
