"""Live: a run that has not ended, as the supervisor and those who watch it share it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from app.runs.events import EventReader, final_state
from app.runs.run import Run, fold, read_run
from runners.job import Handle


@dataclass(eq=False, kw_only=True)
class Live:
    """The run as it stands, the lines that watchers may see, and how to wake them.

    ``held`` are lines from the worker's word that it is done: watchers see them only when its result is stored.
    """

    run: Run
    folder: Path
    reader: EventReader
    lines: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    handle: Handle | None = None
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

    def publish(self) -> None:
        """Wake everyone who waits for news of this run."""
        woken, self.changed = self.changed, asyncio.Event()
        woken.set()


def read_live(folder: Path) -> Live:
    """Read a run's folder; raises OSError or msgspec.DecodeError where it is not one."""
    live = Live(run=read_run(folder), folder=folder, reader=EventReader(folder))
    live.take()
    return live
