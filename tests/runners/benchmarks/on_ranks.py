"""Benchmarks on several processes over gloo, one result."""

from __future__ import annotations

from pathlib import Path

from estimator.scenario.measurement import Measurement
from runners.job import read_measurement
from tests.forks import run_ranks
from tests.runners.examples import ROOT


def measure(folder: Path, processes: int, *arguments: str, steps: int = 2) -> Measurement:
    """Run ``python -m runners`` on so many ranks on CPUs and read what rank 0 wrote."""
    out = folder / "result.json"
    sizes = ("--device", "cpu", "--warmup", "1", "--steps", str(steps), "--out", str(out))
    done = run_ranks(processes, *arguments, *sizes, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return read_measurement(out)
