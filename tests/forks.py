"""``python -m runners`` in a fork of a process that has imported torch, which takes longer than most commands do.

Many ranks of one command: ``run_ranks``, by tests/runners/forked_ranks.py.

Tests of how a command starts, of its signals and of its processes start it as users do.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests import warm


def run_forked(*arguments: str, cwd: Path, timeout_s: float = 240.0) -> subprocess.CompletedProcess[str]:
    """Run the command and return its status and what it said."""
    return _run("runners", *arguments, cwd=cwd, timeout_s=timeout_s)


def run_ranks(ranks: int, *arguments: str, cwd: Path, timeout_s: float = 240.0) -> subprocess.CompletedProcess[str]:
    """Run the command on so many ranks, each on one thread."""
    return _run("tests.runners.forked_ranks", str(ranks), *arguments, cwd=cwd, timeout_s=timeout_s)


def run_in_fork(
    target: Callable[[list[str]], int], arguments: tuple[str, ...], cwd: Path, timeout_s: float = 240.0
) -> subprocess.CompletedProcess[str]:
    """Call a function of a module with these arguments; return the status that it gives and what it said."""
    named = (target.__module__, target.__name__)
    return _run("tests.runners.called", *named, *arguments, cwd=cwd, timeout_s=timeout_s)


def _run(*arguments: str, cwd: Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [warm.python(), "-m", *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(warm.ROOT)},
        timeout=timeout_s,
        capture_output=True,
        text=True,
        check=False,
    )
