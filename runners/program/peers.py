"""What other ranks send: objects and flags. A rank that is waited for is traced too, beside this one."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from estimator.scenario.problems import InputProblems, Problem
from runners.job import put_atomically
from runners.parent import end_with_parent

FOLDER = "HEADROOM_TRACE_PEERS"
"""Environment variable: where ranks that are traced together leave what they send, private to who began."""

WAIT_S = 300.0
"""How long a rank is waited for; a model of 70 billion parameters is there after ten seconds."""

LOOK_S = 0.02
ROOT = Path(__file__).parents[2]


class Peers:
    """Messages between ranks, one file each, in the order in which they are sent from one to another.

    ``command`` traces another rank. Nothing is started until somebody is waited for: until then what is sent is kept.
    """

    def __init__(self, rank: int, command: Callable[[int], list[str]] | None) -> None:
        self.rank = rank
        self._command = command
        self._environment = dict(os.environ)
        self._cwd = str(Path.cwd())
        self._started: list[subprocess.Popen[bytes]] = []
        self._counts: Counter[str] = Counter()
        self._kept: dict[str, bytes] = {}
        self._own = FOLDER not in os.environ
        self._folder = None if self._own else Path(os.environ[FOLDER])
        if not self._own:
            end_with_parent()

    def send(self, kind: str, to: int | str, content: Any) -> None:
        """Leave a message for a rank, or for all of a group."""
        name, data = self._next(kind, self.rank, to), pickle.dumps(content)
        if self._folder is None:
            self._kept[name] = data
        else:
            put_atomically(self._folder / name, data)

    def receive(self, kind: str, source: int, to: int | str | None = None) -> Any:
        """Return the next message from a rank; raise InputProblems where it sends none."""
        name = self._next(kind, source, self.rank if to is None else to)
        folder = self._begin()
        self._start(folder, source)
        path, end_s = folder / name, time.monotonic() + WAIT_S
        while not path.exists():
            over = _is_over(folder, source)
            if over and not path.exists():
                raise _silent(source, f"ended before it sent what rank {self.rank} waits for", folder)
            if time.monotonic() > end_s:
                raise _silent(source, f"sent nothing for {WAIT_S:g} s, and rank {self.rank} waits for it", folder)
            time.sleep(LOOK_S)
        return pickle.loads(path.read_bytes())  # noqa: S301  (from a process that this one or its like has started)

    def stay(self) -> None:
        """Where another rank began this one, wait for its end: others may still read what ranks from here on send."""
        if not self._own and self._folder is not None:
            (self._folder / f"over-{self.rank}").touch()
            while self._folder.exists():
                time.sleep(LOOK_S)

    def close(self) -> None:
        """End the ranks that were started for their messages, and forget these."""
        for process in self._started:
            process.kill()
            process.wait()
        if self._own and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _next(self, kind: str, source: int, to: int | str) -> str:
        pair = f"{kind}-{source}-{to}"
        self._counts[pair] += 1
        return f"{pair}-{self._counts[pair]}"

    def _begin(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="headroom-trace-"))
            (self._folder / f"rank-{self.rank}").write_text(str(os.getpid()))
            for name, data in self._kept.items():
                put_atomically(self._folder / name, data)
            self._kept.clear()
        return self._folder

    def _start(self, folder: Path, rank: int) -> None:
        """Trace a rank, unless somebody has begun to."""
        try:
            (folder / f"rank-{rank}").touch(exist_ok=False)
        except FileExistsError:
            return
        if self._command is None:
            raise _silent(rank, f"is not traced, and rank {self.rank} waits for it", folder)
        paths = os.pathsep.join(filter(None, (str(ROOT), self._environment.get("PYTHONPATH"))))
        with (folder / f"log-{rank}").open("wb") as log:
            process = subprocess.Popen(
                self._command(rank), cwd=self._cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**self._environment, FOLDER: str(folder), "PYTHONPATH": paths},
            )  # fmt: skip
        self._started.append(process)
        put_atomically(folder / f"rank-{rank}", str(process.pid).encode())


def _is_over(folder: Path, rank: int) -> bool:
    """Whether a rank has run to its end, or its process has ended; a zombie has, too."""
    if (folder / f"over-{rank}").exists():
        return True
    said = (folder / f"rank-{rank}").read_text()
    if not said:  # about to be started
        return False
    try:
        return Path(f"/proc/{said}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return sys.platform == "linux"


def _silent(rank: int, message: str, folder: Path) -> InputProblems:
    log = folder / f"log-{rank}"
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    said = f"; its last words: {lines[-1][:300]}" if lines else ""
    remedy = f"Trace that rank by itself (--rank {rank}) to see why."
    return InputProblems([Problem(field=f"rank {rank}", message=f"{message}{said}", remedy=remedy)])
