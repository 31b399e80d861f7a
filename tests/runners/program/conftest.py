"""Traces of programs, each in a process of its own: tracing takes a process over for good."""

import json
from pathlib import Path

import pytest

from estimator.scenario.op_list import from_json
from tests.forks import run_forked

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def traced(tmp_path_factory):
    """Return a function from a program and its flags to its op list; the same is traced once."""
    found = {}

    def trace(program, *flags):
        key = (str(program), *flags)
        if key not in found:
            out = tmp_path_factory.mktemp("trace") / "ops.json"
            done = run_forked("trace", str(program), "--out", str(out), *flags, cwd=out.parent)
            assert done.returncode == 0, done.stderr[-4000:]
            found[key] = from_json(json.loads(out.read_text()))
        return found[key]

    return trace
