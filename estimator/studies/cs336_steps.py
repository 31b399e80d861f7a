"""CS336 steps: a report of assignment 2, each of its tables predicted on its own machine, and what it concludes.

Steps of five models, attention alone, torch.compile and autocast on an A100; all-reduce and data parallelism on faster
cards. Stanford CS336, spring 2025, assignment 2 (systems).
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from estimator.scenario import catalog
from estimator.scenario.codec import spec
from estimator.studies import measured_tables as measured
from estimator.studies.measured_tables import CHIPS, Pair, Row
from estimator.studies.study import Figure, Result, Series

TITLE = "Steps of a CS336 report"
SUMMARY = (
    "Measured step times, attention, torch.compile, autocast, all-reduce and DDP beside their predictions. Those under "
    "autocast are far too short: the report's host takes more than three times as long for a layer of few tokens."
)

PARALLEL = ("text/collectives", "text/data-parallel-steps")
PARTS = ("forward_s", "backward_s", "communication_wait_s", "optimizer_s")
NOTES = (
    "The part on one GPU is of an A100 with 80 GB: kernels are named ampere_, fp32 without tensor cores reaches 17 of "
    "19.5 TFLOP/s, and cuBLAS keeps 8.125 MiB. The data parallel part is of faster cards: the same model at the same "
    "length reaches 33.6 TFLOP/s, more than the first card's peak.",
    "Small models at short lengths are bound by the host: 2.1 ms for each layer, 3.8 ms under the profiler and 4.4 ms "
    "under autocast on the machine of the report, more than the host of the reference series needs.",
    "Attention keeps softmax's output, q, k, v, its output and two workspaces of cuBLAS: all rows to the printed "
    "digit, and of the peaks all but three, which hold a buffer of 256 MiB of the autotuner.",
    "The first two runs under data parallelism do not say how they exchange; by their waits they overlap.",
)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the tables are predicted on; the defaults are the report's own machines."""

    chip: str = spec("a100-80gb-sxm", choices=CHIPS, help="of the tables on one GPU")
    parallel_chip: str = spec("h100-sxm", choices=CHIPS, help="of all-reduce and data parallelism")


def run(inputs: Inputs) -> Result:
    """Predict every table, conclude from prediction and measurement alike, and draw them as the report does."""
    found = measured.tables("cs336-steps", lambda form: inputs.parallel_chip if form in PARALLEL else inputs.chip)
    steps = measured.of(found, "text/step-times")
    attention = measured.of(found, "text/attention", "torch_compile")
    parallel = measured.of(found, "text/data-parallel-steps")
    return Result(
        study="cs336-steps",
        inputs=inputs,
        figures=(*_conclusions(steps, attention, parallel, found), *measured.errors(found)),
        series=tuple(_series(found, parallel)),
        notes=(*_autocast(steps), *NOTES),
    )


def _autocast(steps: list[Pair]) -> list[str]:
    """How far steps under autocast are off, and why: where a forward is as long at every length, its host binds."""
    rows = [pair for pair in steps if pair[0]["precision"] == "bf16-amp"]
    off = [100 * (should[name] / row[name] - 1) for row, should in rows for name in should]
    short = [(row, should) for row, should in rows if row["model"] == "large" and row["seq_len"] <= 512]
    layers = catalog.model("cs336-large").layers
    each_ms = [
        [1e3 * one["forward_s"] / layers for one in side if "forward_s" in one] for side in zip(*short, strict=True)
    ]
    if not off or not all(each_ms):
        return []
    measured_ms, predicted_ms = (f"{min(one):.1f} to {max(one):.1f} ms" for one in each_ms)
    return [
        f"Times under autocast (bf16) are predicted off by {statistics.median(off):+.0f} % in the median, from "
        f"{min(off):+.0f} to {max(off):+.0f} %. The report's host is the cause: the forward of large takes "
        f"{measured_ms} for each layer at 128, 256 and 512 tokens alike, so it waits for the host, which by the "
        f"reference series lets it take {predicted_ms}. A report does not say how quick its host is; a calibration by "
        f"probes would."
    ]


def _model(row: Row) -> str:
    return str(row["model"])


def _model_and_precision(row: Row) -> str:
    return f"{row['model']} {row['precision']}"


def _compiled(row: Row) -> bool:
    return bool(row.get("compile"))


def _conclusions(
    steps: list[Pair], attention: list[Pair], parallel: list[Pair], found: list[measured.Table]
) -> list[Figure]:
    case = ("model", "seq_len", "precision")
    figures: list[Figure] = []
    compiled = measured.of(found, "text/step-times", "torch_compile")
    for column, words in (("forward_s", "forward"), ("step_s", "step")):
        pair = measured.ratio(compiled, column, lambda row: not _compiled(row), _compiled, case)
        figures += measured.both(f"torch.compile makes the {words} of 2.7B faster by", *pair)
    for length in (128, 1024):
        pairs = [pair for pair in steps if pair[0]["model"] == "large" and pair[0]["seq_len"] == length]
        pair = measured.ratio(
            pairs, "forward_s", lambda row: row["precision"] == "fp32",
            lambda row: str(row["precision"]).startswith("bf16"), ("model", "seq_len"),
        )  # fmt: skip
        figures += measured.both(f"autocast makes the forward of large at {length} faster by", *pair)
    long = [pair for pair in attention if pair[0]["seq_len"] >= 4096]
    for column, words in (("forward_s", "forward"), ("backward_s", "backward")):
        pair = measured.ratio(long, column, lambda row: not _compiled(row), _compiled, ("d_model", "seq_len"))
        figures += measured.both(f"torch.compile makes attention's {words} from 4096 on faster by", *pair)
    pair = measured.ratio(
        parallel, "step_s", lambda row: row["ddp_mode"] == "naive", lambda row: row["ddp_mode"] == "overlapped",
        ("model",),
    )  # fmt: skip
    figures += measured.both("overlap makes the step of data parallelism faster by", *pair)
    for mode in ("naive", "overlapped"):
        rows = [pair for pair in parallel if pair[0]["ddp_mode"] == mode and pair[1]]
        if rows:
            shares = [
                100 * statistics.fmean(one["communication_wait_s"] / one["step_s"] for one in side)
                for side in zip(*rows, strict=True)
            ]
            figures += measured.both(f"share of a step that waits for communication, {mode}", shares[0], shares[1], "%")
    return figures


def _series(found: list[measured.Table], parallel: list[Pair]) -> list[Series]:
    series: list[Series] = []
    for title, name in (("benchmarking_script", "fp32"), ("benchmarking_mixed_precision", "autocast and fp32")):
        pairs = measured.of(found, "text/step-times", title)
        for column in ("forward_s", "backward_s"):
            group = f"{column.removesuffix('_s')} by length, {name}"
            series += measured.lines(
                group, pairs, "seq_len", column,
                _model_and_precision if "autocast" in group else _model,
                x_label="tokens", y_label="ms",
            )  # fmt: skip
    pairs = measured.of(found, "text/attention", "pytorch_attention")
    for column in ("forward_s", "backward_s"):
        series += measured.lines(
            f"attention, {column.removesuffix('_s')} by length", pairs, "seq_len", column,
            lambda row: f"d {row['d_model']}", x_label="tokens", y_label="ms",
        )  # fmt: skip
    series += measured.lines(
        "memory of attention before backward by length", pairs, "seq_len", "memory_before_backward_bytes",
        lambda row: f"d {row['d_model']}", x_label="tokens", y_label="GB", scale=1e-9,
    )  # fmt: skip
    speedups = measured.of(found, "text/speedups")
    series += measured.bars(
        "torch.compile, attention's forward",
        [
            (f"d {row['d_model']}, {row['seq_len']}", row.get("forward_speedup"), should.get("forward_speedup"))
            for row, should in speedups
        ],
        "times as fast",
    )
    series += measured.lines(
        "all-reduce by size", measured.of(found, "text/collectives"), "size_bytes", "mean_s",
        lambda row: f"{row['world_size']} ranks", x_label="bytes", y_label="ms",
    )  # fmt: skip
    series += measured.stacks(
        "a step under data parallelism", parallel, PARTS, lambda at, row: f"{at + 1}. {row.get('ddp_mode', '')}"
    )
    return series
