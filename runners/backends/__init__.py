"""Backends by name: modules with the verbs of ``Backend``, imported when used."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from estimator.scenario.problems import InputProblems, Problem
from runners.job import Handle, Job, Request

BACKENDS = {"local": "runners.backends.local", "slurm": "runners.backends.slurm"}


@dataclass(frozen=True, kw_only=True)
class Status:
    """What a backend knows of a job: whether any of it is left, one of runners.job.STATES, and the reason if any."""

    alive: bool
    state: str
    message: str = ""


class Backend(Protocol):
    """What such a module does."""

    QUEUES: bool
    """Whether it has a queue of its own: it takes any number of jobs, places them, and bounds their time."""

    ARRAYS: bool
    """Whether one submission starts several jobs, by ``render_array`` and ``submit_array`` beside these verbs."""

    LOOK_S: float
    """Seconds between two looks at a job that do not burden whoever answers."""

    def problems(self, job: Job) -> list[Problem]:
        """List what it cannot do for a job, whether or not it can start jobs from here."""

    def missing(self) -> list[Problem]:
        """List what this machine lacks to start jobs."""

    def render(self, folder: Path, job: Job) -> Request:
        """Say exactly what would be started; starts nothing."""

    def submit(self, request: Request) -> Handle:
        """Start it; raise OSError where it cannot be started."""

    def find(self, folder: Path) -> Handle | None:
        """Find a job that was started without leaving its handle; None where nothing of it is left."""

    def status(self, handle: Handle) -> Status:
        """Say how it stands."""

    def cancel(self, handle: Handle) -> None:
        """End all its processes, politely first, and return when none is left."""


def backend(name: str) -> Backend:
    """Return the backend of that name; raise InputProblems where there is none."""
    if name not in BACKENDS:
        remedy = f"Choose one of: {', '.join(BACKENDS)}."
        raise InputProblems([Problem(field="backend", message=f"{name!r} is not known", remedy=remedy)])
    return cast(Backend, importlib.import_module(BACKENDS[name]))
