"""A trace of documented fields, whose every sum is known."""

from __future__ import annotations

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


def test_the_step_over_time_is_where_the_trace_has_it(tmp_path, document):
    at = 1000.5 + made.STEP_US  # the second of three steps is the typical one
    document["traceEvents"] += [
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": at + 1000 * index, "pid": 1, "tid": 1,
         "args": {"Device Type": 1, "Total Allocated": held, "Total Reserved": 4e9, "Bytes": 1}}
        for index, held in enumerate((10**9, 3 * 10**9, 2 * 10**9))
    ]  # fmt: skip
    found = one(read(tmp_path, document)).timeline
    assert found.total_s == pytest.approx(0.01)
    assert found.lanes == ("host", "compute", "communication")
    drawn = [
        (found.lanes[lane], kind, phase, start, end)
        for lane, kind, phase, start, end in zip(
            found.lane, found.kind, found.phase, found.start_s, found.end_s, strict=True
        )
    ]
    assert ("compute", "matmul", "forward", pytest.approx(100e-6), pytest.approx(1100.25e-6)) in drawn
    assert ("compute", "attention", "forward", pytest.approx(1200e-6), pytest.approx(1700e-6)) in drawn
    assert ("communication", "communication", "backward", pytest.approx(4500e-6), pytest.approx(6000e-6)) in drawn
    assert found.memory == (
        (pytest.approx(0.0), 1e9), (pytest.approx(1e-3), 3e9), (pytest.approx(2e-3), 2e9),
    )  # fmt: skip


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


def test_kernels_whose_long_names_differ_in_the_end_alone_are_two(tmp_path, document):
    """Generated products of ROCm have 700 letters; as one they lost the FLOPs of both, if those of one are unknown."""
    for event in document["traceEvents"]:
        if event["name"].startswith("ampere_"):
            event["name"] = f"Cijk_Alik_Bljk_{'A' * 700}{event['name']}"
    products = [kernel for kernel in one(read(tmp_path, document)).kernels if kernel.category == "matmul"]
    assert len({kernel.name for kernel in products}) == 2
    assert {kernel.flops for kernel in products} == {2.0 * 64 * 256 * 512, 2.0 * 256 * 64 * 512}
    assert all(len(kernel.name) == 300 for kernel in products)


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


def test_figures_that_the_compiler_wrote_into_the_trace(tmp_path, document):
    made.kernels(document)[0]["args"] |= {"kernel_flop": 1e9, "kernel_num_gb": 0.5}
    for event in document["traceEvents"]:
        if event["name"].startswith("ProfilerStep") and not event["name"].endswith("#5"):
            event["dur"] = 0.0
    kernels = one(read(tmp_path, document)).kernels
    assert any(kernel.flops == 1e9 and kernel.bytes == 5e8 for kernel in kernels)
