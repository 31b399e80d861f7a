"""Live: a run that has not ended, as the supervisor and those who watch it share it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path

from app.runs.events import EventReader, final_state
from app.runs.run import Run, fold, read_run
from app.storage import Trouble
from runners.backends.processes import age_s
from runners.job import CANCEL_FILE, Handle


@dataclass(eq=False, kw_only=True)
class Live:
    """The run as it stands, the lines that watchers may see, and how to wake them.

    ``held`` are lines from the worker's word that it is done: watchers see them only when its result is stored.
    ``stored`` is the run as the index has it. ``ending`` is None until its end is asked for, then the reason, which is
    empty where somebody wished it. ``trouble`` is what hinders following it just now. ``began_s`` is when it began to
    run, by the clock of ``time.monotonic``, which nobody sets.
    """

    run: Run
    folder: Path
    reader: EventReader
    lines: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    handle: Handle | None = None
    stored: Run | None = None
    ending: str | None = None
    trouble: Trouble | None = None
    began_s: float | None = None
    done: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self) -> int:
        """Take in the lines that were written since the last time; return how many."""
        lines = self.reader.read()
        for line in lines:
            if self.held or final_state([line]):
                self.held.append(line)
            else:
                self.lines.append(line)
                self.run = fold(self.run, line)
        return len(lines)

    def ran_s(self) -> float:
        """Seconds since it began to run; 0 before that.

        The wall clock is asked once, and believed no more than the age of the process, because people set it.
        """
        if self.run.started_s is None:
            return 0.0
        if self.began_s is None:
            ran_s = max(0.0, time.time() - self.run.started_s)
            process_s = age_s(self.handle.pid) if self.handle and self.handle.pid else None
            self.began_s = time.monotonic() - (ran_s if process_s is None else min(ran_s, process_s))
        return time.monotonic() - self.began_s

    def ask_end(self, reason: str = "") -> None:
        """Note that it shall end, in its folder too where the disk takes it."""
        self.ending = self.ending or reason
        with contextlib.suppress(OSError):
            self.note_end()

    def note_end(self) -> None:
        """Leave in the folder that the end was asked for, and why; raise OSError."""
        file = self.folder / CANCEL_FILE
        if self.ending is not None and not file.exists():
            file.write_text(self.ending)

    def publish(self) -> None:
        """Wake everyone who waits for news of this run."""
        woken, self.changed = self.changed, asyncio.Event()
        woken.set()


def read_live(folder: Path) -> Live:
    """Read a run's folder; raises OSError or msgspec.DecodeError where it is not one."""
    live = Live(run=read_run(folder), folder=folder, reader=EventReader(folder))
    live.take()
    return live
