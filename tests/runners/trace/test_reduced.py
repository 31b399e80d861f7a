"""A trace of one step becomes kernels and seconds in which nothing is counted twice."""

from __future__ import annotations

import gzip
import json

import pytest
from torch.utils.flop_counter import FlopCounterMode

from runners.ranks import Ranks
from runners.trace.profile import profiled_events
from runners.trace.reduced import reduce_trace
from runners.train_step import one_step, prepare
from tests.runners.examples import ROOT, scenario

GEMM = "nvjet_sm90_tst_128x256_64x4_1x2_h_bz_coopA_TNT"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def op(identity, name, ts, dur, dims=(), types=(), tid=1):
    arguments = {"External id": identity, "Input Dims": list(dims), "Input type": list(types)}
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid, "args": arguments}


def kernel(identity, name, launched, ts, dur, stream=7, cat="kernel"):
    """A kernel and the runtime call that launched it."""
    correlation = {"correlation": 1000 * identity + ts, "External id": identity}
    launch = {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": "cudaLaunchKernel",
        "ts": launched,
        "dur": 1,
        "pid": 1,
        "tid": 1,
    }
    body = {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 0, "tid": stream}
    return [{**launch, "args": correlation}, {**body, "args": {**correlation, "stream": stream}}]


def phase(name, ts, dur):
    return {"ph": "X", "cat": "user_annotation", "name": f"phase:{name}", "ts": ts, "dur": dur, "pid": 1, "tid": 1}


GPU_STEP = [
    {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
    phase("forward", 0, 10),
    phase("backward", 10, 10),
    phase("optimizer", 20, 10),
    op(1, "aten::mm", 1, 2, [[64, 32], [32, 16]], ["c10::BFloat16"] * 2),
    *kernel(1, GEMM, 2, 100, 40),
    *kernel(1, "void splitKreduce_kernel<32, 16>", 2, 140, 10),
    op(2, "aten::mul", 12, 2, [[64, 16], [64, 16]], ["float"] * 2, tid=2),
    *kernel(2, ADD, 13, 150, 20),
    *kernel(3, NCCL, 14, 160, 40, stream=9),
    op(4, "aten::addcdiv_", 21, 2, [[64], [64]], ["float"] * 2),
    *kernel(4, ADD, 22, 220, 30),
    *kernel(5, "Memcpy DtoD (Device -> Device)", 15, 205, 5, cat="gpu_memcpy"),
]


def test_device_kernels_count_once_and_communication_only_where_nothing_else_runs():
    phases = reduce_trace(GPU_STEP).phases_s
    assert phases["forward"] == pytest.approx({"matmul": 50e-6})
    assert phases["backward"] == pytest.approx({"elementwise": 20e-6, "communication": 30e-6, "other": 5e-6})
    assert phases["optimizer"] == pytest.approx({"optimizer": 30e-6})


def test_a_product_is_shared_by_the_kernels_that_compute_it():
    kernels = {kernel.name: kernel for kernel in reduce_trace(GPU_STEP).kernels}
    flops, moved = 2 * 64 * 32 * 16, 2 * (64 * 32 + 32 * 16 + 64 * 16)
    assert kernels[GEMM].flops == pytest.approx(flops * 0.8)
    assert kernels["void splitKreduce_kernel<32, 16>"].flops == pytest.approx(flops * 0.2)
    assert kernels[GEMM].bytes == pytest.approx(moved * 0.8)
    assert kernels[NCCL].flops is None
    assert kernels[NCCL].total_s == pytest.approx(40e-6)


def test_the_optimizers_plain_kernels_are_told_from_the_others_of_that_name():
    found = {(kernel.name, kernel.category) for kernel in reduce_trace(GPU_STEP).kernels}
    assert {(ADD, "elementwise"), (ADD, "optimizer")} <= found


def test_overlapping_kernels_on_two_streams_fill_no_second_twice():
    events = [phase("forward", 0, 10), *kernel(1, GEMM, 1, 100, 40), *kernel(2, ADD, 2, 120, 40, stream=8)]
    assert reduce_trace(events).phases_s["forward"] == pytest.approx({"matmul": 40e-6, "elementwise": 20e-6})


def test_score_matrix_ops_are_attention_where_its_shape_is_known():
    masked = [op(1, "aten::add", 1, 2, [[2, 4, 32, 32], [32, 32]], ["float"] * 2), *kernel(1, ADD, 2, 100, 10)]
    other = [op(2, "aten::add", 4, 2, [[2, 32, 64], [64]], ["float"] * 2), *kernel(2, ADD, 5, 120, 10)]
    product = [op(3, "aten::bmm", 7, 2, [[8, 32, 16], [8, 16, 32]], ["float"] * 2), *kernel(3, GEMM, 8, 140, 10)]
    events = [phase("forward", 0, 10), *masked, *other, *product]
    known, unknown = (reduce_trace(events, scores).phases_s["forward"] for scores in ((8, 32), None))
    assert known == pytest.approx({"attention": 20e-6, "elementwise": 10e-6})
    assert unknown == pytest.approx({"elementwise": 20e-6, "matmul": 10e-6})


def test_without_a_device_ops_count_by_their_self_time():
    events = [
        phase("forward", 0, 100),
        op(1, "aten::linear", 0, 50, [[4, 8], [16, 8], []], ["float"] * 2),
        op(2, "aten::addmm", 5, 40, [[16], [4, 8], [8, 16]], ["float"] * 3),
        op(3, "aten::empty", 6, 4),
        op(4, "aten::mul", 60, 10, [[4], [4]], ["float"] * 2),
    ]
    reduced = reduce_trace(events)
    assert reduced.phases_s["forward"] == pytest.approx({"matmul": 36e-6, "elementwise": 10e-6, "host": 14e-6})
    assert reduced.busy_s("matmul") == pytest.approx(36e-6)
    assert [(k.name, k.flops) for k in reduced.kernels if k.flops] == [("aten::addmm", 2 * 4 * 8 * 16)]


def test_a_real_gpus_trace_gives_flops_to_every_product_and_a_category_to_nearly_all():
    events = json.loads(gzip.decompress((ROOT / "tests/reference/kineto/h200_ddp.json.gz").read_bytes()))["traceEvents"]
    reduced = reduce_trace(events)
    products = [kernel for kernel in reduced.kernels if kernel.category in ("matmul", "attention")]
    assert len(products) > 10
    assert all(kernel.flops and kernel.bytes for kernel in products)
    # Two layers of 8 heads of 64 over 2 sequences of 256, forward 4 and backward 10 for each element of the causal half
    attention = sum(kernel.flops for kernel in products if kernel.category == "attention")
    assert attention == pytest.approx(0.5 * 2 * 14 * 2 * 8 * 256 * 256 * 64)
    assert reduced.busy_s("communication") > 0
    unnamed = {kernel.name for kernel in reduced.kernels if kernel.category == "other"}
    assert unnamed == {"Memcpy DtoD (Device -> Device)", "Memset (Device)"}


def test_a_gpus_trace_without_kernels_does_not_count_the_hosts_ops():
    events = [phase("forward", 0, 100), op(1, "aten::mm", 0, 50, [[4, 8], [8, 16]], ["float"] * 2)]
    assert reduce_trace(events, device=True).kernels == ()
    assert reduce_trace(events).busy_s("matmul") == pytest.approx(50e-6)


def test_a_trace_without_events_is_an_idle_step():
    reduced = reduce_trace([])
    assert (reduced.kernels, reduced.phases_s) == ((), {})


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_real_steps_kernels_hold_all_the_flops_that_torch_counts(attention):
    chosen = scenario(training={"attention": attention})
    trainer = prepare(chosen, Ranks(), seed=0)
    reduced = reduce_trace(profiled_events(False, lambda: one_step(trainer, lambda name: None)), (8, 32))
    with FlopCounterMode(display=False) as counter:
        one_step(trainer, lambda name: None)
    flops = sum(kernel.flops for kernel in reduced.kernels if kernel.flops)
    square = chosen.model.layers * 2 * 4 * 32 * 32 * 16
    # torch's counter knows no formula for the fused kernel of CPUs: 4 and 10 per element of the half that is causal
    assert flops == counter.get_total_flops() + (14 * square / 2 if attention == "sdpa" else 0)
    assert reduced.busy_s("attention") > 0
    assert reduced.busy_s("optimizer") > 0
    assert {"forward", "backward", "optimizer"} <= set(reduced.phases_s)
