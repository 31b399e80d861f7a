"""The ``attention`` benchmark: one attention, forward and backward, by implementation, head dimension and length."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from estimator.scenario.measurement import Measurement
from runners.flash.attention import flash_attention, unsupported
from runners.job import Job
from runners.options import AttentionOptions, options_of
from runners.ranks import Ranks, synchronize
from runners.refusals import has_compiler
from runners.row_status import Unsupported
from runners.rows import Report, Row, Suite, begin, peak_bytes, release, reset_peak, used_bytes
from runners.timing import between, spread_columns, stamp

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
Inputs = tuple[Tensor, Tensor, Tensor, Tensor]

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
BACKENDS = {
    "sdpa-flash": SDPBackend.FLASH_ATTENTION,
    "sdpa-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "sdpa-cudnn": SDPBackend.CUDNN_ATTENTION,
    "sdpa-math": SDPBackend.MATH,
}
NO_KERNEL_SIGNS = ("No viable backend", "No available kernel")
PASSES = {"forward": 1.0, "backward": 2.5, "both": 3.5}
"""Passes and their products in units of the forward's: the backward computes the scores again and has four more."""

GPU_GRID: dict[str, Any] = {
    "dims": (64, 128), "seq_lens": (1024, 4096, 16384), "precisions": ("bf16",), "tokens": 16384, "width": 2048
}  # fmt: skip
CPU_GRID: dict[str, Any] = {
    "dims": (16, 32), "seq_lens": (64, 128), "precisions": ("fp32", "bf16"), "tokens": 128, "width": 64
}  # fmt: skip

HEAD_START_CYCLES = 4_000_000
"""The device waits so long (two milliseconds) before a sample, so that the host is done launching when it begins."""

DEFINITIONS = {
    "rows": "one for each implementation, configuration and pass; times are medians over samples that take turns "
    "among input_sets sets of random inputs",
    "forward": "with what the backward needs being kept; both is forward and backward in one sample",
    "seconds": "GPU: between events in the stream, begun after a wait of the device in which the host launches; "
    "CPU: the clock",
    "flops": "of two products of all queries with all keys, 4·batch·heads·S²·D, half of it where causal; times 2.5 in "
    "the backward, whatever an implementation computes",
    "memory_before_backward_bytes": "what the caching allocator holds after one forward, inputs and their gradient "
    "included; peak_bytes is its peak in that forward and backward; nothing on a CPU",
    "speedup_over_naive": "naive's median over this one's, in the same run and configuration",
    "naive": "scores, mask, softmax and product as four eager operations; compiled is the same under torch.compile",
    "triton": "the kernels of runners.flash",
}


def run(job: Job, report: Report, trace: Path | None = None) -> Measurement | None:
    """Measure every implementation in every configuration; raises InputProblems."""
    options: AttentionOptions = options_of(job.benchmark, job.options)
    suite = begin(job, report, 0, options.limit_s)
    cells = list(configurations(options, suite.ranks.cuda))
    suite.total = len(cells) * len(options.implementations) * len(PASSES)
    if suite.ranks.rank == 0:
        for name, words in DEFINITIONS.items():
            print(f"{name}: {words}", file=sys.stderr)
    before = torch.get_float32_matmul_precision()
    for columns in cells:
        torch.set_float32_matmul_precision("high" if columns["precision"] == "tf32" else "highest")
        naive_s: dict[str, float] = {}
        for name in options.implementations:
            _measure(suite, {"implementation": name, **columns}, options, naive_s)
        suite.note_clocks()
    torch.set_float32_matmul_precision(before)
    return suite.result(DEFINITIONS, samples={"input_sets": options.input_sets})


def configurations(options: AttentionOptions, cuda: bool) -> Iterator[Row]:
    """The grid; batch and heads follow from a number of tokens and a width where they are not given."""
    grid = GPU_GRID if cuda else CPU_GRID
    dims, lengths = options.dims or grid["dims"], options.seq_lens or grid["seq_lens"]
    for precision, dim, length, causal in product(
        options.precisions or grid["precisions"], dims, lengths, options.causals
    ):
        yield {
            "precision": precision,
            "batch": options.batch or max(1, grid["tokens"] // length),
            "heads": options.heads or max(1, grid["width"] // dim),
            "seq_len": length,
            "head_dim": dim,
            "causal": causal == "yes",
        }


def forward_flops(columns: Row) -> float:
    """FLOPs of the forward as DEFINITIONS has them."""
    full = 4.0 * float(columns["batch"] * columns["heads"] * columns["seq_len"] ** 2 * columns["head_dim"])
    return full / 2 if columns["causal"] else full


def _measure(suite: Suite, columns: Row, options: AttentionOptions, naive_s: dict[str, float]) -> None:
    """Add the rows of one implementation in one configuration; each pass may fail by itself."""
    memory: Row = {}
    made: list[tuple[Attention, list[Inputs]]] = []

    def ready() -> tuple[Attention, list[Inputs]]:
        if not made:
            attention = implementation(columns, suite.ranks)
            memory.update(_memory(attention, columns, suite.ranks))
            made.append((attention, [inputs(columns, suite.ranks) for _ in range(options.input_sets)]))
        return made[0]

    for name, share in PASSES.items():
        flops = share * forward_flops(columns)

        def work(name: str = name, flops: float = flops) -> Row:
            seconds = spread_columns(_timed(name, *ready(), suite))
            if columns["implementation"] == "naive":
                naive_s[name] = seconds["median_s"]
            found: Row = {**seconds, **memory, "flops": flops, "flops_per_s": flops / seconds["median_s"]}
            if name in naive_s:
                found["speedup_over_naive"] = naive_s[name] / seconds["median_s"]
            return found

        suite.measure({**columns, "pass": name}, work)
    made.clear()
    release(suite.ranks)


def implementation(columns: Row, ranks: Ranks) -> Attention:
    """The function to measure; raises Unsupported where this device, library or version does not have it."""
    name, causal = columns["implementation"], columns["causal"]
    if name in BACKENDS:
        return _sdpa(BACKENDS[name], causal)
    if name == "triton":
        reason = unsupported(torch.device(ranks.device), columns["head_dim"])
        if reason:
            raise Unsupported(reason)
        return lambda q, k, v: flash_attention(q, k, v, causal=causal)
    hidden = None
    if causal:
        length = columns["seq_len"]
        hidden = torch.ones((length, length), dtype=torch.bool, device=ranks.device).triu(1)

    def naive(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        return torch.softmax(scores, -1) @ v

    if name == "naive":
        return naive
    if not ranks.cuda and not has_compiler():
        raise Unsupported("torch.compile needs a C++ compiler on a CPU")
    torch.compiler.reset()  # or the second shape would be compiled as one of unknown size
    compiled: Attention = torch.compile(naive, dynamic=False)
    return compiled


def _sdpa(backend: SDPBackend, causal: bool) -> Attention:
    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with warnings.catch_warnings(), sdpa_kernel(backend):
            warnings.simplefilter("ignore")  # where it has no kernel it says why in warnings, then raises
            try:
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            except RuntimeError as error:
                if any(sign in str(error) for sign in NO_KERNEL_SIGNS):
                    message = (
                        f"torch has no such kernel for {q.dtype}, head dimension {q.shape[-1]}, on {q.device.type}"
                    )
                    raise Unsupported(message) from None
                raise

    return attention


def inputs(columns: Row, ranks: Ranks) -> Inputs:
    """Random q, k, v and the gradient of the output."""
    shape = (columns["batch"], columns["heads"], columns["seq_len"], columns["head_dim"])
    q, k, v, dout = (torch.randn(shape, device=ranks.device).to(DTYPES[columns["precision"]]) for _ in range(4))
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), dout


def _memory(attention: Attention, columns: Row, ranks: Ranks) -> Row:
    """Read the allocator around one forward and backward, on inputs of their own; on a CPU there is none to read."""
    if not ranks.cuda:
        return {"memory_before_backward_bytes": None, "peak_bytes": None}
    q, k, v, dout = inputs(columns, ranks)
    for last in (False, True):  # the first makes workspaces and compiles
        release(ranks)
        reset_peak(ranks)
        out = attention(q, k, v)
        synchronize(ranks)
        before = used_bytes(ranks)
        out.backward(dout)  # type: ignore[no-untyped-call]
        synchronize(ranks)
        if last:
            return {"memory_before_backward_bytes": before, "peak_bytes": peak_bytes(ranks)}
        q.grad = k.grad = v.grad = None
        del out
    raise AssertionError


def _timed(name: str, attention: Attention, sets: list[Inputs], suite: Suite) -> list[float]:
    """Seconds of each sample of one pass."""
    ranks, job, seconds = suite.ranks, suite.job, []
    for sample in range(job.warmup + job.steps):
        q, k, v, dout = sets[sample % len(sets)]
        out = attention(q, k, v) if name == "backward" else None
        synchronize(ranks)
        if ranks.cuda:
            torch.cuda._sleep(HEAD_START_CYCLES)  # type: ignore[no-untyped-call]
        first = stamp(ranks.cuda)
        if out is None:
            out = attention(q, k, v)
        if name != "forward":
            torch.autograd.grad(out, (q, k, v), dout)
        last = stamp(ranks.cuda)
        synchronize(ranks)
        if sample >= job.warmup:
            seconds.append(between(first, last))
        del out
    return seconds
