"""Job: one measured run as data, and the folder that is the protocol between runner and whoever watches it.

``job.json`` says what to run; ``events.jsonl`` grows by one JSON object per line; ``result.json`` is the Measurement;
``result.rows.jsonl`` holds the rows until then;
``log`` holds what the processes printed; ``trace.json.gz`` is the profiler's trace and ``snapshot.json.gz`` the
allocator's snapshot, where the job asks for one; ``handle.json`` finds the processes again; a file ``cancel`` says that
whoever stops the run meant to. A backend with a queue adds its script ``job.sh`` and, when that ends, ``exit.json``.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from estimator.scenario.codec import decode, encode, spec
from estimator.scenario.measurement import Measurement
from estimator.scenario.problems import InputProblems, Problem
from runners.placement import Placement

STATES = ("queued", "running", "ok", "oom", "failed", "cancelled")
FINAL_STATES = ("ok", "oom", "failed", "cancelled")
BENCHMARKS = ("step", "attention", "collectives", "ddp", "ulysses", "memory", "precision", "probes")
DEVICES = ("auto", "cpu", "cuda")

JOB_FILE, EVENTS_FILE, RESULT_FILE, LOG_FILE = "job.json", "events.jsonl", "result.json", "log"
TRACE_FILE, SNAPSHOT_FILE, HANDLE_FILE, CANCEL_FILE = "trace.json.gz", "snapshot.json.gz", "handle.json", "cancel"
SCRIPT_FILE, EXIT_FILE = "job.sh", "exit.json"


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to run, where and how often; ``scenario`` in the contract's form, ``options`` those of runners.options."""

    benchmark: str = spec("step", choices=BENCHMARKS, help="what is measured")
    scenario: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    world_size: int = spec(1, minimum=1, maximum=100_000, help="processes, one per device")
    device: str = spec("auto", choices=DEVICES, help="auto takes GPUs where there are any")
    warmup: int = spec(3, minimum=0, maximum=10_000, help="steps before measuring")
    steps: int = spec(10, minimum=1, maximum=100_000, help="measured steps")
    seed: int = spec(0, minimum=0, maximum=2**31, help="of parameters and data")
    backend: str = spec("local", help="who starts the processes")
    time_limit_s: float = spec(0.0, minimum=0, maximum=30 * 86_400, help="wall-clock bound; 0: server's or queue's")
    row_limit_s: float = spec(900.0, minimum=0, maximum=86_400, help="most for one row, or for a step; 0: no bound")
    placement: Placement = field(default_factory=Placement)
    label: str = spec("", help="name for people")


@dataclass(frozen=True, kw_only=True)
class Request:
    """Exactly what a backend would start: command, what it adds to the environment, and the job's folder.

    ``script`` is the text of the file ``job.sh`` in that folder, where the command needs one.
    """

    command: tuple[str, ...]
    environment: dict[str, str]
    folder: str
    script: str = ""


@dataclass(frozen=True, kw_only=True)
class Handle:
    """How to find a started job again; a process id counts only with the time at which that process began.

    ``job_id`` is the scheduler's name for it, where a scheduler starts it.
    """

    folder: str
    pid: int = 0
    start_time: int = 0
    job_id: str = ""


def write_job(folder: Path, job: Job) -> None:
    """Write ``job.json``."""
    write_atomically(folder / JOB_FILE, encode(job))


def read_job(folder: Path) -> Job:
    """Read ``job.json``; raise InputProblems."""
    return decode(Job, read_json(folder / JOB_FILE, "job"))


def write_handle(handle: Handle) -> None:
    """Write ``handle.json`` into the job's folder."""
    write_atomically(Path(handle.folder) / HANDLE_FILE, encode(handle))


def note_handle(handle: Handle) -> None:
    """Write ``handle.json`` where the disk takes it; what was started is found without it too."""
    with contextlib.suppress(OSError):
        write_handle(handle)


def ask_to_cancel(folder: Path) -> None:
    """Leave the file ``cancel`` where the disk takes it; a full one must not keep processes alive."""
    with contextlib.suppress(OSError):
        (folder / CANCEL_FILE).touch()


def read_handle(folder: Path) -> Handle | None:
    """Read ``handle.json``; None where the job was never started."""
    path = folder / HANDLE_FILE
    return decode(Handle, read_json(path, "handle")) if path.exists() else None


def read_json(path: Path, what: str) -> Any:
    """Read a JSON file; raise InputProblems that say what cannot be read and why."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason, remedy = error.strerror or "cannot be read", f"Give the path of a {what} that exists."
    except ValueError as error:
        reason, remedy = f"is not JSON: {error}", "Give one JSON object."
    raise InputProblems([Problem(field=what, message=f"{path}: {reason}", remedy=remedy)])


def progress(phase: str, step: int, steps: int, step_s: float | None) -> dict[str, Any]:
    """One event of progress: ``phase`` is build, warmup, measure or profile."""
    return {"t_s": time.time(), "kind": "progress", "phase": phase, "step": step, "steps": steps, "step_s": step_s}


def state(name: str, message: str = "") -> dict[str, Any]:
    """One event of a change of state."""
    assert name in STATES
    return {"t_s": time.time(), "kind": "state", "state": name, "message": message}


def tell(folder: Path, event: dict[str, Any]) -> None:
    """Append an event of a run at work, which outlives progress that cannot be written, as on a full disk."""
    try:
        append_event(folder, event)
    except OSError:
        if event["kind"] != "progress":
            raise


def append_event(folder: Path, event: dict[str, Any]) -> None:
    """Append one line to ``events.jsonl`` in one write, so that several processes may; raise OSError."""
    line = (json.dumps(event, allow_nan=False) + "\n").encode()
    descriptor = os.open(folder / EVENTS_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        if os.write(descriptor, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / EVENTS_FILE))
    finally:
        os.close(descriptor)


def read_events(folder: Path, after: int = 0) -> list[dict[str, Any]]:
    """Read the complete lines behind line number ``after``, but for those that a dying worker left unfinished."""
    try:
        text = (folder / EVENTS_FILE).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    found = []
    for line in text.split("\n")[:-1][after:]:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def last_state(folder: Path) -> dict[str, Any] | None:
    """The latest event of state, if any."""
    states = [event for event in read_events(folder) if event["kind"] == "state"]
    return states[-1] if states else None


def write_measurement(path: Path, measurement: Measurement, *, keep: bool = False) -> bool:
    """Write a result at once or not at all; with ``keep`` one that is there already stays. Says whether it wrote."""
    return write_atomically(path, encode(measurement), keep=keep)


def read_measurement(path: Path) -> Measurement:
    """Read a result; raise InputProblems."""
    return decode(Measurement, read_json(path, "result"))


def write_atomically(path: Path, document: Any, *, keep: bool = False) -> bool:
    """Write JSON as ``put_atomically`` does."""
    return put_atomically(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode(), keep=keep)


def put_atomically(path: Path, data: bytes, *, keep: bool = False) -> bool:
    """Write beside ``path`` and move it there, so that no reader sees half; ``keep``: unless there is one already."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(data)
    except OSError:  # what is half-written takes space where there is none
        part.unlink(missing_ok=True)
        raise
    if not keep:
        part.replace(path)
        return True
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    finally:
        part.unlink()
    return True
