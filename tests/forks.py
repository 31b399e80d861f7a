"""``python -m runners`` in a fork of a process that has imported torch, which takes longer than most commands do.

Many ranks of one command: ``run_ranks``, by tests/runners/forked_ranks.py.

Tests of how a command starts, of its signals and of its processes start it as users do.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.preloaded"])


def run_forked(*arguments: str, cwd: Path, timeout_s: float = 240.0) -> subprocess.CompletedProcess[str]:
    """Run the command and return its status and what it said."""
    return run_in_fork(_command, arguments, cwd, timeout_s)


def run_ranks(ranks: int, *arguments: str, cwd: Path, timeout_s: float = 240.0) -> subprocess.CompletedProcess[str]:
    """Run the command on so many ranks, each on one thread."""
    return run_in_fork(_ranks, (str(ranks), *arguments), cwd, timeout_s)


def run_in_fork(
    target: Callable[[list[str]], int], arguments: tuple[str, ...], cwd: Path, timeout_s: float = 240.0
) -> subprocess.CompletedProcess[str]:
    """Call a function of a module with these arguments; return the status that it gives and what it said."""
    with tempfile.TemporaryDirectory() as folder:
        texts = [Path(folder) / name for name in ("out", "err")]
        process = _CONTEXT.Process(target=_run, args=(target, arguments, str(cwd), *map(str, texts)))
        process.start()
        process.join(timeout_s)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(arguments, timeout_s, stderr=texts[1].read_text().encode())
        out, err = (text.read_text(encoding="utf-8") for text in texts)
        return subprocess.CompletedProcess(arguments, process.exitcode, out, err)


def _command(arguments: list[str]) -> int:
    from runners.__main__ import main

    return main(arguments)


def _ranks(arguments: list[str]) -> int:
    import torch

    from tests.runners.forked_ranks import start

    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    return min(abs(start(int(arguments[0]), arguments[1:])), 127)


def _run(target: Callable[[list[str]], int], arguments: tuple[str, ...], cwd: str, out: str, err: str) -> None:
    from runners.worker import leave

    assert "tests.preloaded" in sys.modules  # a fork server says nothing of what it could not import
    for descriptor, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    os.chdir(cwd)
    code = 1
    try:
        code = target(list(arguments))
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 2
    except BaseException:
        sys.excepthook(*sys.exc_info())
    leave(code)
