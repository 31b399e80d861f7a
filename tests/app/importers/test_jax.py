"""Recordings and traces of JAX and of XLA."""

from __future__ import annotations

import gzip
import itertools
import json

import pytest

from tests.app.importers.reading import REFERENCE, one, read, refusal


def test_a_recording_of_jax_is_the_same_before_and_after_its_conversion(tmp_path):
    before, after = (
        one(read(tmp_path, REFERENCE.joinpath("tools", name).read_bytes()))
        for name in ("jax.xplane.pb.gz", "jax_steps.trace.json.gz")
    )
    assert before.steps_s == pytest.approx(after.steps_s, rel=1e-9)
    assert len(before.steps_s) == 2
    found, wanted = ([(one.name, one.category, one.count) for one in some.kernels] for some in (before, after))
    assert found == wanted
    assert [one.total_s for one in before.kernels] == pytest.approx([one.total_s for one in after.kernels], rel=1e-9)
    assert "matmul" in {one.category for one in before.kernels}
    cut = gzip.decompress(REFERENCE.joinpath("tools", "jax.xplane.pb.gz").read_bytes())[:-7]
    assert "cut off" in refusal(tmp_path, cut).message


def test_a_trace_of_jax(tmp_path):
    content = REFERENCE.joinpath("tools", "jax.trace.json.gz").read_bytes()
    found = one(read(tmp_path, content))
    events = [event for event in json.loads(gzip.decompress(content))["traceEvents"] if event.get("ph") == "X"]
    marks = sorted(event["ts"] for event in events if event["name"] == "train")
    assert found.steps_s == pytest.approx([(after - before) * 1e-6 for before, after in itertools.pairwise(marks)])
    typical = min(range(2), key=lambda at: marks[at + 1] - marks[at])
    dots = [
        event["dur"] for event in events
        if event["name"] in ("dot", "dot.1") and marks[typical] <= event["ts"] < marks[typical + 1]
    ]  # fmt: skip
    named = {kernel.name: kernel for kernel in found.kernels}
    assert named["dot"].total_s + named["dot.1"].total_s == pytest.approx(sum(dots) * 1e-6)
    assert (named["dot"].category, named["multiply_add_fusion"].category) == ("matmul", "elementwise")


def device_trace(process, thread):
    def event(name, tid, ts, dur, **args):
        return {"ph": "X", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}

    return {"displayTimeUnit": "ns", "traceEvents": [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": process}},
        {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "Steps"}},
        {"ph": "M", "pid": 1, "tid": 3, "name": "thread_name", "args": {"name": thread}},
        event("1", 2, 0, 100), event("2", 2, 100, 110),
        event("fusion.3", 3, 5, 40, hlo_category="convolution fusion", model_flops="2000", bytes_accessed="50"),
        event("all-reduce.1", 3, 50, 20, hlo_category="all-reduce"), event("fusion.3", 3, 105, 44),
    ]}  # fmt: skip


@pytest.mark.parametrize(
    ("process", "thread"), [("/device:TPU:0", "XLA Ops"), ("/device:GPU:0", "Stream #14(Compute)")]
)
def test_a_trace_of_xla_on_a_device(tmp_path, process, thread):
    found = one(read(tmp_path, device_trace(process, thread)))
    assert found.steps_s == pytest.approx((100e-6, 110e-6))
    (shown,) = [one.message for one in found.warnings if one.code == "step-shown"]
    assert shown == "Its kernels are those of step 1 of 2, 100 µs: the median"
    assert [(one.name, one.category, one.count, one.flops, one.bytes) for one in found.kernels] == [
        ("fusion.3", "matmul", 1, 2000.0, 50.0), ("all-reduce.1", "communication", 1, None, None),
    ]  # fmt: skip


def test_of_disturbed_steps_the_one_whose_time_is_told_is_shown(tmp_path):
    trace = device_trace("/device:TPU:0", "XLA Ops")
    for event in trace["traceEvents"]:
        if event.get("name") == "1":
            event["dur"] = 1000
        if event.get("ts", 0) >= 100:
            event["ts"] += 900
    found = one(read(tmp_path, trace))
    assert found.steps_s == pytest.approx((1000e-6, 110e-6))
    assert [(kernel.name, kernel.total_s) for kernel in found.kernels] == [("fusion.3", pytest.approx(44e-6))]
    (shown,) = [one.message for one in found.warnings if one.code == "step-shown"]
    assert shown == "Its kernels are those of step 2 of 2, 110 µs: the fastest, as something disturbed the others"


def test_a_device_that_only_copied_is_not_the_one_that_is_shown(tmp_path):
    events = []
    for pid, name, line, ran in (
        (1, "/device:GPU:0", "Stream #7(MemcpyOther)", "CopyDeviceToDevice"),
        (2, "/device:GPU:1", "Stream #1(Kernel)", "gemm_fusion_dot"),
        (3, "/device:GPU:2", "Stream #1(Kernel)", "loop_add_fusion"),
    ):
        events += [
            {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}},
            {"ph": "M", "pid": pid, "tid": 1, "name": "thread_name", "args": {"name": line}},
            {"ph": "X", "pid": pid, "tid": 1, "name": ran, "ts": 5, "dur": 10 * pid, "args": {}},
        ]
    found = one(read(tmp_path, {"displayTimeUnit": "ns", "traceEvents": events}))
    assert [(kernel.name, kernel.total_s) for kernel in found.kernels] == [("gemm_fusion_dot", pytest.approx(20e-6))]
    assert found.world_size == 3
    said = next(warning.message for warning in found.warnings if warning.code == "first-device")
    assert said == "Of 3 devices only the first that did more than copy was read (/device:GPU:1)"
    copied = one(read(tmp_path, {"traceEvents": events[:3]}))
    assert [kernel.name for kernel in copied.kernels] == ["CopyDeviceToDevice"]
