"""A trace of documented fields, whose every sum is known."""

from __future__ import annotations

import copy
import json

import pytest

from tests.app.importers.kineto import made
from tests.app.importers.reading import codes, gz, one, read


@pytest.fixture
def document():
    return made.trace()


def test_phases_and_breakdown_add_up_to_the_step(tmp_path, document):
    measurement = one(read(tmp_path, document))
    assert measurement.steps_s == (pytest.approx(0.01),) * 3
    assert measurement.phases_s == {
        "forward": pytest.approx(1500.25e-6),
        "backward": pytest.approx(2000e-6),
        "optimizer": pytest.approx(300e-6),
        "exposed_communication": pytest.approx(1000e-6),
        "bubble": 0.0,
        "host_wait": pytest.approx((10_000 - 4800.25) * 1e-6),
    }
    assert measurement.breakdown_s == {
        "matmul": pytest.approx(3000.25e-6),
        "attention": pytest.approx(500e-6),
        "elementwise": 0.0,
        "communication": pytest.approx(1000e-6),
        "optimizer": pytest.approx(300e-6),
        "bubble": 0.0,
        "host": pytest.approx((10_000 - 4800.25) * 1e-6),
        "other": 0.0,
    }
    assert sum(measurement.phases_s.values()) == pytest.approx(measurement.steps_s[1])
    assert sum(measurement.breakdown_s.values()) == pytest.approx(measurement.steps_s[1])


def test_kernels_carry_the_arithmetic_of_the_op_that_launched_them(tmp_path, document):
    measured = one(read(tmp_path, document)).kernels
    kernels = {kernel.name[:26]: kernel for kernel in measured}
    assert len(measured) == 5
    products = [kernel for kernel in measured if kernel.category == "matmul"]
    assert [kernel.count for kernel in products] == [1, 1]
    assert {kernel.flops for kernel in products} == {2.0 * 64 * 256 * 512, 2.0 * 256 * 64 * 512}
    assert products[0].bytes == 2.0 * (256 * 64 + 64 * 512 + 256 * 512)
    attention = kernels["flash_fwd_kernel<Flash_fwd"]
    assert attention.flops == 4.0 * 2 * 8 * 128 * 128 * 64
    assert attention.bytes == 2.0 * 4 * 2 * 128 * 8 * 64
    assert kernels["void at::native::vectorize"].category == "optimizer"
    assert kernels["ncclDevKernel_AllReduce_Su"].flops is None


def test_collectives(tmp_path, document):
    (collective,) = one(read(tmp_path, document)).collectives
    assert (collective.kind, collective.bytes, collective.ranks) == ("all-reduce", 2000.0, 4)
    assert collective.seconds == pytest.approx(1500e-6)
    assert collective.bus_bytes_per_s == pytest.approx(2000 / 1500e-6 * 1.5)


def test_device_ranks_and_nothing_private(tmp_path, document):
    imported = read(tmp_path, document, "rank7_trace.json")
    measurement = one(imported)
    assert measurement.device == {
        "name": "NVIDIA H100 80GB HBM3",
        "count": 1,
        "memory_bytes": 85_000_000_000,
        "multiprocessors": 132,
        "compute_capability": "9.0",
    }
    assert (measurement.world_size, measurement.rank) == (4, 1)
    assert measurement.environment["process_group_sizes"] == [4]
    assert "secret" not in str(imported)
    assert measurement.label == "rank7_trace"
    assert codes(imported) == {"collective-includes-wait"}


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


def test_metadata_after_the_events(tmp_path, document):
    events = document.pop("traceEvents")
    moved = {"traceEvents": events, **document}
    assert one(read(tmp_path, moved)).world_size == 4
    assert one(read(tmp_path, gz(json.dumps(moved, indent=2)))).device["name"] == "NVIDIA H100 80GB HBM3"


def test_a_bare_list_of_events(tmp_path, document):
    imported = read(tmp_path, document["traceEvents"], "run/rank3.json")
    measurement = one(imported)
    assert len(measurement.kernels) == 5
    assert (measurement.world_size, measurement.rank) == (4, 3)
    assert "rank-from-name" in codes(imported)


def test_a_rank_that_nobody_names(tmp_path, document):
    del document["distributedInfo"]
    assert "rank-missing" in codes(read(tmp_path, document))


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


def test_steps_that_the_profiler_cut_are_left_out(tmp_path):
    document = made.trace(steps=4)
    last = max(event["ts"] for event in document["traceEvents"] if event["name"].startswith("ProfilerStep"))
    document["traceEvents"] = [event for event in document["traceEvents"] if event["ts"] < last + 2000]
    imported = read(tmp_path, document)
    assert len(one(imported).steps_s) == 3
    assert "step-cut" in codes(imported)
    assert one(imported).environment["step"] in ("ProfilerStep#5", "ProfilerStep#6", "ProfilerStep#7")


def test_one_step_and_none(tmp_path):
    assert "single-step" in codes(read(tmp_path, made.trace(steps=1)))
    document = made.trace(steps=1)
    document["traceEvents"] = [event for event in document["traceEvents"] if "ProfilerStep" not in event["name"]]
    imported = read(tmp_path, document)
    assert "no-step-marks" in codes(imported)
    assert one(imported).steps_s == (pytest.approx((6500 - 50) * 1e-6),)


def test_a_slow_first_step_is_said_and_not_taken(tmp_path):
    document = made.trace(steps=3)
    for event in document["traceEvents"]:
        if event["ts"] > 1000.5 + made.STEP_US - 1:
            event["ts"] += 5000
        if event["name"] == "ProfilerStep#5":
            event["dur"] += 5000
    imported = read(tmp_path, document)
    assert "first-step-slow" in codes(imported)
    assert one(imported).steps_s[0] == pytest.approx(0.015)
    assert one(imported).environment["step"] != "ProfilerStep#5"


def test_a_device_that_lags_behind_the_host_shifts_the_windows(tmp_path):
    document = made.trace(steps=3)
    for event in document["traceEvents"]:
        if event.get("cat") == "kernel":
            event["ts"] += 9000
    steps_s = one(read(tmp_path, document)).steps_s
    assert steps_s == (pytest.approx(15.5e-3), pytest.approx(10e-3), pytest.approx(10e-3))


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


def test_figures_that_the_compiler_wrote_into_the_trace(tmp_path, document):
    made.kernels(document)[0]["args"] |= {"kernel_flop": 1e9, "kernel_num_gb": 0.5}
    for event in document["traceEvents"]:
        if event["name"].startswith("ProfilerStep") and not event["name"].endswith("#5"):
            event["dur"] = 0.0
    kernels = one(read(tmp_path, document)).kernels
    assert any(kernel.flops == 1e9 and kernel.bytes == 5e8 for kernel in kernels)


def test_graph_replays_have_no_ops(tmp_path, document):
    for event in document["traceEvents"]:
        if event.get("cat", "").startswith("cuda_"):
            event["name"] = "cudaGraphLaunch"
    assert "cuda-graphs" in codes(read(tmp_path, document))


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


def test_memory_of_the_device(tmp_path, document):
    document["traceEvents"] += [
        {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5.0,
         "args": {"Bytes": 1, "Total Allocated": allocated, "Total Reserved": 900, "Device Type": kind, "Device Id": 0}}
        for allocated, kind in ((500, 1), (700, 1), (600, 1), (9999, 0))
    ]  # fmt: skip
    memory = one(read(tmp_path, document)).memory
    assert (memory.peak_bytes, memory.reserved_bytes) == (700.0, 900.0)


def test_rare_kernels_are_summed_by_category(tmp_path, document):
    imported = read(tmp_path, document, kernels=2)
    measurement = one(imported)
    assert "kernels-merged" in codes(imported)
    others = [kernel for kernel in measurement.kernels if kernel.name == "(others)"]
    assert len(measurement.kernels) == 5
    assert {kernel.category for kernel in others} == {"matmul", "attention", "optimizer"}
    assert sum(kernel.total_s for kernel in measurement.kernels) == pytest.approx(5300.25e-6)
