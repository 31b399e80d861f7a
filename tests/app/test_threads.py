"""Threads: what the server reads for many requests at once, from the first of them on."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
from fastapi.routing import APIRoute

from app.api import ROUTERS
from tests.app.examples import scenario, write_run
from tests.browser.server import ROOT

READ = """
import sys, threading
from pathlib import Path

from app.encoding import encode_json
from app.runs.run import RUN, Run
from app.summary import SUMMARY, read_measurement, summarize
from estimator.scenario.measurement import Measurement

result = Path(sys.argv[1])
run = encode_json(Run(id="a", job={}))
summary = encode_json(summarize(Measurement(), created_s=0.0))
sys.setswitchinterval(1e-6)
done = []


def together(read):
    start = threading.Barrier(8)

    def one():
        start.wait()
        done.append(read())

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


for read in (lambda: read_measurement(result), lambda: RUN.decode(run), lambda: SUMMARY.decode(summary)):
    together(read)
print(len(done))
"""


@pytest.mark.parametrize("attempt", range(8))
def test_many_threads_read_a_kind_of_document_for_the_first_time_at_once(attempt, tmp_path):
    result = write_run(tmp_path, "r1") / "result.json"
    command = [sys.executable, "-c", READ, str(result)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout) == (0, "24\n"), done.stderr


def test_an_estimate_takes_no_thread(shared_client, monkeypatch):
    monkeypatch.setattr("anyio.to_thread.run_sync", None)
    monkeypatch.setattr("asyncio.to_thread", None)
    assert shared_client.post("/api/estimate", json=scenario()).status_code == 200


def test_what_endpoints_depend_on_takes_no_thread():
    """FastAPI calls each dependency that is no coroutine in a thread, which costs as much as a small estimate."""
    found = {
        dependency.call
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for dependency in _below(route.dependant)
    }
    assert found
    assert [call for call in found if not inspect.iscoroutinefunction(call)] == []


def _below(dependant):
    for dependency in dependant.dependencies:
        yield dependency
        yield from _below(dependency)
