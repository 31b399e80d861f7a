"""Events: a job's events.jsonl, one JSON object per line; its line numbers (from 1) are the ids of the event stream."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import msgspec

from runners.job import EVENTS_FILE, FINAL_STATES, append_event
from runners.job import state as job_state


def append_state(folder: Path, state: str, message: str = "") -> None:
    """Append one state event; a line that a killed worker left unfinished is closed first."""
    path = folder / EVENTS_FILE
    if path.exists() and path.stat().st_size and not _ends_line(path):
        with path.open("ab") as file:
            file.write(b"\n")
    append_event(folder, job_state(state, message))


def parse(line: str) -> dict[str, Any] | None:
    """Return the event of one line, or None where the line is not an event (a worker died while it wrote)."""
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return event if isinstance(event, dict) and event.get("kind") in ("progress", "state") else None


class EventReader:
    """Reads a growing events.jsonl: every call of ``read`` returns the lines completed since the last one."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / EVENTS_FILE
        self.offset = 0

    def read(self) -> list[str]:
        """Return new complete lines, without their ends."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return []
        complete = data[: data.rfind(b"\n") + 1]
        self.offset += len(complete)
        return complete.decode("utf-8", "replace").split("\n")[:-1]


def final_state(lines: list[str]) -> str | None:
    """Return the final state that the lines report, or None while there is none."""
    for line in reversed(lines):
        event = parse(line)
        if event and event["kind"] == "state" and event.get("state") in FINAL_STATES:
            return str(event["state"])
    return None


def until_final(lines: list[str]) -> list[str]:
    """Return the lines before the first that reports a final state."""
    return list(itertools.takewhile(lambda line: final_state([line]) is None, lines))


def _ends_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
