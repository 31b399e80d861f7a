"""A Python that has imported what tests start again and again: ``python()`` is a path to give for sys.executable.

It takes the place of an interpreter in tests of what a process does, not of how it starts: a program at that path hands
its arguments, environment, limits and open files to a server of tests/warm/server.py, which forks. The program waits,
passes signals on and ends as the fork did; one that is killed takes the fork with it. What is not known there it
becomes itself, by exec. Processes are found by the program's environment and id, as a user's are.
"""

from __future__ import annotations

import functools
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
COLD = sys.executable
"""The interpreter itself, for tests that change ``sys.executable``."""

_servers: list[subprocess.Popen[bytes]] = []


@functools.cache
def python() -> str:
    """Start the servers, which import what they hold when they are first asked, and return the program's path."""
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    client = Path(__file__).with_name("client.py")
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec "{COLD}" -I -S "{client}" "{folder}" "$@"\n', encoding="utf-8")
    (folder / "mounts").write_text(os.readlink("/proc/self/ns/mnt"), encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    for held in ("runners", "app", "importers"):
        command = [COLD, "-m", "tests.warm.server", str(folder / held), held, str(program)]
        # its end of the pipe closes with this process, and ends the server
        server = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert server.stdout is not None
        assert server.stdout.readline() == b"listens\n"
        _servers.append(server)
    return str(program)


def end() -> None:
    """End the servers and with them what they forked."""
    for server in _servers:
        server.communicate(timeout=60)
    if _servers:
        shutil.rmtree(Path(python()).parent)
    _servers.clear()
