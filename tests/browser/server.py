"""A real server of the project as its own process, for the browser tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path

from tests import warm
from tests.app.examples import ONE_THREAD, knows_cpu

ROOT = Path(__file__).parent.parent.parent


class Server:
    """``headroom serve`` on a free (or a given) port with the code of ``root``, where this CPU was measured before.

    It lets everybody in, whoever else uses this machine, unless ``environment`` says otherwise.
    """

    def __init__(
        self,
        data: Path,
        port: int = 0,
        environment: dict[str, str] | None = None,
        root: Path = ROOT,
    ) -> None:
        self.data = data
        knows_cpu(data)
        chosen = {"HEADROOM_NO_TOKEN": "true"} if environment is None else environment
        small = {"HEADROOM_PLACEMENT": ONE_THREAD, "PYTHONPATH": str(root)}
        outside = {name: value for name, value in os.environ.items() if not name.startswith("HEADROOM_")}
        command = ["from app.cli import main; main()", "serve", "--port", str(port), "--data", str(data)]
        self.process = subprocess.Popen(
            [warm.python(), "-c", *command],
            cwd=root,
            env=outside | small | chosen,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        self.said: list[str] = []
        while not self.said or "listens on " not in self.said[-1]:
            self.said.append(self.process.stdout.readline())
            assert self.said[-1], f"the server did not start: {''.join(self.said)}"
        self.opening = self.said[-1].rsplit("listens on ", 1)[1].strip()
        self.url = self.opening.partition("/?")[0]
        self.port = int(self.url.rsplit(":", 1)[1])

    def get(self, path: str) -> dict:
        """Read a JSON document."""
        with urllib.request.urlopen(self.url + path, timeout=120) as answer:
            return json.load(answer)

    def stop(self) -> None:
        """End it as Ctrl+C does; one that has ended by itself must not have crashed."""
        assert self.process.poll() not in (-signal.SIGSEGV, -signal.SIGABRT), "the server has crashed"
        self.process.terminate()
        self.process.wait(timeout=120)
        assert self.process.stdout is not None
        self.process.stdout.close()
