"""Backends by name: modules with ``render``, ``submit``, ``alive``, ``status`` and ``cancel``, imported when used."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol, cast

from estimator.problems import InputProblems, Problem
from runners.job import Handle, Job, Request

BACKENDS = {"local": "runners.backends.local"}


class Backend(Protocol):
    """What such a module does."""

    def render(self, folder: Path, job: Job) -> Request:
        """Say exactly what would be started; starts nothing."""

    def submit(self, request: Request) -> Handle:
        """Start it."""

    def alive(self, handle: Handle) -> bool:
        """Whether any of its processes still runs."""

    def status(self, handle: Handle) -> str:
        """Its state, one of runners.job.STATES."""

    def cancel(self, handle: Handle) -> None:
        """End all its processes, politely first, and return when none is left."""


def backend(name: str) -> Backend:
    """Return the backend of that name; raise InputProblems where there is none."""
    if name not in BACKENDS:
        remedy = f"Choose one of: {', '.join(BACKENDS)}."
        raise InputProblems([Problem(field="backend", message=f"{name!r} is not known", remedy=remedy)])
    return cast(Backend, importlib.import_module(BACKENDS[name]))
