"""Flash attention: a second report of CS336's assignment 2, each of its tables predicted on its own machine.

Eager attention against FlashAttention-2 in Triton, all-reduce over gloo and NCCL, and variants of data parallelism on
two cards with 24 GB that have no peer-to-peer. Stanford CS336, spring 2025, assignment 2 (systems).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from estimator.scenario import catalog
from estimator.scenario.codec import spec
from estimator.studies import measured_tables as measured
from estimator.studies.measured_tables import CHIPS, Pair, Row
from estimator.studies.study import Figure, Result, Series
from estimator.validation.swept_attention import kept_bytes

TITLE = "Eager against Triton attention"
SUMMARY = "Attention eager and in Triton, all-reduce over gloo and NCCL, and DDP variants beside their predictions."

LONG, WIDTH, BATCH = 4096, 64, 8
SCORES_AT_ONCE = 3
"""Of the square that a softmax written out holds at once: scores, exponentials and what is divided."""
NOTES = (
    "The machine is told by what it did: 0.83 to 0.95 TB/s and 24 GB are of a GeForce RTX 4090, and 8.2 GB/s between "
    "two of them are those of PCIe through the host's memory, as these cards have no peer-to-peer.",
    "The softmax is written out: attention goes over the square of the scores 12 times forward, not 6 times.",
    "The backward of its Triton kernel is compiled PyTorch, which computes the square again: so it gains 2 to 3 times.",
    "Rows up to 1 024 tokens are the host's launches, not kernels.",
    "All-reduce is labelled MB/s and holds milliseconds.",
    "The model of the DDP variants has one weight with 99.8 % of the bytes: nothing can be hidden.",
)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the tables are predicted on; the default is the report's own machine."""

    chip: str = spec("rtx-4090", choices=CHIPS, help="of all tables")


def run(inputs: Inputs) -> Result:
    """Predict every table, conclude from prediction and measurement alike, and draw them as the report does."""
    found = measured.tables("flash-attention", lambda _: inputs.chip)
    return Result(
        study="flash-attention",
        inputs=inputs,
        figures=(*_conclusions(found, inputs), *measured.errors(found)),
        series=tuple(_series(found)),
        notes=NOTES,
    )


def _conclusions(found: list[measured.Table], inputs: Inputs) -> list[Figure]:
    figures: list[Figure] = []
    compared = [pair for pair in measured.of(found, "text/attention-implementations") if pair[0]["seq_len"] >= LONG]
    for precision in ("bf16", "fp32"):
        for part in ("forward", "backward"):
            column = f"{part}_speedup"
            pairs = [pair for pair in compared if pair[0]["precision"] == precision and pair[0].get(column)]
            pairs = [pair for pair in pairs if column in pair[1]]
            if pairs:
                medians = [statistics.median(one[column] for one in side) for side in zip(*pairs, strict=True)]
                figures += measured.both(
                    f"Triton makes attention's {part} in {precision} from {LONG} on faster by", medians[0], medians[1]
                )
    chip = catalog.chip(inputs.chip)
    lengths = sorted({row["seq_len"] for row, _ in measured.of(found, "text/attention")})
    ran = [row["seq_len"] for row, _ in measured.of(found, "text/attention") if row["status"] == "ok"]
    fits = [
        length for length in lengths
        if SCORES_AT_ONCE * float(kept_bytes(BATCH, length, WIDTH)) <= chip.memory_bytes
    ]  # fmt: skip
    figures += measured.both("longest attention that fits", max(ran), max(fits, default=0), "tokens")
    collectives = measured.of(found, "text/collectives")
    pair = measured.ratio(
        collectives, "mean_s", lambda row: row["backend"] == "gloo", lambda row: row["backend"] == "nccl",
        ("world_size", "size_bytes"),
    )  # fmt: skip
    figures += measured.both("NCCL makes an all-reduce of two ranks faster than gloo by", *pair)
    variants = measured.of(found, "text/data-parallel-variants")
    for size in (1000, 5000):
        for mode in ("flat", "overlapped", "bucketed"):
            means = [_mean(variants, size, "naive", at) / _mean(variants, size, mode, at) for at in (0, 1)]
            figures += measured.both(f"{mode} against naive at n = {size}, times as fast", means[0], means[1])
    return figures


def _named(name: str) -> Callable[[Row], str]:
    return lambda _: name


def _mean(pairs: list[Pair], size: int, mode: str, at: int) -> float:
    column = "backward_communication_s"
    return statistics.fmean(
        pair[at][column] for pair in pairs if pair[0]["model_size"] == size and pair[0]["ddp_mode"] == mode
    )


def _series(found: list[measured.Table]) -> list[Series]:
    series: list[Series] = []
    compared = [pair for pair in measured.of(found, "text/attention-implementations") if pair[0]["d_model"] == WIDTH]
    for precision in ("bf16", "fp32"):
        own = [pair for pair in compared if pair[0]["precision"] == precision]
        for part in ("forward", "backward", "forward_backward"):
            for name in ("torch", "triton"):
                series += measured.lines(
                    f"{part.replace('_', ' and ')} of width {WIDTH} by length, {precision}", own, "seq_len",
                    f"{name}_{part}_s", _named(name), x_label="tokens", y_label="ms",
                )  # fmt: skip
    attention = measured.of(found, "text/attention")
    for column in ("forward_s", "forward_backward_s"):
        series += measured.lines(
            f"eager attention, {column.removesuffix('_s').replace('_', ' and ')} by length", attention, "seq_len",
            column, lambda row: f"d {row['d_model']}", x_label="tokens", y_label="ms",
        )  # fmt: skip
    series += measured.lines(
        "memory of eager attention before backward by length", attention, "seq_len", "memory_before_backward_bytes",
        lambda row: f"d {row['d_model']}", x_label="tokens", y_label="GB", scale=1e-9,
    )  # fmt: skip
    series += measured.lines(
        "all-reduce by size", measured.of(found, "text/collectives"), "size_bytes", "mean_s",
        lambda row: f"{row['backend']}, {row['world_size']} ranks", x_label="bytes", y_label="ms",
    )  # fmt: skip
    variants = measured.of(found, "text/data-parallel-variants")
    series += measured.bars(
        "backward with its exchange",
        [
            (f"n = {size}, {mode}", 1e3 * _mean(variants, size, mode, 0), 1e3 * _mean(variants, size, mode, 1))
            for size in (50, 1000, 5000)
            for mode in ("naive", "flat", "overlapped", "bucketed")
        ],
        "ms",
    )
    return series
