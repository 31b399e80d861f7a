"""The ``ddp`` benchmark: training one model spread over all ranks, one row for each way, by phase."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import torch

from estimator.scenario.breakdown import WORK_PHASES, Category, Phase
from estimator.scenario.measurement import Measurement
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from runners.job import Job
from runners.model.by_name import model_of
from runners.options import TINY, DdpOptions, options_of
from runners.parallel.variants import EXCHANGE, Marks, Spread, Variant, VariantSetting, parse, prepare
from runners.ranks import Ranks, gather, on_gpu, synchronize
from runners.rows import Report, Row, Suite, begin, peak_bytes, reset_peak, used_bytes
from runners.timing import between, spread_columns, stamp
from runners.trace.profile import profiled_events
from runners.trace.reduced import reduce_trace

PHASES = (Phase.FORWARD, Phase.BACKWARD, EXCHANGE, Phase.OPTIMIZER)

ALWAYS = (
    "single",
    "naive",
    "flat",
    "overlapped",
    "bucketed:1",
    "bucketed:25",
    "bucketed:100",
    "bucketed:1000",
    "torch-ddp:25",
    "torch-ddp:100",
    "zero1",
    "fsdp",
    "fsdp:no-reshard",
    "fsdp:mixed",
    "tp",
    "tp:sequence",
)
PIPELINES = ("pp:gpipe:{m}", "pp:1f1b:{m}", "pp:interleaved:{m}", "pp:zero-bubble:{m}", "pp:zero-bubble-v:{m}")

LARGE = "cs336-large"

DEFINITIONS = {
    "step_s": "median over steps of the slowest rank, from an idle device to the end of zero_grad; the columns of the "
    "spread are of the same numbers",
    "forward_s, backward_s, optimizer_s": "median over steps of the mean over ranks, between events on the device (on "
    "a CPU clock readings); a pipeline's are the sums over this rank's micro-batches; communication that runs inside a "
    "phase (FSDP, tensor parallel, buckets beside backward) belongs to it",
    "communication_wait_s": "from the end of backward until all gradients are averaged: the whole exchange where it "
    "starts after backward (naive, flat, zero1), only its tail where it overlaps; not a measure of bandwidth there",
    "exposed_communication_s": "median step minus median step without the exchange, not below zero: what overlap costs "
    "backward is in it; null where the exchange cannot be left out",
    "profiled_exposed_s": "seconds of a profiled step on rank 0 in which communication ran and nothing else did, its "
    "waiting for other ranks included; profiled after all rows are measured, because a profiler slows what follows",
    "bubble_s": "of a pipeline: step minus forward, backward and optimizer, the mean over ranks: waiting for other "
    "stages, and sending",
    "global_batch": "sequences of one step over all ranks; tensor parallel ranks share a batch, pipeline stages too",
    "parameters": "numbers that this rank holds, the largest over ranks",
    "peak_bytes": "of the caching allocator, the largest over ranks; null on a CPU",
    "left_over_bytes": "held on rank 0 before the model was built: what earlier rows left; null on a CPU",
    "loss": "mean over the ranks that have one, after the last measured step",
}


def run(job: Job, report: Report, trace: Path | None = None) -> Measurement | None:
    """Measure every variant with every model, length and precision; rows on rank 0. Raises InputProblems."""
    options: DdpOptions = options_of(job.benchmark, job.options)
    texts = options.variants or every_variant(job.world_size)
    variants = [parse(text) for text in texts]
    large = on_gpu(job.device)  # sizes at which the device binds
    models = [model_of(name, options.layers) for name in options.models or (LARGE if large else TINY,)]
    lengths, sequences = options.seq_lens or (1024 if large else 512,), options.micro_batch or (4 if large else 1)
    cells = list(product(models, lengths, options.precisions, variants))
    suite = begin(job, report, len(cells), options.limit_s)
    profiles: list[tuple[Row, Callable[[], Row]]] = []
    for model, seq_len, precision, variant in cells:
        training = Training(seq_len=seq_len, global_batch=sequences, precision=precision, attention=options.attention)
        setting = VariantSetting(model=model, training=training, plan=Plan(micro_batch=sequences), seed=job.seed)
        row = suite.measure(columns_of(variant, setting, suite.ranks), partial(_measure, suite, variant, setting))
        if options.profile and row["status"] == "ok":
            profiles.append((row, partial(_profiled, suite, variant, setting)))
    suite.complete(profiles)
    return suite.result(DEFINITIONS)


def every_variant(world_size: int) -> tuple[str, ...]:
    """All ways that this many ranks can be used; pipelines with twice as many micro-batches as ranks."""
    if world_size == 1:
        return ("single",)
    return (*ALWAYS, *(text.format(m=2 * world_size) for text in PIPELINES))


def columns_of(variant: Variant, setting: VariantSetting, ranks: Ranks) -> Row:
    """What is known of a row before it is measured."""
    columns: Row = {
        "variant": variant.text,
        "kind": variant.kind,
        "model": setting.model.name,
        "layers": setting.model.layers,
        "seq_len": setting.training.seq_len,
        "micro_batch": setting.plan.micro_batch,
        "precision": setting.training.precision,
        "attention": setting.training.attention,
        "ranks": ranks.world_size,
    }
    if variant.kind in ("bucketed", "torch-ddp"):
        columns["bucket_bytes"] = variant.bucket_bytes
    if variant.kind == "pp":
        columns |= {"schedule": variant.schedule, "micro_batches": variant.micro_batches}
        columns["virtual_stages"] = variant.virtual_stages
    return columns


def _measure(suite: Suite, variant: Variant, setting: VariantSetting) -> Row:
    ranks = suite.ranks
    reset_peak(ranks)
    left_over = used_bytes(ranks)
    spread = prepare(variant, setting, ranks)
    try:
        return {**_row(suite, variant, setting, spread), "left_over_bytes": left_over}
    finally:
        spread.discard()


def _row(suite: Suite, variant: Variant, setting: VariantSetting, spread: Spread) -> Row:
    ranks, job = suite.ranks, suite.job
    _steps(spread, ranks, job.warmup)
    samples = _steps(spread, ranks, job.steps)
    peak, loss = peak_bytes(ranks), spread.last_loss()
    quiet = _steps(spread, ranks, job.steps, communicate=False) if spread.silent and variant.kind != "single" else []
    facts = gather(ranks, [peak or -1.0, float(spread.parameters), math.nan if loss is None else float(loss)])
    peaks, parameters, losses = zip(*facts, strict=True)
    steps_s, phases = _combined(ranks, samples)
    spread_of_steps = spread_columns(steps_s)
    step_s = spread_of_steps.pop("median_s")
    row: Row = {"step_s": step_s, **spread_of_steps}
    row |= {f"{name}_s": phases[name] for name in WORK_PHASES}
    row["communication_wait_s"] = phases[EXCHANGE] if spread.silent or variant.kind == "zero1" else None
    without = statistics.median(_combined(ranks, quiet)[0]) if quiet else None
    row["step_without_communication_s"] = without
    row["exposed_communication_s"] = None if without is None else max(0.0, step_s - without)
    row["profiled_exposed_s"] = None
    busy = sum(phases[name] for name in WORK_PHASES)
    row["bubble_s"] = max(0.0, step_s - busy) if variant.kind == "pp" else None
    row["global_batch"] = spread.global_batch
    row["tokens_per_s"] = spread.global_batch * setting.training.seq_len / step_s
    row["parameters"] = int(max(parameters))
    row["peak_bytes"] = max(peaks) if peak is not None else None
    told = [value for value in losses if math.isfinite(value)]
    row["loss"] = statistics.fmean(told) if told else None
    return row


def _steps(spread: Spread, ranks: Ranks, count: int, *, communicate: bool = True) -> list[dict[str, float]]:
    """Run steps one by one, each from an idle device; seconds of all and of each phase."""
    found = []
    for _ in range(count):
        marks = Marks(cuda=ranks.cuda)
        synchronize(ranks)
        if ranks.world_size > 1:
            torch.distributed.barrier()
            synchronize(ranks)
        begin_mark = stamp(ranks.cuda)
        spread.step(marks, communicate)
        end_mark = stamp(ranks.cuda)
        synchronize(ranks)
        found.append({"step": between(begin_mark, end_mark), **marks.seconds()})
    return found


def _combined(ranks: Ranks, samples: list[dict[str, float]]) -> tuple[list[float], dict[str, float]]:
    """Of every step the slowest rank; of every phase the median over steps of the mean over ranks."""
    names = ("step", *PHASES)
    flat = gather(ranks, [sample.get(name, 0.0) for sample in samples for name in names])
    steps = [
        [dict(zip(names, row[i : i + len(names)], strict=True)) for row in flat]
        for i in range(0, len(flat[0]), len(names))
    ]
    steps_s = [max(rank["step"] for rank in step) for step in steps]
    phases = {
        name: statistics.median(statistics.fmean(rank[name] for rank in step) for step in steps) for name in PHASES
    }
    return steps_s, phases


def _profiled(suite: Suite, variant: Variant, setting: VariantSetting) -> Row:
    """Build it once more and profile one step."""
    ranks = suite.ranks
    spread = prepare(variant, setting, ranks)
    try:
        _steps(spread, ranks, 1)
        events = profiled_events(ranks.cuda, lambda: spread.step(Marks(cuda=ranks.cuda), True))
    finally:
        spread.discard()
    scores = (setting.plan.micro_batch * setting.model.heads, setting.training.seq_len)
    return {"profiled_exposed_s": reduce_trace(events, scores, device=ranks.cuda).busy_s(Category.COMMUNICATION)}
