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


def test_what_pytorch_1_8_called_things(tmp_path, document):
    old = {"cpu_op": "Operator", "kernel": "Kernel", "cuda_runtime": "Runtime", "cuda_driver": "Runtime",
           "gpu_memcpy": "Memcpy", "user_annotation": "Operator"}  # fmt: skip
    new = one(read(tmp_path, made.trace()))
    for event in document["traceEvents"]:
        event["cat"] = old.get(event.get("cat"), "")
        if event["cat"] in ("Kernel", "Runtime") and "External id" in event["args"]:
            event["args"]["external id"] = event["args"].pop("External id")
    document["computeProperties"] = document.pop("deviceProperties")
    found = one(read(tmp_path, document))
    assert found.kernels == new.kernels
    assert (found.steps_s, found.breakdown_s, found.device) == (new.steps_s, new.breakdown_s, new.device)


def test_work_of_mtia_is_no_cpu_s(tmp_path):
    def event(category, name, ts, dur):
        return {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": 801, "ts": ts, "dur": dur, "args": {}}

    events = [
        event("cpu_op", "aten::mul", 5.0, 1.0),
        event("mtia_runtime", "runFunction", 6.0, 1.0),
        event("mtia_ccp_events", "event_wait", 7.0, 900.0),
        event("mtia_ccp_events", "aten::mul.out-dtype_Float", 10.0, 4.0),
    ]
    found = one(read(tmp_path, {"schemaVersion": 1, "traceEvents": events}))
    assert found.device["name"] == "Meta MTIA"
    assert [(kernel.name, kernel.total_s) for kernel in found.kernels] == [
        ("aten::mul.out-dtype_Float", pytest.approx(4e-6))
    ]


def test_numbers_beyond_all_sense_cost_one_event_each(tmp_path, document):
    whole = one(read(tmp_path, made.trace()))
    op = next(event for event in made.trace()["traceEvents"] if event.get("cat") == "cpu_op")
    document["traceEvents"] += [
        op | {"ts": 2e18}, op | {"dur": 1e300}, op | {"args": {"External id": 2**70}}, op | {"ts": int("9" * 400)},
    ]  # fmt: skip
    imported = read(tmp_path, document)
    assert one(imported).kernels == whole.kernels
    assert imported.skipped >= 3


def test_memory_of_the_device(tmp_path, document):
    document["traceEvents"] += [
        {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5.0,
         "args": {"Bytes": 1, "Total Allocated": allocated, "Total Reserved": 900, "Device Type": kind, "Device Id": 0}}
        for allocated, kind in ((500, 1), (700, 1), (600, 1), (9999, 0))
    ]  # fmt: skip
    memory = one(read(tmp_path, document)).memory
    assert (memory.peak_bytes, memory.reserved_bytes) == (700.0, 900.0)
