"""The ``ulysses`` benchmark: one attention layer over a sequence that is split over ranks, step by step.

Ulysses (Jacobs 2023, arXiv 2309.14509) exchanges heads for sequence before attention and back after it. Forward only.
The core ``scores`` is two products without softmax, scale and mask, whose score matrix is the layer's peak; ``eager``
adds a causal softmax, ``fused`` is causal scaled_dot_product_attention. Ring attention stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from estimator.scenario.measurement import Measurement
from estimator.scenario.problems import InputProblems, Problem
from runners.job import Job
from runners.options import UlyssesOptions, options_of
from runners.parallel.ring import block_for, ring_attention
from runners.ranks import Ranks, gather, synchronize
from runners.rows import Report, Row, Suite, begin, peak_bytes, reset_peak
from runners.timing import between, spread_columns, stamp

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
SHAPES = {"cpu": (512, 64, 8), "cuda": (16_384, 4096, 32)}
"""Tokens, width and heads where the options leave them out."""

DEFINITIONS = {
    "flops": "of this rank, two for each multiply-add, attention over the full square also where it is causal; "
    "flops_all_ranks is the sum over ranks",
    "shape, elements, bytes": "of the tensor that the step makes, on this rank",
    "running_peak_bytes": "the most that the allocator held since the layer began, as the step ends, in the first "
    "pass; null on a CPU",
    "sent_bytes": "what this rank sends to other ranks in the step",
    "median_s": "median over passes of the slowest rank, between events on the device; the spread is of these too",
}


@dataclass(kw_only=True)
class Layer:
    """A pass through the layer: what each step made, and when."""

    ranks: Ranks
    seq_len: int
    hidden: int
    heads: int
    dtype: torch.dtype
    facts: list[Row] = field(default_factory=list)
    stamps: list[Any] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Ranks that share the sequence."""
        return self.ranks.world_size

    def note(self, step: str, made: Tensor, *, flops: float = 0.0, sent: float = 0.0) -> None:
        """End a step."""
        self.stamps.append(stamp(self.ranks.cuda))
        self.facts.append(
            {
                "step": step,
                "shape": "x".join(str(n) for n in made.shape),
                "elements": made.numel(),
                "bytes": made.numel() * made.element_size(),
                "flops": flops,
                "flops_all_ranks": flops * self.size,
                "sent_bytes": sent,
                "running_peak_bytes": peak_bytes(self.ranks),
            }
        )


def run(job: Job, report: Report, trace: Path | None = None) -> Measurement | None:
    """Measure the layer with every core, then the ring; one row per step. Raises InputProblems."""
    options: UlyssesOptions = options_of(job.benchmark, job.options)
    cores = [*options.cores, *(["ring"] if options.ring else [])]
    suite = begin(job, report, len(cores), options.limit_s)
    seq_len, hidden, heads = SHAPES["cuda" if suite.ranks.cuda else "cpu"]
    layer = {
        "seq_len": options.seq_len or seq_len,
        "hidden": options.hidden or hidden,
        "heads": options.heads or heads,
    }
    _refuse(layer, suite.ranks)
    torch.set_float32_matmul_precision("high" if options.precision == "tf32" else "highest")
    for core in cores:
        columns: Row = {"core": core, "ranks": suite.ranks.world_size, **layer, "precision": options.precision}
        suite.measure(columns, _work(suite, core, layer, DTYPES[options.precision]))
    torch.set_float32_matmul_precision("highest")
    return suite.result(DEFINITIONS)


def _work(suite: Suite, core: str, shape: dict[str, int], dtype: torch.dtype) -> Callable[[], list[Row]]:
    return lambda: _measure(suite, core, shape, dtype)


@torch.no_grad()
def _measure(suite: Suite, core: str, shape: dict[str, int], dtype: torch.dtype) -> list[Row]:
    ranks, job = suite.ranks, suite.job
    reset_peak(ranks)
    layer = Layer(ranks=ranks, dtype=dtype, seq_len=shape["seq_len"], hidden=shape["hidden"], heads=shape["heads"])
    inputs = made_inputs(layer)
    layer.note("init", inputs[0])
    one_pass = ring_pass if core == "ring" else ulysses_pass
    one_pass(layer, core, *inputs)
    facts = layer.facts
    times: list[list[float]] = []
    for _ in range(job.warmup + job.steps):
        layer.facts, layer.stamps = [], []
        synchronize(ranks)
        if ranks.world_size > 1:
            dist.barrier()
            synchronize(ranks)
        layer.stamps.append(stamp(ranks.cuda))
        one_pass(layer, core, *inputs)
        synchronize(ranks)
        marks = layer.stamps
        times.append([between(marks[i], marks[i + 1]) for i in range(len(marks) - 1)])
    times = times[job.warmup :]
    width = len(times[0])
    by_rank = gather(ranks, [value for one in times for value in one])
    slowest = [[max(row[p * width + i] for row in by_rank) for p in range(len(times))] for i in range(width)]
    totals = [max(sum(row[p * width : (p + 1) * width]) for row in by_rank) for p in range(len(times))]
    rows = [facts[0]]
    rows += [{**fact, **spread_columns(values)} for fact, values in zip(facts[1:], slowest, strict=True)]
    names = ("flops", "flops_all_ranks", "sent_bytes")
    total = {name: sum(fact[name] for fact in facts) for name in names}
    peak = facts[-1]["running_peak_bytes"]
    return [*rows, {"step": "layer", **total, "running_peak_bytes": peak, **spread_columns(totals)}]


def made_inputs(layer: Layer) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """This rank's tokens, and the four weights, whole on every rank and equal on all of them."""
    generator = torch.Generator(layer.ranks.device).manual_seed(0)
    width = layer.hidden // layer.heads
    scale = 1 / math.sqrt(layer.hidden)
    factory: dict[str, Any] = {"device": layer.ranks.device, "dtype": layer.dtype}
    weights = [torch.empty(layer.heads, layer.hidden, width, **factory) for _ in range(3)]
    proj = torch.empty(layer.heads, width, layer.hidden, **factory)
    for weight in (*weights, proj):
        weight.normal_(std=scale, generator=generator)
    tokens = torch.empty(layer.seq_len // layer.size, layer.hidden, **factory)
    tokens.normal_(generator=generator.manual_seed(1 + layer.ranks.rank))
    q, k, v = weights
    return tokens, q, k, v, proj


def ulysses_pass(layer: Layer, core: str, x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, proj: Tensor) -> Tensor:
    """One forward pass: heads are spread instead of tokens while attention runs."""
    ranks, tokens, heads = layer.size, layer.seq_len // layer.size, layer.heads // layer.size
    width = layer.hidden // layer.heads
    q, k, v = (torch.matmul(x, weight) for weight in (wq, wk, wv))
    layer.note("q, k, v", q, flops=3 * 2.0 * tokens * layer.hidden**2)
    q_, k_, v_ = (torch.empty(ranks, heads, tokens, width, device=x.device, dtype=x.dtype) for _ in range(3))
    for target, source in ((q_, q), (k_, k), (v_, v)):
        exchange(target, source, layer)
    away = (ranks - 1) / ranks * q.numel() * q.element_size()
    layer.note("all-to-all q, k, v", q_, sent=3 * away)
    q_ = q_.transpose(0, 1).reshape(heads, layer.seq_len, width)
    k_ = k_.transpose(0, 1).reshape(heads, layer.seq_len, width)
    v_ = v_.transpose(0, 1).reshape(heads, layer.seq_len, width)
    layer.note("reshape q, k, v", q_)
    product = 2.0 * heads * layer.seq_len**2 * width
    c = _core(layer, core, q_, k_, v_, product)
    c = c.transpose(0, 1).contiguous()
    layer.note("transpose c", c)
    c_ = torch.empty(ranks, tokens, heads, width, device=x.device, dtype=x.dtype)
    exchange(c_, c, layer)
    layer.note("all-to-all c", c_, sent=away)
    c_ = c_.transpose(0, 1).reshape(tokens, layer.hidden)
    layer.note("reshape c", c_)
    output = torch.matmul(c_, proj.reshape(layer.hidden, layer.hidden))
    layer.note("output", output, flops=2.0 * tokens * layer.hidden**2)
    return output


def _core(layer: Layer, core: str, q: Tensor, k: Tensor, v: Tensor, product: float) -> Tensor:
    if core == "fused":
        c = F.scaled_dot_product_attention(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), is_causal=True).squeeze(0)
        layer.note("fused attention", c, flops=2 * product)
        return c
    a = torch.matmul(q, k.transpose(1, 2))
    layer.note("A = q·kᵀ", a, flops=product)
    if core == "eager":
        mask = torch.full(a.shape[1:], -math.inf, device=a.device, dtype=a.dtype).triu(1)
        a = F.softmax(a.mul_(q.shape[-1] ** -0.5).add_(mask), dim=-1)
        layer.note("softmax", a)
    c = torch.matmul(a, v)
    layer.note("c = A·v", c, flops=product)
    return c


def ring_pass(layer: Layer, core: str, x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, proj: Tensor) -> Tensor:
    """One forward pass with all heads on every rank, keys and values going round."""
    del core
    tokens, width = layer.seq_len // layer.size, layer.hidden // layer.heads
    q, k, v = (torch.matmul(x, weight) for weight in (wq, wk, wv))
    layer.note("q, k, v", q, flops=3 * 2.0 * tokens * layer.hidden**2)
    c = ring_attention(q, k, v, layer.ranks, block_for(q))
    sent = (layer.size - 1) * 2.0 * k.numel() * k.element_size()
    layer.note("ring attention", c, flops=4.0 * layer.heads * tokens * layer.seq_len * width, sent=sent)
    c = c.transpose(0, 1).reshape(tokens, layer.hidden)
    layer.note("reshape c", c)
    output = torch.matmul(c, proj.reshape(layer.hidden, layer.hidden))
    layer.note("output", output, flops=2.0 * tokens * layer.hidden**2)
    return output


def exchange(target: Tensor, source: Tensor, layer: Layer) -> None:
    """All-to-all of equal parts along the first dimension; alone a copy."""
    if layer.size == 1:
        target.copy_(source.reshape(target.shape))
    else:
        dist.all_to_all_single(target, source.contiguous())


def _refuse(shape: dict[str, int], ranks: Ranks) -> None:
    size = ranks.world_size
    found = []
    if shape["hidden"] % shape["heads"]:
        found.append(("heads", f"{shape['heads']} heads do not divide hidden = {shape['hidden']}"))
    found += [
        (name, f"{size} ranks do not divide {name} = {shape[name]}")
        for name in ("heads", "seq_len")
        if shape[name] % size
    ]
    if found:
        remedy = "Choose a multiple."
        raise InputProblems([Problem(field=f"options.{name}", message=text, remedy=remedy) for name, text in found])
