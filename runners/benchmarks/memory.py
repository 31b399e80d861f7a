"""The ``memory`` benchmark: peaks of forward, backward and step by length and precision, and what they are made of."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

from estimator.scenario.breakdown import MEMORY_KINDS, WORK_PHASES, MemoryKind
from estimator.scenario.measurement import Measurement, Warning
from estimator.scenario.plan import Plan
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import Scenario
from estimator.scenario.training import Training
from runners.allocation import allocator_peaks, memory, resident_peak_bytes
from runners.cluster_here import cluster_here
from runners.environment import bound_bytes
from runners.job import SNAPSHOT_FILE, Job
from runners.model.by_name import model_of
from runners.options import TINY, MemoryOptions, options_of
from runners.ranks import on_gpu
from runners.refusals import refusals
from runners.row_status import Unsupported
from runners.rows import Report, Row, Suite, begin, used_bytes
from runners.snapshot import record
from runners.train_step import Trainer, discard, one_step, prepare

LARGE = "cs336-small"

DEFINITIONS = {
    "pass": "forward: under no_grad, no state of an optimizer; forward-backward: gradients are dropped after it; step: "
    "with AdamW's states, which are there from the first step on",
    "peak_bytes": "GPU: peak of the caching allocator during the pass, what was held before included; CPU: peak of "
    "live tensors as PyTorch's MemTracker counts them",
    "left_over_bytes": "held before the model was built: what earlier rows left; null on a CPU",
    "before_bytes": "held before the pass began; null on a CPU",
    "forward_peak_bytes, backward_peak_bytes, optimizer_peak_bytes": "the allocator's peak in each; null on a CPU",
    "…_bytes by kind": "what makes the peak of live tensors, by MemTracker; framework is what no tensor explains "
    "(workspaces, rounding of the allocator); kinds add to peak_bytes",
}


def run(job: Job, report: Report, trace: Path | None = None) -> Measurement | None:
    """Measure every combination; one row each. Raises InputProblems."""
    options: MemoryOptions = options_of(job.benchmark, job.options)
    if options.snapshot and trace is None:
        remedy = "Say where, with --trace: the snapshot lands beside it."
        raise InputProblems([Problem(field="options.snapshot", message="has no place to go", remedy=remedy)])
    large = on_gpu(job.device)
    models = [model_of(name) for name in options.models or (LARGE if large else TINY,)]
    sequences = options.micro_batch or (4 if large else 1)
    grid = list(
        product(models, options.attentions, options.recomputes, options.precisions, options.seq_lens, options.passes)
    )
    suite = begin(job, report, len(grid), options.limit_s)
    warnings: list[Warning] = []
    for index, (model, attention, recompute, precision, seq_len, mode) in enumerate(grid):
        training = Training(seq_len=seq_len, global_batch=sequences, precision=precision, attention=attention)
        plan = Plan(micro_batch=sequences, recompute=recompute)
        scenario = Scenario(model=model, cluster=cluster_here(suite.ranks)[0], plan=plan, training=training)
        columns: Row = {
            "model": model.name,
            "pass": mode,
            "seq_len": seq_len,
            "precision": precision,
            "attention": attention,
            "recompute": recompute,
            "micro_batch": sequences,
        }
        snapshot = trace.with_name(SNAPSHOT_FILE) if options.snapshot and trace and index == len(grid) - 1 else None
        if snapshot is not None and not suite.ranks.cuda:
            message = "the allocator of a CPU keeps no history, so there is no snapshot"
            warnings.append(Warning(code="no_snapshot", message=message))
            snapshot = None
        suite.measure(columns, _work(suite, scenario, mode, snapshot))
    return suite.result(DEFINITIONS, samples={"resident_peak_bytes": resident_peak_bytes()}, warnings=warnings)


def _work(suite: Suite, scenario: Scenario, mode: str, snapshot: Path | None) -> Callable[[], Row]:
    return lambda: _measure(suite, scenario, mode, snapshot)


def _measure(suite: Suite, scenario: Scenario, mode: str, snapshot: Path | None) -> Row:
    cuda = suite.ranks.cuda
    refused = refusals(scenario, world_size=1, cuda=cuda, memory_bytes=bound_bytes(cuda))
    if refused:
        raise Unsupported("; ".join(str(problem) for problem in refused))
    left_over = used_bytes(suite.ranks)
    trainer = prepare(scenario, suite.ranks, suite.job.seed, mode=mode)
    try:
        return {"left_over_bytes": left_over, **_row(suite, trainer, snapshot)}
    finally:
        discard(trainer)


def _row(suite: Suite, trainer: Trainer, snapshot: Path | None) -> Row:
    for _ in range(max(1, suite.job.warmup)):
        one_step(trainer, lambda phase: None)
    before = used_bytes(suite.ranks)
    peaks = allocator_peaks(trainer) if suite.ranks.cuda else {}
    if snapshot is not None:
        record(lambda: one_step(trainer, lambda phase: None), snapshot)
    found, warnings = memory(trainer, peaks)
    row: Row = {"peak_bytes": found.peak_bytes, "reserved_bytes": found.reserved_bytes, "before_bytes": before}
    for phase in WORK_PHASES:
        row[f"{phase}_peak_bytes"] = peaks[phase]["allocated_bytes"] if phase in peaks else None
    row |= {
        f"{kind}_bytes": found.by_kind.get(kind, 0.0)
        for kind in MEMORY_KINDS
        if found.by_kind and kind != MemoryKind.LOGITS
    }
    row["parameters"] = _count(trainer)
    if warnings:
        row["message"] = "; ".join(warning.message for warning in warnings)
    return row


def _count(trainer: Trainer) -> int:
    return sum(p.numel() for p in trainer.module.parameters())
