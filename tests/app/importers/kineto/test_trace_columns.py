"""What is kept of events."""

from __future__ import annotations

import pytest

from tests.app.importers.kineto import made
from tests.app.importers.reading import one, read


@pytest.fixture
def document():
    return made.trace()


def test_odd_processes_and_threads(tmp_path, document):
    document["traceEvents"] += [
        {
            "ph": "X",
            "cat": "Trace",
            "name": "PyTorch Profiler (0)",
            "pid": "Spans",
            "tid": "PyTorch Profiler",
            "ts": 1,
            "dur": 2,
        },
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1.0},
        {"ph": "X", "cat": "cpu_op", "name": "aten::view", "pid": 1, "tid": -5, "ts": 1.0, "dur": 1.0, "args": None},
    ]
    assert len(one(read(tmp_path, document)).kernels) == 5


def test_memory_of_the_device(tmp_path, document):
    document["traceEvents"] += [
        {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5.0,
         "args": {"Bytes": 1, "Total Allocated": allocated, "Total Reserved": 900, "Device Type": kind, "Device Id": 0}}
        for allocated, kind in ((500, 1), (700, 1), (600, 1), (9999, 0))
    ]  # fmt: skip
    memory = one(read(tmp_path, document)).memory
    assert (memory.peak_bytes, memory.reserved_bytes) == (700.0, 900.0)
