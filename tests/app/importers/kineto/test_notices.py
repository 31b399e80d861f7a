"""What is said about a trace, and when."""

from __future__ import annotations

import pytest

from tests.app.importers.kineto import made
from tests.app.importers.reading import codes, one, read


@pytest.fixture
def document():
    return made.trace()


def test_a_rank_that_nobody_names(tmp_path, document):
    del document["distributedInfo"]
    assert "rank-missing" in codes(read(tmp_path, document))


def test_old_schemas(tmp_path, document):
    for event in document["traceEvents"]:
        event["ts"] = int(event["ts"]) + 1_600_000_000_000_000
        if "dur" in event:
            event["dur"] = int(event["dur"])
        for name in ("Collective name", "In msg nelems", "dtype", "Group size"):
            event.get("args", {}).pop(name, None)
    del document["baseTimeNanoseconds"], document["schemaVersion"]
    imported = read(tmp_path, document)
    assert {"coarse-timestamps", "integer-timestamps", "collective-size-unknown"} <= codes(imported)
    assert one(imported).breakdown_s["communication"] == pytest.approx(1e-3)
    assert one(imported).collectives == ()


def test_options_of_the_recording_are_said(tmp_path, document):
    document |= {"with_stack": 1, "with_flops": 1}
    for event in document["traceEvents"]:
        event.get("args", {}).pop("Input Dims", None)
    imported = read(tmp_path, document)
    assert {"with-stack-overhead", "flops-not-in-file", "no-shapes"} <= codes(imported)
    assert all(kernel.flops is None for kernel in one(imported).kernels)


def test_shapes_as_pytorch_1_8_spells_them(tmp_path, document):
    newer = [kernel.flops for kernel in one(read(tmp_path, document)).kernels]
    assert any(newer)
    for event in document["traceEvents"]:
        if "Input Dims" in event.get("args", {}):
            event["args"]["Input dims"] = event["args"].pop("Input Dims")
    imported = read(tmp_path, document)
    assert "no-shapes" not in codes(imported)
    assert [kernel.flops for kernel in one(imported).kernels] == newer


def test_several_devices_in_one_process(tmp_path, document):
    made.kernels(document)[0]["pid"] = 1
    imported = read(tmp_path, document)
    assert "several-devices" in codes(imported)
    assert one(imported).device["count"] == 2


def test_launches_without_kernels(tmp_path, document):
    document["traceEvents"] = [event for event in document["traceEvents"] if event.get("cat") != "kernel"]
    imported = read(tmp_path, document)
    assert "no-device-events" in codes(imported)
    assert one(imported).device == {"name": "cpu", "count": 1}


def test_rare_kernels_are_summed_by_category(tmp_path, document):
    imported = read(tmp_path, document, kernels=2)
    measurement = one(imported)
    assert "kernels-merged" in codes(imported)
    others = [kernel for kernel in measurement.kernels if kernel.name == "(others)"]
    assert len(measurement.kernels) == 5
    assert {kernel.category for kernel in others} == {"matmul", "attention", "optimizer"}
    assert sum(kernel.total_s for kernel in measurement.kernels) == pytest.approx(5300.25e-6)
