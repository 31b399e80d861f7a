"""Waiting for a server's runs in tests, and a look at the processes that they leave."""

from __future__ import annotations

import json
import time
from pathlib import Path

FINAL = ("ok", "oom", "failed", "cancelled")


def events(client, run_id: str, after: int = 0) -> list[tuple[int, dict]]:
    """Follow a run's event stream to its end; give (id, event) pairs."""
    headers = {"last-event-id": str(after)} if after else {}
    found, number = [], None
    with client.stream("GET", f"/api/runs/{run_id}/events", headers=headers) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        pending = None
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                number = int(value)
            elif name == "data":
                pending = json.loads(value)
            elif line == "" and pending is not None:
                found.append((number, pending))
                pending = None
    return found


def until(condition, seconds: float = 180.0):
    """Wait until ``condition`` gives something, and return it; long, as nothing but a busy machine needs it.

    What takes long is looked at less and less often, down to five times a second: each look asks a server.
    """
    deadline_s = time.monotonic() + seconds
    pause_s = 0.05
    while time.monotonic() < deadline_s:
        found = condition()
        if found:
            return found
        time.sleep(pause_s)
        pause_s = min(1.25 * pause_s, 0.2)
    raise AssertionError(f"nothing came in {seconds} s")


def run_in(client, run_id: str, *states: str):
    """Wait until a run is in one of the states; return it."""

    def look():
        run = client.get(f"/api/runs/{run_id}").json()
        assert run["state"] in states or run["state"] not in FINAL, run
        return run if run["state"] in states else None

    return until(look)


def measuring(client, run_id: str):
    """Wait until a run's worker reports progress; return the run."""
    return until(lambda: (run := client.get(f"/api/runs/{run_id}").json())["progress"] and run)


def processes_of(folder: Path) -> list[int]:
    """List the living processes that name the job's folder in their command or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            known = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            zombie = (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue
        if str(folder).encode() in known and not zombie:
            found.append(int(entry.name))
    return found
