"""``python -m runners`` in a fork of a process that has imported torch, which takes longer than most commands do.

Many ranks of one command: tests/runners/forked_ranks.py.

Tests of how a command starts, of its signals and of its processes start it as users do.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "torch",
        "torch._subclasses.fake_tensor",
        "torch.distributed.tensor",
        "torch.distributed.fsdp",
        "torch.testing._internal.distributed.fake_pg",
        "torch.utils.checkpoint",
        "runners.__main__",
    ]
)


def run_forked(*arguments: str, cwd: Path, timeout_s: float = 240.0) -> subprocess.CompletedProcess[str]:
    """Run the command and return its status and what it said."""
    with tempfile.TemporaryDirectory() as folder:
        texts = [Path(folder) / name for name in ("out", "err")]
        process = _CONTEXT.Process(target=_run, args=(arguments, str(cwd), *map(str, texts)))
        process.start()
        process.join(timeout_s)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(arguments, timeout_s, stderr=texts[1].read_text().encode())
        out, err = (text.read_text(encoding="utf-8") for text in texts)
        return subprocess.CompletedProcess(arguments, process.exitcode, out, err)


def _run(arguments: tuple[str, ...], cwd: str, out: str, err: str) -> None:
    from runners.__main__ import main
    from runners.worker import leave

    for descriptor, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    os.chdir(cwd)
    code = 1
    try:
        code = main(list(arguments))
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 2
    except BaseException:
        sys.excepthook(*sys.exc_info())
    leave(code)
