"""Results of other tools: nccl-tests, Nsight Systems, sums of the profiler, logs of trainers."""

from __future__ import annotations

import collections
import gzip
import itertools
import json
import marshal
import sqlite3

import openpyxl
import pytest

from estimator.scenario.op_list import from_json
from estimator.validation.predicted_rows import predicted_table
from tests.app.importers.reading import REFERENCE, codes, one, read, refusal

NCCL = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
#
# Using devices
#  Rank  0 Group  0 Pid   1234 on secret-host device  0 [0x1b] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1234 on secret-host device  1 [0x43] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    20.00   52.43   52.43      0    19.50   53.77   53.77      0
   134217728      33554432     float     sum      -1   1000.0  134.22  134.22      0   1001.0  134.08  134.08    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 93.6
"""


@pytest.mark.parametrize("prefix", ["", "[1,0]<stdout>:"])
def test_text_of_nccl_tests(tmp_path, prefix):
    text = "\n".join(prefix + line for line in NCCL.splitlines())
    imported = read(tmp_path, f"$ ./all_reduce_perf -b 1M\n{text}\n")
    found = one(imported)
    assert (found.device, found.world_size) == ({"name": "NVIDIA H100 80GB HBM3", "count": 2}, 2)
    assert [(one.kind, one.bytes, one.ranks) for one in found.collectives] == [
        ("all-reduce", 1048576.0, 2), ("all-reduce", 134217728.0, 2),
    ]  # fmt: skip
    assert found.collectives[1].seconds == pytest.approx(1e-3)
    assert found.collectives[1].bus_bytes_per_s == pytest.approx(134.217728e9)
    assert found.rows[0]["in_place_s"] == pytest.approx(19.5e-6)
    assert "secret-host" not in json.dumps(found.rows)
    assert predicted_table(found, "h100-sxm").errors["mean_s"].n == 2


def test_nccl_tests_that_do_not_name_their_collective(tmp_path):
    found = read(tmp_path, NCCL)
    assert "collective-inferred" in codes(found)
    assert one(found).collectives[0].kind == "all-reduce"
    assert refusal(tmp_path, "\n".join(NCCL.splitlines()[:9])).format == "nccl-tests"


OLD_NCCL = """\
== all_reduce_perf ==
# nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#   Rank  0 Pid  12978 on  secret-host device  0 [0x45] GeForce GTX 1080
#   Rank  1 Pid  12978 on  secret-host device  1 [0xc4] GeForce GTX 1080
#                                                     out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
          16             4   float     sum    27.29    0.00    0.00  2e-07    25.11    0.00    0.00  2e-07
   134217728      33554432   float     sum   154600    0.87    0.87  0e+00   157200    0.85    0.85    N/A
# Out of bounds values : 0 OK
== all_gather_perf ==
# nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#   Rank  0 Pid  12979 on  secret-host device  0 [0x45] GeForce GTX 1080
#   Rank  1 Pid  12979 on  secret-host device  1 [0xc4] GeForce GTX 1080
#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error
   134217728      16777216   float    87800    0.76    0.76  0e+00    85700    0.78    0.78  0e+00
# Out of bounds values : 1 FAILED
== broadcast_perf ==
# nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#       size         count    type    root     time   algbw   busbw  error     time   algbw   busbw  error
   134217728      33554432   float       0    91250    1.47    1.47  0e+00    91248    1.47    1.47  0e+00
#  bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res
   10000000       2500000   float     sum    0.068  147.06  257.35    0e+00    0.068  147.06  257.35    0e+00
"""


def test_old_layouts_of_nccl_tests_are_read_by_their_columns_a_sweep_at_a_time(tmp_path):
    """Before 2.12 there was no column of roots: 154600 was the root then, and 0.87 the time, in microseconds."""
    found = read(tmp_path, OLD_NCCL).measurements
    assert [(one.rows[-1]["kind"], one.world_size, len(one.rows)) for one in found] == [
        ("all-reduce", 2, 2), ("all-gather", 2, 1), ("broadcast", 2, 1), ("all-reduce", 8, 1),
    ]  # fmt: skip
    assert [one.rows[-1]["mean_s"] for one in found] == pytest.approx([0.1546, 0.0878, 0.09125, 0.068e-3])
    assert [one.rows[-1]["in_place_s"] for one in found] == pytest.approx([0.1572, 0.0857, 0.091248, 0.068e-3])
    assert found[1].collectives[0].bus_bytes_per_s == pytest.approx(0.76e9, rel=0.01)
    assert [codes(one) for one in found] == [set(), {"wrong-values"}, set(), {"collective-inferred"}]
    assert found[0].device["name"] == "GeForce GTX 1080"


def test_a_collective_that_does_not_reduce_may_leave_the_operation_empty(tmp_path):
    text = NCCL.replace("    sum      -1", "            -1").replace("52.43   52.43", "52.43   26.21")
    text = (
        text.replace("134.22  134.22", "134.22   67.11").replace("    root", "        ").replace("     -1", "       ")
    )
    found = one(read(tmp_path, text, name="nccl_alltoall.log"))
    assert [(one.kind, one.seconds) for one in found.collectives] == [
        ("all-to-all", pytest.approx(20e-6)), ("all-to-all", pytest.approx(1e-3)),
    ]  # fmt: skip
    assert one(read(tmp_path, text)).collectives[0].kind == "all-gather"  # of two with that bus bandwidth the commoner


def test_nccl_tests_pasted_without_their_signs(tmp_path):
    whole, bare = (one(read(tmp_path, "all_reduce_perf\n" + text)) for text in (NCCL, NCCL.replace("#", "")))
    assert whole == bare


def test_one_size_to_a_run_is_one_sweep(tmp_path):
    first, second = NCCL.splitlines(), NCCL.splitlines()
    del first[10], second[9]
    found = one(read(tmp_path, "\n".join(["all_reduce_perf", *first, "all_reduce_perf", *second])))
    assert [row["size_bytes"] for row in found.rows] == [1048576.0, 134217728.0]


def test_json_of_nccl_tests_keeps_no_environment(tmp_path):
    half = {"time": 1000.0, "alg_bw": 134.2, "bus_bw": 134.2, "nwrong": "nan"}
    document = {
        "version": "2.17", "args": ["/opt/all_gather_perf"], "env": ["SECRET=1"], "nccl_version": 22703,
        "config": {"devices": [{"name": "NVIDIA H200"}] * 2},
        "results": [{"size": 134217728, "type": "float", "out_of_place": half, "in_place": {"time": "nan"}}],
    }  # fmt: skip
    found = one(read(tmp_path, document))
    assert found.collectives[0].kind == "all-gather"
    assert found.collectives[0].bus_bytes_per_s == pytest.approx(134217728 / 1e-3 / 2)
    assert "SECRET" not in json.dumps(found.rows) + json.dumps(found.environment)


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


KEY_AVERAGES = """\
-----------------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------
                   Name    Self CPU %      Self CPU     CPU total     Self CUDA    CUDA total       CPU Mem      CUDA Mem    # of Calls  Total MFLOPs
-----------------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------
               aten::mm        60.00%       1.500ms       1.600ms       0.000us       2.000ms           0 B      72.00 KB             9         2.359
   ampere_sgemm_128x64         0.00%       0.000us       0.000us       2.000ms       2.000ms           0 B           0 B             9            --
-----------------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 2.500ms
Self CUDA time total: 2.000ms
"""  # noqa: E501


def test_key_averages_as_text_and_as_csv(tmp_path):
    found = one(read(tmp_path, KEY_AVERAGES))
    op, _ = found.rows
    assert (op["calls"], op["flops"], op["device_memory_bytes"]) == (9, pytest.approx(2.359e6), 72 * 1024)
    assert (op["self_cpu_s"], op["total_device_s"]) == (pytest.approx(1.5e-3), pytest.approx(2e-3))
    # the op says its kernels' time once more
    assert [(one.name, one.count, one.total_s) for one in found.kernels] == [
        ("ampere_sgemm_128x64", 9, pytest.approx(2e-3))
    ]
    former = KEY_AVERAGES.replace("    Self CPU ", "    Self CPU total ").replace("# of Calls", "Number of Calls")
    assert one(read(tmp_path, former)).rows == found.rows  # until PyTorch 1.6
    printed = one(read(tmp_path, REFERENCE.joinpath("tools", "key_averages.txt").read_bytes()))
    first = printed.rows[0]
    assert (len(printed.rows), first["name"], first["calls"], first["flops"]) == (10, "aten::mm", 6, 6.291e6)
    raw = "key,count,self_cpu_time_total,self_device_time_total,flops\n"
    raw += "aten::mm,9,1500.0,0.0,2359000\nsgemm,9,0.0,2000.0,0\n"
    table = one(read(tmp_path, raw))
    assert table.rows[0]["self_cpu_s"] == pytest.approx(1.5e-3)
    assert [one.total_s for one in table.kernels] == [pytest.approx(2e-3)]


MEGATRON = """\
  bf16 ............................................ True
  context_parallel_size ........................... 1
  data_parallel_size .............................. 4
  ffn_hidden_size ................................. 14336
  global_batch_size ............................... 128
  hidden_size ..................................... 4096
  micro_batch_size ................................ 1
  num_attention_heads ............................. 32
  num_layers ...................................... 32
  num_query_groups ................................ 8
  padded_vocab_size ............................... 128256
  pipeline_model_parallel_size .................... 1
  seq_length ...................................... 8192
  swiglu .......................................... True
  tensor_model_parallel_size ...................... 2
  use_distributed_optimizer ....................... True
  world_size ...................................... 8
 [2026-01-01 00:00:00] iteration        1/     100 | consumed samples:          128 | elapsed time per iteration (ms): 21000.0 | throughput per GPU (TFLOP/s/GPU): 100.0 | lm loss: 1.1E+01 |
 [2026-01-01 00:00:20] iteration        2/     100 | consumed samples:          256 | elapsed time per iteration (ms): 10000.0 | throughput per GPU (TFLOP/s/GPU): 420.5 | lm loss: 1.0E+01 |
[Rank 0] (after 2 iterations) memory (MB) | allocated: 1000.0 | max allocated: 2000.5 | reserved: 3000.0 | max reserved: 4000.0
 [2026-01-01 00:00:30] iteration        3/     100 | consumed samples:          384 | elapsed time per iteration (ms): 10200.0 | throughput per GPU (TFLOP/s/GPU): 412.0 | lm loss: 9.0E+00 |
"""  # noqa: E501


def test_a_log_of_megatron_sets_the_scenario(tmp_path):
    found = one(read(tmp_path, MEGATRON))
    assert found.origin.format == "log/Megatron-LM"
    assert found.steps_s == pytest.approx((10.0, 10.2))
    assert "first-step-slow" in codes(found)
    assert (found.memory.peak_bytes, found.memory.reserved_bytes) == (2000.5 * 2**20, 4000.0 * 2**20)
    assert (found.world_size, found.scenario["plan"]["tp"], found.scenario["plan"]["sharding"]) == (8, 2, "zero1")
    assert found.scenario["model"]["kv_heads"] == 8
    assert found.scenario["training"] == {
        "seq_len": 8192, "global_batch": 128, "precision": "bf16", "framework": "megatron",
    }  # fmt: skip
    assert found.rows[1]["flops_per_s_per_gpu"] == pytest.approx(420.5e12)


def test_a_log_of_torchtitan_gives_rates_and_its_clock_the_step_times(tmp_path):
    line = "[rank0]:\x1b[32m[titan] step: {}  \x1b[33mloss: 8.1  \x1b[39mmemory: 42.50GiB(53.7%)  "
    line += "tps: 7,012  tflops: 406.1  mfu: 41.06%\n"
    found = one(read(tmp_path, "".join(line.format(i) for i in (1, 10, 20))))
    assert found.rows[1] == pytest.approx({
        "step": 10, "loss": 8.1, "reserved_bytes": 42.5 * 2**30, "tokens_per_s_per_gpu": 7012.0,
        "flops_per_s_per_gpu": 406.1e12, "mfu_frac": 0.4106,
    })  # fmt: skip
    assert "no-step-time" in codes(found)
    assert found.steps_s == ()
    stamped = "".join(f"[rank0]:2026-01-01 10:00:{i:02},500 - root - INFO - {line.format(i)}" for i in (1, 10, 20))
    assert one(read(tmp_path, stamped)).steps_s == (1.0, 1.0)


@pytest.mark.parametrize(
    ("content", "format", "word"),
    [
        (b"<!DOCTYPE html>\n<html>", "html", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n", "git-lfs", "git lfs pull"),
        (b"%PDF-1.7\n", "pdf", "PDF"),
        (b'{"segments": [], "device_traces": []}', "snapshot", "_dump_snapshot"),
        (b'{"exporter": "py-spy@0.3.14", "shared": {}, "profiles": []}', "speedscope", "torch.profiler"),
        (b'[{"children": [], "frame": {"name": "ROOT"}, "metrics": {}}]', "proton", "proton.finalize"),
        (b"Tue Nov 12 10:00:00 2024\n+---+\n| NVIDIA-SMI 550.54.15   Driver\n", "nvidia-smi", "busy"),
        (b"# gpu    pwr  gtemp\n# Idx      W      C\n    0     70     34\n", "nvidia-smi", "times of steps"),
        (marshal.dumps({("a.py", 1, "train"): (1, 1, 0.5, 0.5, {})}), "cProfile", "torch.profiler"),
    ],
)
def test_what_is_no_result_has_its_own_sentence(tmp_path, content, format, word):
    error = refusal(tmp_path, content)
    assert error.format == format
    assert word in str(error)


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


def test_torch_benchmark_and_flop_counter(tmp_path):
    folder = REFERENCE / "tools"
    compared = one(read(tmp_path, folder.joinpath("benchmark_compare.txt").read_bytes()))
    assert len(compared.rows) == 12
    assert compared.rows[3] == {
        "label": "Batched dot", "sub_label": "[64, 64]", "description": "mul/sum", "threads": 1,
        "median_s": pytest.approx(6.8e-6),
    }  # fmt: skip
    timed = one(read(tmp_path, folder.joinpath("benchmark_timer.txt").read_bytes()))
    assert [(row["label"], row.get("median_s", row.get("mean_s"))) for row in timed.rows] == [
        ("Matmul", pytest.approx(31.11e-6)), ("a+a", pytest.approx(1.4e-6)),
    ]  # fmt: skip
    counted = one(read(tmp_path, folder.joinpath("flop_counter.txt").read_bytes()))
    assert counted.rows[0] == {"module": "Sequential", "flops": 11.534e6, "share_frac": 1.0}
    assert counted.rows[4] == {"module": "Sequential.0", "op": "aten.addmm", "flops": 2.097e6, "share_frac": 0.1818}


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


def proton_node(name, metrics, *children):
    return {"children": children, "frame": {"name": name, "type": "function"}, "metrics": metrics}


def proton_kernel(name, ns, count, **said):
    metrics = {"count": count, "device_id": "0", "device_type": "CUDA", "time (ns)": ns, **said}
    return proton_node(name, metrics)


PROTON = [
    proton_node(
        "ROOT",
        {"count": 0, "time (ns)": 0, "flops16": 0},
        proton_node("step", {}, proton_kernel("matmul_kernel", 2000, 2, flops16=4e6, bytes=3e3)),
        proton_node("launch of attention", {"flops": 7e6, "bytes": 5e3}, proton_kernel("_attn_fwd", 3000, 1)),
        proton_node(
            "both", {"bytes": 9e3}, proton_kernel("add", 5, 1), proton_kernel("matmul_kernel", 500, 1, flops16=1e6)
        ),
    ),
    {"CUDA": {"0": {"arch": "90", "num_sms": 132}}},
]


def test_a_profile_of_proton(tmp_path):
    found = one(read(tmp_path, PROTON))
    assert [(one.name, one.category, one.count, one.flops, one.bytes) for one in found.kernels] == [
        ("_attn_fwd", "attention", 1, 7e6, 5e3), ("matmul_kernel", "matmul", 3, 5e6, None),
        ("add", "elementwise", 1, None, None),
    ]  # fmt: skip
    assert [one.total_s for one in found.kernels] == pytest.approx([3e-6, 2.5e-6, 5e-9])
    assert codes(found) == {"whole-recording"}


def test_an_execution_trace_becomes_an_op_list(tmp_path):
    imported = read(tmp_path, REFERENCE.joinpath("tools", "execution_trace.json.gz").read_bytes())
    found = one(imported)
    (ops,) = imported.op_lists
    assert codes(found) == {"no-times"}
    # two MLPs of 64 and 256 on 32 rows: four products forward; the first one's input has no gradient
    products = sum(row["flops"] for row in found.rows if "flops" in row)
    assert products == (4 + 7) * 2 * 32 * 64 * 256
    phases = [from_json(ops).calls[at].phase for at in (1, -1)]
    assert phases == ["forward", "optimizer"]
    assert [row["calls"] for row in found.rows if row["op"] == "aten::relu"] == [2]
    assert refusal(tmp_path, {"schema": "1.1", "nodes": [{"id": 1, "name": "x"}]}).format == "execution trace"


def test_execution_traces_of_schema_1_0_1_are_the_same(tmp_path):
    document = json.loads(gzip.decompress(REFERENCE.joinpath("tools", "execution_trace.json.gz").read_bytes()))
    kept = [
        {
            "id": node["id"], "name": node["name"], "parent": node["ctrl_deps"], "inputs": node["inputs"]["values"],
            "input_shapes": node["inputs"]["shapes"], "input_types": node["inputs"]["types"],
        }
        for node in document["nodes"]
    ]  # fmt: skip
    new, old = (one(read(tmp_path, {"schema": name, "nodes": some})) for name, some in (
        ("1.1.1-chakra.0.0.4", document["nodes"]), ("1.0.1", kept),
    ))  # fmt: skip
    sums = []
    for found in (new, old):  # which has no strides, by which the newer tells calls apart
        counts = collections.Counter()
        for row in found.rows:
            counts[row["op"], row["phase"], row.get("flops", 0.0) / row["calls"]] += row["calls"]
        sums.append(counts)
    assert len(sums[0]) > 5
    assert sums[0] == sums[1]


def step_of_an_execution_trace(first, ranks):
    """A product, a convolution of 8 images of 3 × 32 × 32 by 16 kernels of 3 × 3, its backward and an all-reduce."""
    image, kernel, result, none = [8, 3, 32, 32], [16, 3, 3, 3], [8, 16, 32, 32], "<None>"
    tensors = {"types": ["Tensor(float)", "Tensor(float)", "None", "GenericList[Int]", "GenericList[Int]",
                         "GenericList[Int]", "Bool", "GenericList[Int]", "Int"]}  # fmt: skip
    back = ["Tensor(float)", "Tensor(float)", "Tensor(float)", "GenericList[Int]", "GenericList[Int]",
            "GenericList[Int]", "GenericList[Int]", "Bool", "GenericList[Int]", "Int", "GenericList[Bool]"]  # fmt: skip
    message = [[], 3, ["0", "default_pg"], 0, "allreduce", [], [], 0, 1, ranks]
    ones = [1, 1]
    return [
        {"id": first, "name": f"ProfilerStep#{first}", "ctrl_deps": 1},
        {"id": first + 1, "name": "aten::mm", "ctrl_deps": first,
         "inputs": {"values": [[], []], "shapes": [[4, 8], [8, 2]], "types": ["Tensor(float)"] * 2}},
        {"id": first + 2, "name": "aten::convolution", "ctrl_deps": first,
         "inputs": {"values": [[], [], none, ones, ones, ones, False, [0, 0], 1],
                    "shapes": [image, kernel, *[[]] * 7], **tensors}},
        {"id": first + 3, "name": "aten::convolution_backward", "ctrl_deps": 2,  # on a thread of autograd's own
         "inputs": {"values": [[], [], [], [0], ones, ones, ones, False, [0, 0], 1, [False, True, False]],
                    "shapes": [result, image, kernel, *[[]] * 8], "types": back}},
        {"id": first + 4, "name": "c10d::allreduce_", "ctrl_deps": 2,
         "inputs": {"values": [[]], "shapes": [[[432]]], "types": ["GenericList[Tensor(float)]"]}},
        {"id": first + 5, "name": "record_param_comms", "ctrl_deps": first + 4,
         "inputs": {"values": message, "shapes": [[]] * 10, "types": ["Int"] * 10}},
    ]  # fmt: skip


def test_of_the_steps_of_an_execution_trace_one_is_listed(tmp_path):
    frames = [{"id": 1, "name": "thread", "ctrl_deps": 1}, {"id": 2, "name": "thread", "ctrl_deps": 1}]
    nodes = [*frames, *(node for first in (10, 20, 30) for node in step_of_an_execution_trace(first, 2))]
    imported = read(tmp_path, {"schema": "1.0.3-chakra.0.0.4", "nodes": nodes[:-3]})  # the last is cut off
    found = one(imported)
    assert codes(found) == {"no-times", "one-step"}
    assert found.world_size == from_json(imported.op_lists[0]).world_size == 2
    flops = 2 * 8 * 16 * 32 * 32 * 3 * 9
    assert {(row["op"], row["calls"], row.get("flops")) for row in found.rows} == {
        ("aten::mm", 1, 128.0), ("aten::convolution", 1, flops), ("aten::convolution_backward", 1, flops),
        ("c10d::allreduce_", 1, None),
    }  # fmt: skip
    unmarked = [node | {"name": node["name"].replace("ProfilerStep", "Optimizer.step#SGD")} for node in nodes]
    assert "whole-recording" in codes(read(tmp_path, {"schema": "1.1.0", "nodes": unmarked}))


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
    assert [(one.name, one.category, one.count, one.flops, one.bytes) for one in found.kernels] == [
        ("fusion.3", "matmul", 1, 2000.0, 50.0), ("all-reduce.1", "communication", 1, None, None),
    ]  # fmt: skip


def workbook(folder, sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(folder / "book.xlsx")
    return (folder / "book.xlsx").read_bytes()


def test_the_workbook_of_tracelens(tmp_path):
    content = workbook(tmp_path, {
        "gpu_timeline": [["type", "time ms", "percent"], ["computation_time", 31.5, 90.0], ["total_time", 35.0, 100.0]],
        "kernel_summary": [["Kernel name", "Kernel duration (µs)_sum", "Kernel duration (µs)_count"], ["k", 1.0, 1]],
        "unified_perf_summary": [
            ["name", "op category", "Input Dims", "operation_count", "GFLOPS", "Data Moved (MB)",
             "Kernel Time (µs)_sum"],
            ["aten::mm", "GEMM", "((8944, 1024), (1024, 2816))", 48, 51.5, 71.0, 4055.25],
            ["aten::mul", "elementwise", "((16,),)", 2, None, None, 10.0],
        ],
    })  # fmt: skip
    found = one(read(tmp_path, content))
    product, pointwise = found.kernels
    assert (product.category, product.count, product.total_s) == ("matmul", 48, pytest.approx(4055.25e-6))
    assert (product.flops, product.bytes) == (pytest.approx(48 * 51.5e9), 48 * 71.0 * 2**20)
    assert (pointwise.category, pointwise.flops) == ("elementwise", None)
    assert found.rows[0] == {"part": "computation_time", "total_s": pytest.approx(31.5e-3), "share_frac": 0.9}


def test_tracelens_says_of_a_trace_what_is_read_in_it(tmp_path):
    report = one(read(tmp_path, REFERENCE.joinpath("tools", "tracelens.xlsx").read_bytes()))
    trace = one(read(tmp_path, REFERENCE.joinpath("h200", "trace-short-1.trace.json.gz").read_bytes()))
    parts = {row["part"]: row["total_s"] for row in report.rows}
    assert parts["busy_time"] == pytest.approx(sum(kernel.total_s for kernel in trace.kernels), rel=1e-9)
    (found, *_), (wanted, *_) = (
        sorted((one.flops for one in some.kernels if one.flops and one.count == 1), reverse=True)
        for some in (report, trace)
    )
    assert found == pytest.approx(wanted, rel=1e-9)


def test_any_other_workbook_is_its_tables(tmp_path):
    content = workbook(tmp_path, {
        "notes": [["written by hand"]],
        "results": [["Sequence length", "Forward (ms)", "Backward (ms)"], [256, 1.5, 2.5], [512, 3.0, 5.0]],
    })  # fmt: skip
    found = one(read(tmp_path, content))
    assert found.label == "results"
    assert [row["forward_s"] for row in found.rows] == pytest.approx([1.5e-3, 3e-3])
    assert refusal(tmp_path, content[: len(content) // 2]).format == "workbook"
    assert refusal(tmp_path, workbook(tmp_path, {"empty": []})).format == "workbook"
