"""Threads: what the server reads for many requests at once, from the first of them on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.app.examples import write_run
from tests.browser.server import ROOT

READ = """
import sys, threading
from pathlib import Path

from app.encoding import encode_json
from app.runs.run import RUN, Run
from app.summary import SUMMARY, read_measurement, summarize
from estimator.measurement import Measurement

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
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "24\n"), done.stderr
