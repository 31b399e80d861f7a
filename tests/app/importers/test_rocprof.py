"""Results of AMD's profiler: sums, launches and counters of rocprof."""

from __future__ import annotations

import pytest

from tests.app.importers.reading import codes, one, read, refusal

ROCPROF = """\
"Name","Calls","TotalDurationNs","AverageNs","Percentage"
"Cijk_Ailk_Bljk_BBS_BH_MT128x128x64_SE_K1.kd",4,8000,2000,80.0
"void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, 3>(int, float)",2,2000,1000,20.0
"""
ROCPROF_V3 = """\
"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","Private_Segment_Size","Workgroup_Size_X"
"KERNEL_DISPATCH","Agent 4",1,77,1,16,"Cijk_Ailk_Bljk_BBS_BH_MT128x128x64_SE_K1",1,2508968094423459,2508968094425459,0,256
"KERNEL_DISPATCH","Agent 4",1,77,2,17,"ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",2,2508968094430000,2508968094431000,0,256
"KERNEL_DISPATCH","Agent 4",1,77,3,16,"Cijk_Ailk_Bljk_BBS_BH_MT128x128x64_SE_K1",3,2508968094440000,2508968094446000,0,256
"""  # noqa: E501


def test_sums_and_launches_of_rocprof(tmp_path):
    sums = one(read(tmp_path, ROCPROF))
    assert [(one.category, one.count, one.total_s) for one in sums.kernels] == [
        ("matmul", 4, pytest.approx(8e-6)), ("elementwise", 2, pytest.approx(2e-6)),
    ]  # fmt: skip
    assert sums.rows[0]["mean_s"] == pytest.approx(2e-6)
    launches = one(read(tmp_path, ROCPROF_V3))
    assert [(one.category, one.count, one.total_s) for one in launches.kernels] == [
        ("matmul", 2, pytest.approx(8e-6)), ("communication", 1, pytest.approx(1e-6)),
    ]  # fmt: skip
    assert launches.rows[0]["max_s"] == pytest.approx(6e-6)
    hip = one(read(tmp_path, ROCPROF.replace("Cijk_Ailk_Bljk_BBS_BH_MT128x128x64_SE_K1.kd", "hipLaunchKernel")))
    assert [one.count for one in hip.kernels] == [2]
    calls = (
        ROCPROF + '"__hipPushCallConfiguration",4,8,2,0.1\n"hipFree",1,8,8,0.1\n"__hipRegisterFatBinary",1,8,8,0.1\n'
    )
    assert one(read(tmp_path, calls)).kernels == ()  # a table of the host's calls, ranges of one's own among them
    domains = '"Name","Calls","TotalDurationNs"\n"KERNEL_DISPATCH",6,900\n"HIP_RUNTIME_API",9,700\n'
    assert one(read(tmp_path, domains)).kernels == ()


INSTRUCTIONS = {f"SQ_INSTS_VALU_{what}_{width}": 10 if (what, width) == ("FMA", "F32") else 0
                for what in ("ADD", "MUL", "TRANS", "FMA") for width in ("F16", "F32", "F64")}  # fmt: skip
COUNTERS = INSTRUCTIONS | {
    "SQ_INSTS_VALU_MFMA_MOPS_BF16": 4, "SQ_INSTS_VALU_MFMA_MOPS_I8": 9, "TCC_EA0_RDREQ_sum": 100, "TCC_BUBBLE_sum": 60,
    "TCC_EA0_RDREQ_32B_sum": 10, "TCC_EA0_WRREQ_sum": 50, "TCC_EA0_WRREQ_64B_sum": 40, "TCC_EA0_RDREQ[0]": 7,
}  # fmt: skip


def counters_wide(*launches):
    """A row for each launch, as rocprof-compute writes it, with more columns than a table of a report has."""
    names = ["Dispatch_ID", "Kernel_Name", *COUNTERS, *(f"TCC_HIT[{at}]" for at in range(600)), "Start_Timestamp",
             "End_Timestamp"]  # fmt: skip
    rows = [
        [at, f'"{name}"', *COUNTERS.values(), *[1] * 600, begin, end] for at, (name, begin, end) in enumerate(launches)
    ]
    return "\n".join(",".join(map(str, row)) for row in (names, *rows)) + "\n"


def counters_long(*launches):
    """A row for each counter of a launch, as rocprofv3 writes it."""
    rows = ['"Dispatch_Id","Agent_Id","Kernel_Name","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"']
    for at, (name, begin, end) in enumerate(launches):
        rows += [f'{at},"Agent 4","{name}","{counter}",{value},{begin},{end}' for counter, value in COUNTERS.items()]
    return "\n".join(rows) + "\n"


LAUNCHES = (
    ("gemm(double*, int) [clone .kd]", 1410078545959517, 1410078545960517),
    ("gemm(double*, int) [clone .kd]", 1410078545970000, 1410078545972000),
)


@pytest.mark.parametrize("written", [counters_wide, counters_long])
def test_counters_of_amd_give_flops_and_bytes(tmp_path, written):
    found = one(read(tmp_path, written(*LAUNCHES)))
    (kernel,) = found.kernels
    assert (kernel.name, kernel.category, kernel.count) == ("gemm(double*, int)", "matmul", 2)
    assert kernel.total_s == pytest.approx(3e-6)  # however many counters a launch has
    assert kernel.flops == 2 * (64 * 2 * 10 + 512 * 4)
    assert kernel.bytes == 2 * (32 * 10 + 128 * 60 + 64 * 30 + 64 * 40 + 32 * 10)
    assert codes(found) == {"counters-serialise"}
    assert "spreadsheet" in str(refusal(tmp_path, written(("gemm", "8.1E+14", "8.1E+14"))))
    some = written(*LAUNCHES).replace("SQ_INSTS_VALU_ADD_F64", "SQ_WAVES").replace("TCC_EA0_WRREQ_sum", "SQ_CYCLES")
    assert [(one.flops, one.bytes) for one in one(read(tmp_path, some)).kernels] == [(None, None)]


_DISPATCHES = [(1, 1000, 3000), (2, 4000, 9000), (2, 9000, 14000), (3, 20, 10), (9, 0, 1000)]
_SYMBOLS = [
    {"kernel_id": 0},
    {"kernel_id": 1, "formatted_kernel_name": "foo()", "kernel_name": "_Z3foov.kd"},
    {"kernel_id": 2, "kernel_name": "Cijk_Ailk_Bljk_BBS_BH.kd"},
]
_RECORDS = {
    "kernel_dispatch": [
        {"size": 104, "start_timestamp": begin, "end_timestamp": end, "dispatch_info": {"kernel_id": number}}
        for number, begin, end in _DISPATCHES
    ],
    "memory_copy": [{"start_timestamp": 100, "end_timestamp": 300}],
}
_AGENTS = [{"type": 1, "product_name": "EPYC"}, {"type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X"}]
_PROCESS = {"metadata": {"pid": 1}, "agents": _AGENTS, "kernel_symbols": _SYMBOLS, "buffer_records": _RECORDS}
ROCPROF_JSON = {"rocprofiler-sdk-tool": [_PROCESS]}


def test_launches_of_rocprofv3_in_json_are_summed_by_kernel(tmp_path):
    found = one(read(tmp_path, ROCPROF_JSON))
    assert [(kernel.name, kernel.count, kernel.total_s) for kernel in found.kernels] == [
        ("Cijk_Ailk_Bljk_BBS_BH", 2, pytest.approx(10e-6)), ("foo()", 1, pytest.approx(2e-6)),
        ("kernel 9", 1, pytest.approx(1e-6)), ("memcpy", 1, pytest.approx(2e-7)),
    ]  # fmt: skip
    assert found.kernels[0].category == "matmul"
    assert (found.device, found.environment["recorded_s"]) == (
        {"name": "AMD Instinct MI300X", "count": 1}, pytest.approx(14e-6),
    )  # fmt: skip
    assert "no launch" in refusal(tmp_path, {"rocprofiler-sdk-tool": [{"agents": []}]}).message
    assert "cannot be read" in refusal(tmp_path, {"rocprofiler-sdk-tool": [{"agents": 3}]}).message


def test_gpus_of_rocprofv3_in_json_are_those_that_ran_kernels(tmp_path):
    agents = [{"id": {"handle": at}, "type": 2, "product_name": f"AMD Instinct MI{at}"} for at in (300, 325, 350)]
    launches = [
        {**span, "dispatch_info": {**span["dispatch_info"], "agent_id": {"handle": 325}}}
        for span in _RECORDS["kernel_dispatch"]
    ]
    ranks = [{**_PROCESS, "agents": agents, "buffer_records": {"kernel_dispatch": launches}}] * 2
    found = one(read(tmp_path, {"rocprofiler-sdk-tool": ranks}))
    assert found.device == {"name": "AMD Instinct MI325", "count": 1}
