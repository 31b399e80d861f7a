"""Results of nccl-tests: every layout of its text, and its JSON."""

from __future__ import annotations

import json

import pytest

from estimator.validation.predicted_rows import predicted_table
from tests.app.importers.reading import codes, one, read, refusal

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
