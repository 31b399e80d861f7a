"""Bounds on a GPU: compiled rows end with their compile workers, and a kernel that does not end keeps nobody."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from runners.backends.processes import carrying
from runners.job import read_measurement
from tests.runners.examples import ROOT

pytestmark = pytest.mark.gpu

GRID = (
    "step",
    "--models",
    "tiny",
    "--seq-lens",
    "64,128",
    "--precisions",
    "bf16-amp",
    "--steps",
    "2",
    "--device",
    "cuda",
)


def run(out, module: str, *arguments: str, **environment: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """Run a grid as a person does, until nobody holds its output any more; give its seconds too."""
    command = (sys.executable, "-m", module, *GRID, "--out", str(out), *arguments)
    begin_s = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=280, check=False
    )
    return done, time.monotonic() - begin_s


def test_a_grid_of_compiled_steps_ends_and_leaves_no_worker(tmp_path):
    out = tmp_path / "r.json"
    done, _ = run(out, "runners", "--compiles", "no,yes", HEADROOM_TEST=str(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = read_measurement(out).rows
    assert [(row["compile"], row["status"]) for row in rows] == [(False, "ok")] * 2 + [(True, "ok")] * 2
    assert carrying(f"HEADROOM_TEST={tmp_path}") == []


def test_a_kernel_that_does_not_end_is_left_at_the_limit_of_its_row(tmp_path):
    out = tmp_path / "r.json"
    done, seconds = run(
        out, "tests.runners.stuck", "--row-limit-s", "10", STUCK="1,0,deaf,kernel", HEADROOM_TEST=str(tmp_path)
    )
    assert done.returncode == -9, done.stderr
    assert [row["status"] for row in read_measurement(out).rows] == ["ok", "timed_out"]
    assert carrying(f"HEADROOM_TEST={tmp_path}") == []
    print(f"ended {seconds:.0f} s after its start")
