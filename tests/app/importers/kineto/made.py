"""A GPU trace built from the documented fields, with exact times, so that every sum can be checked."""

from __future__ import annotations

from typing import Any

HOST, ENGINE, COMPUTE, NCCL = 100, 200, 7, 17
STEP_US = 10_000.0


def trace(steps: int = 3, **changes: Any) -> dict[str, Any]:
    """Steps of 10 ms, each: forward 1.0 ms matmul + 0.5 ms attention, backward 2.0 ms matmul with 1.5 ms of all-reduce
    of which 0.5 ms overlaps it, optimizer 0.3 ms; so exposed communication 1.0 ms and 5.2 ms of waiting."""
    events: list[dict[str, Any]] = [meta()]
    for i in range(steps):
        events += step(i)
    document: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": [
            {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000, "numSms": 132,
             "computeMajor": 9, "computeMinor": 0}
        ],
        "record_shapes": 1,
        "host_name": "secret-host",
        "distributedInfo": {
            "backend": "nccl", "rank": 1, "world_size": 4, "nccl_version": "2.20.5",
            "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 4, "ranks": [0, 1, 2, 3]}],
        },
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "traceEvents": events,
        "traceName": "/home/secret-user/trace.json",
    }  # fmt: skip
    return document | changes


def meta() -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "ts": 0.0, "pid": 1, "tid": 0, "args": {"name": "python"}}


def step(i: int) -> list[dict[str, Any]]:
    at = 1000.5 + STEP_US * i
    base = 1000 * (i + 1)
    found = [
        mark(f"ProfilerStep#{i + 5}", at, STEP_US),
        mark("Optimizer.step#AdamW.step", at + 6000, 500),
        op("aten::linear", at + 10, 200, base + 1, HOST, [[64, 256], [512, 256], []]),
        op("aten::mm", at + 20, 100, base + 2, HOST, [[64, 256], [256, 512]]),
        op("aten::_flash_attention_forward", at + 300, 100, base + 3, HOST, [[2, 128, 8, 64]] * 3),
        op("autograd::engine::evaluate_function: MmBackward0", at + 2000, 800, base + 4, ENGINE, None),
        op("aten::mm", at + 2100, 100, base + 5, ENGINE, [[256, 64], [64, 512]]),
        op("record_param_comms", at + 2300, 50, base + 6, ENGINE, [[[1000]], [], []]),
        op("aten::add_", at + 6100, 50, base + 7, HOST, [[512, 256], [512, 256], []]),
    ]
    found += launch(
        "ampere_bf16_s16816gemm_bf16_128x64", at + 50, at + 100, 1000.25, base + 2, base + 12, "cuda_driver"
    )
    found += launch("flash_fwd_kernel<Flash_fwd_kernel_traits>", at + 350, at + 1200, 500.0, base + 3, base + 13)
    found += launch(
        "ampere_bf16_s16816gemm_bf16_64x64", at + 2150, at + 3000, 2000.0, base + 5, base + 15, thread=ENGINE
    )
    message = {
        "Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 4,
        "dtype": "BFloat16",
        "Process Group Ranks": "[0, 1, 2, 3]",
    }  # fmt: skip
    found += launch(
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        at + 2320, at + 4500, 1500.0, base + 6, base + 16, thread=ENGINE, stream=NCCL, **message,
    )  # fmt: skip
    found += launch(
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
        at + 6110, at + 6200, 300.0, base + 7, base + 17,
    )  # fmt: skip
    return found


def mark(name: str, ts: float, dur: float) -> dict[str, Any]:
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": HOST, "ts": ts, "dur": dur, "args": {}}


def op(name: str, ts: float, dur: float, external: int, thread: int, dims: Any) -> dict[str, Any]:
    args: dict[str, Any] = {"External id": external, "Ev Idx": external}
    if dims is not None:
        args |= {"Input Dims": dims, "Input type": ["c10::BFloat16"] * len(dims), "Concrete Inputs": [""] * len(dims)}
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": thread, "ts": ts, "dur": dur, "args": args}


def launch(
    kernel: str, called: float, ts: float, dur: float, external: int, correlation: int, cat: str = "cuda_runtime",
    thread: int = HOST, stream: int = COMPUTE, **args: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    """A launch, its arrow, and the kernel."""
    return [
        {"ph": "X", "cat": cat, "name": "cuLaunchKernelEx" if cat == "cuda_driver" else "cudaLaunchKernel", "pid": 1,
         "tid": thread, "ts": called, "dur": 5.0,
         "args": {"External id": external, "cbid": 1, "correlation": correlation}},
        {"ph": "s", "id": correlation, "pid": 1, "tid": thread, "ts": called, "cat": "ac2g", "name": "ac2g"},
        {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": stream, "ts": ts, "dur": dur,
         "args": {"External id": external, "queued": 0, "device": 0, "context": 1, "stream": stream,
                  "correlation": correlation, "grid": [1, 1, 1], **args}},
    ]  # fmt: skip


def kernels(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in document["traceEvents"] if event.get("cat") == "kernel"]
