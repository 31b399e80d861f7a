"""Tracing: a program run on fake devices in a process of its own, as it takes torch's devices over for good.

``python -m app.tracing FLAGS`` is ``python -m runners trace FLAGS`` under the limits of a server: on memory, processor
time and what it writes; it ends when whoever started it is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import fields
from pathlib import Path

from app.errors import Refused
from estimator.scenario.problems import InputProblems, Problem
from runners.options import ProgramOptions

CPU_S, WALL_S = 300, 900.0
MEMORY_BYTES = 8 * 1024**3
"""Address space; traces of 70 billion parameters hold half a GiB, and torch maps more than it uses."""

FILE_BYTES = 256 * 1024**2
BAD_INPUT = 2
_SAID_BYTES = 8 * 1024
"""Of a trace's last words, which is more than a line."""
_REMEDY = "Run `headroom trace --hf CONFIG.json` on it to see where."


class Turns:
    """One trace at a time, in the order in which they came; ``ticket``: by what one that waits asks after itself."""

    def __init__(self) -> None:
        self._slot = asyncio.Lock()
        self._line: dict[object, str] = {}

    @contextlib.asynccontextmanager
    async def turn(self, ticket: str = "") -> AsyncIterator[None]:
        """Wait for the slot and hold it; who leaves before has not waited."""
        entry = object()
        self._line[entry] = ticket
        try:
            async with self._slot:
                yield
        finally:
            del self._line[entry]

    def before(self, ticket: str) -> int | None:
        """How many come before one of that ticket: 0 while it is traced, None where none is in the line."""
        return next((at for at, one in enumerate(self._line.values()) if one == ticket), None)


def trace_command(flags: Sequence[str], out: Path, quiet: bool = False) -> list[str]:
    """Return the command that traces a program and writes its op list; ``quiet``: without saying where."""
    return [sys.executable, "-m", "runners", "trace", *flags, "--out", str(out), *(["--quiet"] if quiet else [])]


def limited_command(flags: Sequence[str], out: Path) -> list[str]:
    """Return the same under the limits of a server."""
    return [sys.executable, "-m", "app.tracing", *flags, "--out", str(out)]


def flags_of(options: ProgramOptions) -> list[str]:
    """How a model that comes without a loop is trained, as flags of the command."""
    found: list[str] = []
    for field in fields(options):
        value, flag = getattr(options, field.name), f"--{field.name}"
        found += ([flag] if value else []) if isinstance(value, bool) else [flag, str(value)]
    return found


def failure(said: str, status: int | None, name: str) -> InputProblems:
    """What a trace that ended with ``status``, None at its time limit, said last of the config in a file called so."""
    lines = [line for line in said.splitlines() if line.strip()]
    if status is None or status < 0:
        message = "cannot be traced: it took more time or memory than a trace may, and was stopped"
        return InputProblems([Problem(field="config", message=message, remedy=_REMEDY)])
    words = lines[-1] if lines else f"ended with status {status}"
    words = words.removeprefix("trace: ").removeprefix(f"{name}: ").removesuffix(".")
    return InputProblems([Problem(field="config", message=f"cannot be traced: {words}", remedy=_REMEDY)])


async def trace_config(config: Path, flags: Sequence[str], out: Path, wall_s: float = WALL_S) -> None:
    """Trace the model of a config.json under limits; raise InputProblems where that fails, and stop when cancelled."""
    process = await asyncio.create_subprocess_exec(
        *limited_command(["--hf", str(config), *flags], out),
        env=_environment(),
        stdin=asyncio.subprocess.PIPE,  # nothing is written: its end tells the child that this process is gone
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(wall_s):
            said = b""
            while piece := await process.stderr.read(_SAID_BYTES):
                said = (said + piece)[-_SAID_BYTES:]
            status = await process.wait()
    except TimeoutError:
        raise failure("", None, config.name) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if status:
        raise failure(said.decode("utf-8", "replace"), status, config.name)


async def unless(left: asyncio.Task[None], task: asyncio.Task[None]) -> None:
    """Wait for a task, and cancel it where the client has left before; raise Refused then."""
    try:
        await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        left.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    if task.cancelled():
        raise Refused(400, "The connection closed before the trace was complete.")
    task.result()


def _environment() -> dict[str, str]:
    """What Python and torch need; nothing is fetched, and no model's own code is run."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    return {**kept, **offline, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
            "MALLOC_ARENA_MAX": "1"}  # fmt: skip


def main() -> int:
    """Limit this process, then trace."""
    from app.importers.__main__ import end_with_parent, restrict
    from app.importers.imported import Limits
    from runners.__main__ import main as run

    end_with_parent()
    restrict(Limits(cpu_s=CPU_S, memory_bytes=MEMORY_BYTES), FILE_BYTES)
    return run(["trace", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
