"""Benchmarks on several processes over gloo, one result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from estimator.scenario.measurement import Measurement
from runners.job import read_measurement
from tests.runners.examples import ROOT


def measure(folder: Path, processes: int, *arguments: str, steps: int = 2) -> Measurement:
    """Run ``python -m runners`` on so many ranks on CPUs and read what rank 0 wrote."""
    out = folder / "result.json"
    command = [sys.executable, "-m", "tests.runners.forked_ranks", str(processes), *arguments, "--device", "cpu"]
    command += ["--warmup", "1", "--steps", str(steps), "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return read_measurement(out)
