"""The chip ``cpu`` of commands: measured on demand, once."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.app.examples import HEADROOM, scenario

pytestmark = pytest.mark.usefixtures("warm_python")


def test_estimate_measures_this_cpu_on_demand_and_once(write, capsys, monkeypatch):
    monkeypatch.setenv("HEADROOM_PROBE_SECONDS", "0.3")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # two wait for each other busily where others compute too
    path = write(scenario(cluster__chip="cpu"))
    command = [*HEADROOM, "estimate", path, "--json"]
    first, second = (subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(2))
    assert "Measuring this CPU" in first.stderr
    assert "Measuring this CPU" not in second.stderr
    assert json.loads(first.stdout) == json.loads(second.stdout)
