"""Run: one measured execution as the API shows it, folded from the files of its job folder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from app.runs.events import EventReader, parse
from estimator.scenario.measurement import any_measured
from runners.job import FINAL_STATES, JOB_FILE, LOG_FILE, RESULT_FILE, STATES

LOG_TAIL_BYTES = 16_384
REQUEST_FILE = "request.json"
MEASURED = ("ok", "oom")
"""Final states whose result is a measurement worth keeping in the list."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run is: its phase, the step it is at, how many there are, and the last step's time."""

    phase: str = ""
    step: int = 0
    steps: int = 0
    step_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Run:
    """A job and what became of it; times are seconds since the epoch."""

    id: str
    label: str = ""
    state: str = "queued"
    job: dict[str, Any] = field(default_factory=dict)
    created_s: float = 0.0
    started_s: float | None = None
    finished_s: float | None = None
    progress: Progress | None = None
    message: str = ""
    measurement_id: str | None = None
    command: tuple[str, ...] = ()

    @property
    def final(self) -> bool:
        """Whether the run has ended."""
        return self.state in FINAL_STATES


RUN = msgspec.json.Decoder(Run)
"""Made once, on import: two threads that decode a dataclass for the first time at once make msgspec 0.22 crash."""


def fold(run: Run, line: str) -> Run:
    """Return the run as it stands after one more line of its events."""
    event = parse(line)
    if event is None:
        return run
    t_s = event.get("t_s")
    t_s = float(t_s) if isinstance(t_s, (int, float)) else run.created_s
    if event["kind"] == "progress":
        try:
            return replace(run, progress=msgspec.convert(event, Progress))
        except msgspec.ValidationError:
            return run
    state, message = event.get("state"), str(event.get("message") or "")
    if state not in STATES or (run.final and state not in FINAL_STATES):
        return run
    if state == "queued":
        # A backend with a queue of its own says more than once that a run waits, and why
        return replace(run, state=state, created_s=min(run.created_s or t_s, t_s), message=message)
    if state == "running":
        return replace(run, state=state, started_s=run.started_s or t_s, message=message)
    return replace(run, state=state, finished_s=t_s, message=message)


def read_run(folder: Path) -> Run:
    """Rebuild a run from its folder; raises OSError or msgspec.DecodeError where the folder is not one."""
    job = {"backend": "local"} | msgspec.json.decode((folder / JOB_FILE).read_bytes(), type=dict[str, Any])
    label = str(job.get("label") or f"{job.get('benchmark', 'step')} {folder.name[-6:]}")
    run = Run(id=folder.name, label=label, job=job, created_s=folder.stat().st_mtime)
    try:
        request = msgspec.json.decode((folder / REQUEST_FILE).read_bytes(), type=dict[str, Any])
        run = replace(run, command=tuple(map(str, request.get("command", ()))))
    except (OSError, msgspec.DecodeError):
        pass
    for line in EventReader(folder).read():
        run = fold(run, line)
    if run.final and _measured(folder, run.state):
        run = replace(run, measurement_id=run.id)
    return run


def _measured(folder: Path, state: str) -> bool:
    """Whether the result holds a measurement: all that was asked for, or the rows of a run that broke off."""
    try:
        result = msgspec.json.decode((folder / RESULT_FILE).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return False
    return state in MEASURED or any_measured(result.get("rows") or ())


def log_tail(folder: Path, limit_bytes: int = LOG_TAIL_BYTES) -> str:
    """Return the end of the run's log: whole lines where it is longer than the limit, the end of one that fills it."""
    try:
        with (folder / LOG_FILE).open("rb") as file:
            size_bytes = file.seek(0, 2)
            file.seek(max(0, size_bytes - limit_bytes))
            data = file.read()
    except FileNotFoundError:
        return ""
    if size_bytes > limit_bytes:
        data = data[data.find(b"\n") + 1 :] or data
    return data.decode("utf-8", "replace")
