"""Kernels whose work was counted: what their launches add up to, and what of a file is left out."""

from __future__ import annotations

from app.importers.counted import CountedLaunches, counted_kernels, kernel_row
from tests.app.importers.reading import codes, one, read

COUNTERS = ("TCC_EA0_RDREQ_sum", "TCC_EA0_RDREQ_32B_sum", "TCC_EA0_WRREQ_sum", "TCC_EA0_WRREQ_64B_sum")


def launches(seconds, flops, bytes, count=1):
    return CountedLaunches(seconds=seconds, flops=flops, bytes=bytes, count=count)


def test_flops_and_bytes_are_known_where_all_launches_have_them():
    some = [launches(1.0, 6.0, None), launches(3.0, 2.0, 4.0, count=3)]
    short, long = launches(0.5, 1.0, 8.0), launches(9.0, None, None)
    kernels = counted_kernels({"gemm": some, "hipLaunchKernel": [short], "long": [long]})
    assert [one.name for one in kernels] == ["long", "gemm", "hipLaunchKernel"]
    assert (kernels[1].count, kernels[1].total_s, kernels[1].flops, kernels[1].bytes) == (4, 4.0, 8.0, None)
    assert kernels[2].category == "other"  # it ran on the device, whatever its name recalls
    assert kernel_row(kernels[2]) == {
        "name": "hipLaunchKernel", "category": "other", "calls": 1, "total_s": 0.5, "mean_s": 0.5, "flops": 1.0,
        "flops_per_s": 2.0, "bytes": 8.0, "bytes_per_s": 16.0,
    }  # fmt: skip


def test_rows_of_counters_are_left_out_where_their_launch_has_no_time(tmp_path):
    lines = ['"Dispatch_Id","Kernel_Name","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"']
    for at, end in ((1, 200), (2, 100)):  # the second ends as it begins
        lines += [f'{at},"gemm","{counter}",10,100,{end}' for counter in COUNTERS]
    found = read(tmp_path, "\n".join(lines) + "\n")
    assert found.skipped == len(COUNTERS)
    assert [(kernel.count, kernel.bytes) for kernel in one(found).kernels] == [(1, 960.0)]
    assert codes(one(found)) == {"counters-serialise"}
