"""The ``probe`` benchmark: this machine's peaks in a few seconds, as a chip of the catalogue.

A peak is the best of several runs: what the machine can do, not what it does on average. On a CPU ``cpu_share_frac``
says how much of it the products got: processor time over wall time and the threads that can run at once, below 1 where
others compute too.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from estimator.scenario.breakdown import Category
from estimator.scenario.codec import encode
from estimator.scenario.hardware import Chip
from estimator.scenario.model import Model
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from runners.environment import clock_hz, device, environment, l2_bytes
from runners.job import write_atomically
from runners.model.training import batch, loss_of
from runners.model.transformer import build
from runners.processor import cpus_available
from runners.ranks import Ranks, join, synchronize
from runners.trace.profile import profiled_events
from runners.trace.reduced import reduce_trace

SCHEMA_VERSION = 1
MATMUL_SIZES = {"cpu": (256, 512, 1024, 2048), "cuda": (2048, 4096, 8192)}
COPY_BYTES = {"cpu": 2**28, "cuda": 2**31}
LAUNCHES = 1000
WHOLE_SHARE_FRAC = 0.9
"""Less of the processors' time than this, and others computed too; products alone on two cores had 0.995 of it."""

TINY = Model(layers=4, hidden=64, heads=4, ffn=128, vocab=64)
TINY_TRAINING = Training(seq_len=16, global_batch=1, precision="fp32", attention="sdpa")


def run(out: Path, seconds: float, device_word: str) -> int:
    """Probe for about ``seconds`` and write {"chip", "host", "device", "environment", "samples"} to ``out``."""
    ranks = join(device_word)
    write_atomically(out, probe(ranks, seconds))
    return 0


def probe(ranks: Ranks, seconds: float) -> dict[str, Any]:
    """Measure matrix products, memory bandwidth and the host's time per kernel, sharing ``seconds`` among them."""
    kind = "cuda" if ranks.cuda else "cpu"
    precisions = ["fp32", "bf16", "fp16"] + (["tf32"] if ranks.cuda else [])
    share = seconds / (len(precisions) + 2)
    sizes = MATMUL_SIZES[kind]
    found = {name: _matmuls(ranks, name, sizes, share) for name in precisions}
    samples: dict[str, Any] = {f"{name}_matmul_flops_per_s": rates for name, (rates, _) in found.items()}
    if not ranks.cuda:
        samples["cpu_share_frac"] = max(cpu_share_frac for _, cpu_share_frac in found.values())
        if samples["cpu_share_frac"] < WHOLE_SHARE_FRAC:
            samples |= _single_thread(ranks, precisions, sizes, share)
    copies = _copy_bytes_per_s(ranks, COPY_BYTES[kind], share)
    samples["copy_bytes_per_s"] = {"count": len(copies), "median": statistics.median(copies), "maximum": max(copies)}
    host = _host_seconds(ranks, share)
    if ranks.cuda:
        host["kernel_launch_s"] = _launch_seconds(ranks)
    here = device(ranks.cuda)
    peaks = {
        name: max(rate for key, rates in samples.items() if key.startswith(f"{name}_matmul") for rate in rates.values())
        for name in precisions
    }
    chip = Chip(
        name="cpu" if kind == "cpu" else "this-gpu",
        label=f"This {'CPU' if kind == 'cpu' else 'GPU'} ({here['name']}, {here['compute_units']} units)",
        fp32_flops_per_s=peaks["fp32"],
        tf32_flops_per_s=peaks.get("tf32", 0.0),
        fp16_flops_per_s=peaks["fp16"],
        bf16_flops_per_s=peaks["bf16"],
        memory_bytes=here["memory_bytes"],
        memory_bytes_per_s=max(copies),
        compute_units=here["compute_units"],
        clock_hz=clock_hz(ranks.cuda),
        l2_bytes=l2_bytes(ranks.cuda),
        chips_per_node=max(1, torch.cuda.device_count()) if ranks.cuda else 1,
        link="loopback",
        network="loopback",
        kind="cpu" if kind == "cpu" else "gpu",
        efficiency="cpu" if kind == "cpu" else "default",
    )
    return {
        "schema_version": SCHEMA_VERSION,
        "chip": encode(chip),
        "host": host,
        "device": here,
        "environment": environment(ranks.cuda),
        "samples": samples,
    }


def _single_thread(ranks: Ranks, precisions: list[str], sizes: tuple[int, ...], share: float) -> dict[str, Any]:
    """Rates of one thread, which waits for no other: where these take turns with other programs, a better bound."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    found = {f"{name}_matmul_1_flops_per_s": _matmuls(ranks, name, sizes, share)[0] for name in precisions}
    torch.set_num_threads(threads)
    return found


def _matmuls(ranks: Ranks, precision: str, sizes: tuple[int, ...], seconds: float) -> tuple[dict[str, float], float]:
    """Best rate of square products by size: 2·n³ / time, growing n while the time lasts; and their share of the CPU.

    The share is that of the size that has most of it: small products do not use every thread of a large machine.
    """
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    end = time.perf_counter() + seconds
    found: dict[str, float] = {}
    previous_s = cpu_share_frac = 0.0
    for size in sizes:
        left = end - time.perf_counter()
        if found and 3 * 8 * previous_s > left:
            break  # the next size takes eight times as long and runs at least three times
        a, b, out = (torch.randn(size, size, device=ranks.device).to(dtype) for _ in range(3))
        begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
        previous_s = min(_repeat(ranks, partial(torch.mm, a, b, out=out), left / 2))
        whole_s = (time.perf_counter() - begin_s) * min(torch.get_num_threads(), cpus_available())
        cpu_share_frac = max(cpu_share_frac, (time.process_time() - begin_cpu_s) / whole_s)
        found[str(size)] = 2.0 * size**3 / previous_s
    torch.set_float32_matmul_precision("highest")
    return found, cpu_share_frac


def _copy_bytes_per_s(ranks: Ranks, size_bytes: int, seconds: float) -> list[float]:
    """Bytes read and written per second by copies of a tensor that no cache holds."""
    source = torch.ones(size_bytes // 4, device=ranks.device)
    target = torch.zeros_like(source)
    return [2.0 * size_bytes / t for t in _repeat(ranks, lambda: target.copy_(source), seconds)]


def _host_seconds(ranks: Ranks, seconds: float) -> dict[str, float]:
    """Host time per kernel of an eager model too small to keep a device busy, forward and backward apart."""
    torch.manual_seed(0)
    module = build(TINY, TINY_TRAINING, Plan(), ranks.device)
    tokens, targets = batch(TINY, TINY_TRAINING, Plan(), ranks.device)
    forward: list[float] = []
    backward: list[float] = []
    end = time.perf_counter() + seconds
    while len(forward) < 10 or time.perf_counter() < end:
        synchronize(ranks)
        begin = time.perf_counter()
        loss = loss_of(module, tokens, targets)
        synchronize(ranks)
        middle = time.perf_counter()
        torch.autograd.backward(loss)
        synchronize(ranks)
        forward.append(middle - begin)
        backward.append(time.perf_counter() - middle)
        module.zero_grad(set_to_none=True)
    forward_kernels = _kernels(ranks, lambda: loss_of(module, tokens, targets))
    all_kernels = _kernels(ranks, lambda: torch.autograd.backward(loss_of(module, tokens, targets)))
    return {
        "forward_s_per_kernel": statistics.median(forward) / forward_kernels,
        "backward_s_per_kernel": statistics.median(backward) / (all_kernels - forward_kernels),
        "forward_kernels": forward_kernels,
        "backward_kernels": all_kernels - forward_kernels,
    }


def _kernels(ranks: Ranks, work: Callable[[], Any]) -> int:
    """Count device kernels, or on a CPU the ops that compute."""
    reduced = reduce_trace(profiled_events(ranks.cuda, work), device=ranks.cuda)
    return max(1, sum(kernel.count for kernel in reduced.kernels if kernel.category != Category.HOST))


def _launch_seconds(ranks: Ranks) -> float:
    """Host time of one bare kernel launch from Python."""
    x = torch.zeros(1, device=ranks.device)
    for _ in range(LAUNCHES // 10):
        x.add_(1.0)
    synchronize(ranks)
    begin = time.perf_counter()
    for _ in range(LAUNCHES):
        x.add_(1.0)
    took = time.perf_counter() - begin
    synchronize(ranks)
    return took / LAUNCHES


def _repeat(ranks: Ranks, work: Callable[[], Any], seconds: float) -> list[float]:
    """Times of single calls after one to warm up, at least two of them, until ``seconds`` are over."""
    end = time.perf_counter() + seconds
    work()
    times: list[float] = []
    while len(times) < 2 or time.perf_counter() < end:
        synchronize(ranks)
        begin = time.perf_counter()
        work()
        synchronize(ranks)
        times.append(time.perf_counter() - begin)
    return times
