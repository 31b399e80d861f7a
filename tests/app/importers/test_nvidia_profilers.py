"""Results of NVIDIA's profilers: Nsight Systems, Nsight Compute and nvprof."""

from __future__ import annotations

import sqlite3

import pytest

from tests.app.importers.reading import codes, one, read, refusal


def database(path, statements):
    with sqlite3.connect(path) as connection:
        for statement, rows in statements:
            connection.executemany(statement, rows) if rows else connection.execute(statement)
    connection.close()
    return path.read_bytes()


KERNELS = [
    ("CREATE TABLE StringIds (id INTEGER, value TEXT)", []),
    ("INSERT INTO StringIds VALUES (?, ?)", [(1, "sm90_xmma_gemm_bf16"), (2, "flash_fwd_kernel")]),
    ('CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, demangledName INTEGER)', []),
    ("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?)", [(0, 1000, 1), (2000, 4000, 1), (4000, 4500, 2)]),
    ("CREATE TABLE TARGET_INFO_GPU (name TEXT)", []),
    ("INSERT INTO TARGET_INFO_GPU VALUES (?)", [("NVIDIA H100 80GB HBM3",)]),
]


def test_kernels_of_nsight_systems(tmp_path):
    found = one(read(tmp_path, database(tmp_path / "a.sqlite", KERNELS)))
    assert [(one.name, one.category, one.count, one.total_s) for one in found.kernels] == [
        ("sm90_xmma_gemm_bf16", "matmul", 2, pytest.approx(3e-6)),
        ("flash_fwd_kernel", "attention", 1, pytest.approx(5e-7)),
    ]
    assert found.device["name"] == "NVIDIA H100 80GB HBM3"
    assert found.environment["recorded_s"] == pytest.approx(4.5e-6)
    assert found.steps_s == ()


@pytest.mark.parametrize(
    ("statements", "word"),
    [
        ([("CREATE TABLE a (b)", [])], "no kernels"),
        ([KERNELS[0], ("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT 1", [])], "no kernels"),
        ([*KERNELS[:3]], "no kernel was recorded"),
        ([("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start)", []),
          ("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (?)", [(1,)])], "CUDA graphs"),
        ([KERNELS[0], ("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start)", [])], "no names"),
    ],
)  # fmt: skip
def test_databases_that_are_refused(tmp_path, statements, word):
    assert word in str(refusal(tmp_path, database(tmp_path / "a.sqlite", statements)))


def test_a_damaged_database_is_refused(tmp_path):
    content = database(tmp_path / "a.sqlite", KERNELS)
    assert "database" in str(refusal(tmp_path, content[:100] + b"\xff" * 4000 + content[4100:]))
    # the name in SQLite's own message is no text then
    assert "database" in str(refusal(tmp_path, content.replace(b"tableStringIds", b"tableString\xbb\xb3s")))


NSYS_STATS = """\
Generating SQLite file report.sqlite from report.nsys-rep
 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
75.0,3000,2,1500.0,1500.0,1000,2000,707.1,"void gemm<float, 4>(int, float)"
25.0,1000,1,1000.0,1000.0,1000,1000,0.0,flash_fwd_kernel
"""


def test_sums_of_nsys_stats(tmp_path):
    found = one(read(tmp_path, NSYS_STATS))
    assert [(one.name, one.category, one.count, one.total_s) for one in found.kernels] == [
        ("void gemm<float, 4>(int, float)", "matmul", 2, pytest.approx(3e-6)),
        ("flash_fwd_kernel", "attention", 1, pytest.approx(1e-6)),
    ]
    assert found.rows[0]["median_s"] == pytest.approx(1.5e-6)


NSYS_TEXT = """\
 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)                 Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  --------------------------------
     75.0            3,000          2    1500.0    1500.0      1000      2000        707.1  void gemm<float, 4>(int, float)
     25.0             1000          1    1000.0    1000.0      1000      1000          0.0  flash_fwd_kernel

 ** CUDA API Summary (cuda_api_sum):

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)   Med (ns)   Min (ns)  Max (ns)  StdDev (ns)     Name
 --------  ---------------  ---------  ---------  ---------  --------  --------  -----------  ----------
     68.9           273456         11    24859.1    10234.0      2345    173000      82345.9  cudaMalloc
"""  # noqa: E501


def test_what_nsys_stats_prints_by_default(tmp_path):
    printed, exported = one(read(tmp_path, NSYS_TEXT)), one(read(tmp_path, NSYS_STATS))
    assert printed.kernels == exported.kernels
    assert printed.rows[:2] == exported.rows
    assert [row["calls"] for row in printed.rows[2:]] == [11]


def nsys_table(columns, rows):
    """A table as nsys stats prints one: numbers to the right, each column as wide as its dashes."""
    widths = [max(len(str(row[at])) for row in (columns, *rows)) for at in range(len(columns))]
    lines = [columns, ["-" * width for width in widths], *rows]
    return "".join(
        " " + "  ".join(str(cell).rjust(width) for cell, width in zip(line, widths, strict=True)) + "\n"
        for line in lines
    )


SUMMED = ["Time (%)", "Total Time (ns)", "Instances", "Avg (ns)"]


def test_kernels_with_the_names_that_they_have(tmp_path):
    """A name of more than 80 letters ended its table, which then was not there; nor did any warning say so."""
    names = ["void at::native::vectorized_elementwise_kernel<(int)4, at::native::" + "Functor, " * 4 + end
             for end in ("std::array>(int)", "int>…")]  # fmt: skip
    rows = [[75.0, "3,000", 2, "1,500.0", names[0]], [25.0, "1,000", 1, "1,000.0", names[1]]]
    found = one(read(tmp_path, nsys_table([*SUMMED, "Name"], rows)))
    assert [(kernel.count, kernel.total_s) for kernel in found.kernels] == [(2, 3e-6), (1, 1e-6)]
    assert found.rows[0]["name"] == names[0]
    assert "names-cut" in codes(found)
    # cells of several words, of which none but the dashes tell where they end
    grid = [[100.0, "3,000", 2, "1,500.0", "2048    1    1", "add_kernel(float *, int)"]]
    (kernel,) = one(read(tmp_path, nsys_table([*SUMMED, "GridXYZ", "Name"], grid))).kernels
    assert (kernel.name, kernel.count) == ("add_kernel(float *, int)", 2)


def test_ranges_are_no_kernels(tmp_path):
    rows = [[75.0, "3,000", 2, "1,500.0", "PushPop", ":encoder"], [25.0, "1,000", 1, "1,000.0", "PushPop", ":decoder"]]
    found = one(read(tmp_path, nsys_table([*SUMMED, "Style", "Range"], rows)))
    assert (found.kernels, [row["name"] for row in found.rows]) == ((), [":encoder", ":decoder"])


def test_launches_of_nsys_stats_are_summed_by_name(tmp_path):
    head = "Start (ns),Duration (ns),CorrId,GrdX,Bytes (MB),Device,Ctx,GreenCtx,Strm,Name\n"
    lines = (
        "1000,250,101,128,,NVIDIA H100 80GB HBM3 (0),1,,7,gemm_tn\n1300,240,102,128,,NVIDIA H100 80GB HBM3 (0),1,,7,"
        "gemm_tn\n1600,50,103,,8.389,NVIDIA H100 80GB HBM3 (0),1,,7,[CUDA memcpy Host-to-Device]\n"
    )
    found = one(read(tmp_path, head + lines))
    assert (found.kernels[0].name, found.kernels[0].count) == ("gemm_tn", 2)
    assert found.kernels[0].total_s == pytest.approx(490e-9)


NCU_LONG = """\
==PROF== Connected to process 7 (/usr/bin/python)
loss 3.2
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","7","python","127.0.0.1","void gemm_bf16<128, 64>(Params)","1","7","(128, 1, 1)","(8, 8, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","usecond","10.5"
"0","7","python","127.0.0.1","void gemm_bf16<128, 64>(Params)","1","7","(128, 1, 1)","(8, 8, 1)","0","9.0","Command line profiler metrics","dram__bytes.sum","Mbyte","6.25"
"0","7","python","127.0.0.1","void gemm_bf16<128, 64>(Params)","1","7","(128, 1, 1)","(8, 8, 1)","0","9.0","Command line profiler metrics","sm__ops_path_tensor_src_bf16_dst_fp32.sum","","2,147,483,648"
"0","7","python","127.0.0.1","void gemm_bf16<128, 64>(Params)","1","7","(128, 1, 1)","(8, 8, 1)","0","9.0","Command line profiler metrics","sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum","","2,147,483,648"
"1","7","python","127.0.0.1","add_kernel","1","7","(256, 1, 1)","(8, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","nsecond","2,000.50"
"""  # noqa: E501
NCU_WIDE = """\
"ID","Kernel Name","Block Size","Grid Size","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum","smsp__sass_thread_inst_executed_op_fadd_pred_on.sum","smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_second","launch__grid_size"
"","","","","byte","byte","ns","inst","inst/s",""
"0","add_kernel","(256, 1, 1)","(8, 1, 1)","1.000.000","500.000","2000,50","64.000","1000000000","8"
"1","add_kernel","(256, 1, 1)","(8, 1, 1)","1.000.000","500.000","1999,50","64.000","1000000000","8"
"""  # noqa: E501


def test_nsight_compute_gives_flops_and_bytes(tmp_path):
    product, add = one(read(tmp_path, NCU_LONG)).kernels
    assert (product.category, product.flops, product.bytes) == ("matmul", 2 * 1024**3, pytest.approx(6.25e6))
    assert (product.total_s, add.total_s) == (pytest.approx(10.5e-6), pytest.approx(2000.5e-9))
    assert (add.flops, add.bytes) == (None, None)
    rules = NCU_LONG.replace('"Metric Value"', '"Metric Value","Rule Name","Rule Type"').replace('.50"', '.50",')
    assert one(read(tmp_path, rules)).kernels == (product, add)  # rows that no rule speaks of end before its columns
    wide = read(tmp_path, NCU_WIDE)  # of a machine that writes decimal commas
    (add,) = one(wide).kernels
    assert (add.count, add.bytes) == (2, 3e6)
    assert add.flops == pytest.approx(2 * 64_000 + 2 * 1e9 * 4e-6)
    assert add.total_s == pytest.approx(4e-6)
    assert codes(wide) == {"ncu-clocks"}
    mixed = NCU_WIDE.replace("1999,50", "1999.50")
    assert "decimal" in str(refusal(tmp_path, mixed))


NVPROF = """\
==7== NVPROF is profiling process 7, command: python train.py
==7== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   45.02%  1.23450s      1000  1.2345ms  1.0000ms  2.0000ms  volta_sgemm_128x64_nn
                   20.00%  548.50ms       500  1.0970ms  900.00us  1.5000ms  void kernelPointwiseApply2<TensorAddOp<float>, float>
                    5.00%  137.00ms       100  1.3700ms  1.0000us  2.0000ms  [CUDA memcpy HtoD]
      API calls:   60.00%  2.00000s      3000  666.67us  5.0000us  10.000ms  cudaLaunchKernel
"""  # noqa: E501
NVPROF_CSV = """\
==7== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,ms,us,ms,
"GPU activities",45.02,1234.50,1000,1.2345,1000.0,2.0,"volta_sgemm_128x64_nn"
"GPU activities",20.0,548.5,500,1.0970,900.0,1.5,"void kernelPointwiseApply2<TensorAddOp<float>, float>"
"GPU activities",5.0,137.0,100,1.37,1.0,2.0,"[CUDA memcpy HtoD]"
"API calls",60.0,2000.0,3000,0.66667,5.0,10.0,"cudaLaunchKernel"
"""


def test_sums_of_nvprof_as_text_and_as_csv(tmp_path):
    printed, exported = one(read(tmp_path, NVPROF)), one(read(tmp_path, NVPROF_CSV))
    assert [(one.name, one.category, one.count) for one in printed.kernels] == [
        ("volta_sgemm_128x64_nn", "matmul", 1000),
        ("void kernelPointwiseApply2<TensorAddOp<float>, float>", "elementwise", 500), ("memcpy HtoD", "other", 100),
    ]  # fmt: skip
    assert [one.total_s for one in printed.kernels] == pytest.approx([1.2345, 0.5485, 0.137])
    assert [one.total_s for one in exported.kernels] == pytest.approx([1.2345, 0.5485, 0.137])
    for key in ("calls", "mean_s", "min_s", "max_s"):
        assert [row[key] for row in printed.rows] == pytest.approx([row[key] for row in exported.rows], rel=1e-5)
    former = NVPROF.replace("            Type  Time", "Time").replace(" GPU activities:", "").replace(
        "      API calls:   60", "==7== API calls:\nTime(%)      Time     Calls\n 60")  # fmt: skip
    assert one(read(tmp_path, former)).kernels == printed.kernels
    assert refusal(tmp_path, "\n".join(NVPROF.splitlines()[:3])).format == "nvprof"
