"""``headroom serve`` as its own process, for tests that kill it, starve it or talk to it over a socket."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2

from tests.app.examples import HEADROOM, ROOT


@contextlib.contextmanager
def serving(
    data: Path, *, wrap=lambda *command: list(command), **environment: str
) -> Iterator[tuple[subprocess.Popen[str], httpx2.Client]]:
    """Serve a data folder; gives (process, client). ``wrap`` puts another command before it.

    Whatever is done to the server, it must not have failed where it did not expect to.
    """
    command = wrap(*HEADROOM, "serve", "--port", "0", "--data", str(data))
    given = {**os.environ, "HEADROOM_PROBE_CPU": "false", "PYTHONPATH": str(ROOT), **environment}
    process = subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        line = process.stdout.readline()
        assert line.startswith("Headroom listens on http://127.0.0.1:"), line + process.stderr.read()
        with httpx2.Client(base_url=line.split()[-1], timeout=120) as client:
            yield process, client
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
    assert "Traceback" not in errors, errors
