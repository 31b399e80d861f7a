"""From kernels to the ops and phases that launched them."""

from __future__ import annotations

import copy

import pytest

from tests.app.importers.kineto import made
from tests.app.importers.reading import codes, one, read


@pytest.fixture
def document():
    return made.trace()


def test_external_ids_are_enough_and_so_are_correlations(tmp_path, document):
    whole = one(read(tmp_path, document))
    without = copy.deepcopy(document)
    for event in without["traceEvents"]:
        if event.get("cat") == "kernel":
            del event["args"]["External id"]
    assert one(read(tmp_path, without)).kernels == whole.kernels
    for event in without["traceEvents"]:
        if event.get("cat") in ("cuda_runtime", "cuda_driver"):
            del event["args"]["External id"]  # now only the time of the call tells the op
    assert one(read(tmp_path, without)).kernels == whole.kernels


def test_kernels_that_lead_nowhere_are_counted(tmp_path, document):
    for event in made.kernels(document):
        event["args"] = {"stream": "seven"}
    imported = read(tmp_path, document)
    assert "unattributed-kernels" in codes(imported)
    assert one(imported).breakdown_s["matmul"] == pytest.approx(3000.25e-6)


def test_flow_arrows_never_need_partners(tmp_path, document):
    whole = one(read(tmp_path, document))
    document["traceEvents"] = [event for event in document["traceEvents"] if event["ph"] != "s"]
    document["traceEvents"] += [{"ph": "f", "id": 3, "pid": 0, "tid": 7, "ts": 5.0, "cat": "ac2g", "name": "ac2g"}] * 3
    assert one(read(tmp_path, document)).kernels == whole.kernels


def test_phase_marks_decide_where_they_exist(tmp_path, document):
    document["traceEvents"] += [made.mark("phase:backward", 1000.5 + made.STEP_US * i + 2000, 10.0) for i in range(3)]
    document["traceEvents"] += [
        made.mark("phase:optimizer", 1000.5 + made.STEP_US * i + at, length)
        for i in range(3)
        for at, length in ((0.0, 200.0),)
    ]
    phases = one(read(tmp_path, document)).phases_s
    assert phases["optimizer"] == pytest.approx(1500.25e-6)
    assert phases["forward"] == 0.0


def test_graph_replays_have_no_ops(tmp_path, document):
    for event in document["traceEvents"]:
        if event.get("cat", "").startswith("cuda_"):
            event["name"] = "cudaGraphLaunch"
    assert "cuda-graphs" in codes(read(tmp_path, document))
