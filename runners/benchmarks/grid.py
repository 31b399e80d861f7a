"""Many steps in one process: ``step`` over a grid of models, lengths, numbers and ways to run, a row for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

import torch

from estimator.scenario.breakdown import WORK_CATEGORIES, WORK_PHASES, Category
from estimator.scenario.hardware import peak_flops_per_s
from estimator.scenario.measurement import Measurement
from estimator.scenario.model import Model
from estimator.scenario.parameters import model_flops_per_token
from estimator.scenario.plan import Plan
from estimator.scenario.scenario import Scenario
from estimator.scenario.training import Training
from runners.allocation import allocator_peaks
from runners.cluster_here import cluster_here
from runners.environment import bound_bytes
from runners.job import Job
from runners.model.by_name import model_of
from runners.options import StepOptions, options_of
from runners.ranks import on_gpu
from runners.refusals import refusals
from runners.row_status import Unsupported
from runners.rows import Report, Row, Suite, begin, used_bytes
from runners.timed_step import timed_step
from runners.timing import spread_columns
from runners.trace.profile import profile
from runners.train_step import Trainer, capture, discard, one_step, prepare

DEFINITIONS = {
    "step_s": "median over steps, from an idle device to the end of zero_grad; the columns of the spread are of the "
    "same numbers",
    "forward_s, backward_s, optimizer_s": "medians of the time between events on the device (on a CPU clock readings), "
    "waiting for the host included; optimizer includes zero_grad",
    "first_step_s": "the first step of all: compiling, tuning and the optimizer's states are in it",
    "peak_bytes, forward_peak_bytes, …": "of the caching allocator in one step; null on a CPU and for CUDA graphs",
    "left_over_bytes": "held before the model was built: what earlier rows left; null on a CPU",
    "matmul_s, attention_s, elementwise_s, other_s, optimizer_busy_s": "with --profile: busy seconds of one profiled "
    "step by category; profiled after all rows are measured, because a profiler slows what follows",
    "mfu_frac": "model FLOPs (6 per matrix weight and token and 12·layers·width·length; a forward alone a third) over "
    "step_s and the dense peak of this chip in the catalogue; null where it is not there",
}


@dataclass(frozen=True, kw_only=True)
class GridCell:
    """One configuration of the grid."""

    model: Model
    seq_len: int
    micro_batch: int
    precision: str
    attention: str
    compiled: bool
    graph: bool
    mode: str
    optimizer_kernel: str
    recompute: str

    def columns(self) -> Row:
        """What is known of its row before it is measured."""
        return {
            "model": self.model.name,
            "layers": self.model.layers,
            "seq_len": self.seq_len,
            "micro_batch": self.micro_batch,
            "precision": self.precision,
            "attention": self.attention,
            "compile": self.compiled,
            "graph": self.graph,
            "mode": self.mode,
            "optimizer_kernel": self.optimizer_kernel,
            "recompute": self.recompute,
        }


def run(job: Job, report: Report) -> Measurement | None:
    """Measure every cell of the grid. Raises InputProblems."""
    options: StepOptions = options_of(job.benchmark, job.options)
    cells = cells_of(options, large=on_gpu(job.device))
    suite = begin(job, report, len(cells), options.limit_s)
    profiles: list[tuple[Row, Callable[[], Row]]] = []
    for cell in cells:
        row = suite.measure(cell.columns(), partial(_measure, suite, cell))
        if options.profile and row["status"] == "ok":
            profiles.append((row, partial(_profiled, suite, cell)))
    suite.complete(profiles)
    return suite.result(DEFINITIONS)


def cells_of(options: StepOptions, *, large: bool = False) -> list[GridCell]:
    """All combinations, those of one model together; raise InputProblems for a model that is not known.

    ``large``: sizes that are not given are such that a GPU binds.
    """
    return [
        GridCell(
            model=model,
            seq_len=seq_len,
            micro_batch=micro_batch,
            precision=precision,
            attention=attention,
            compiled=compiled == "yes",
            graph=graph == "yes",
            mode=mode,
            optimizer_kernel=kernel,
            recompute=recompute,
        )
        for model, precision, attention, recompute, kernel, compiled, graph, mode, seq_len, micro_batch in product(
            [model_of(name, options.layers) for name in options.models],
            options.precisions,
            options.attentions,
            options.recomputes,
            options.optimizer_kernels,
            options.compiles,
            options.graphs,
            options.modes,
            options.seq_lens or (1024 if large else 512,),
            options.micro_batches or (4 if large else 1,),
        )
    ]


def _built(suite: Suite, cell: GridCell) -> tuple[Trainer, bool]:
    """Model and data of a cell, and whether the catalogue knows this device; raise Unsupported."""
    ranks, job = suite.ranks, suite.job
    training = Training(
        seq_len=cell.seq_len,
        global_batch=cell.micro_batch,
        precision=cell.precision,
        attention=cell.attention,
        compile=cell.compiled,
        optimizer_kernel=cell.optimizer_kernel,
    )
    plan = Plan(micro_batch=cell.micro_batch, recompute=cell.recompute)
    cluster, known = cluster_here(ranks)
    scenario = Scenario(model=cell.model, cluster=cluster, plan=plan, training=training)
    options, memory_bytes = StepOptions(graph=cell.graph), bound_bytes(ranks.cuda)
    refused = refusals(scenario, world_size=1, cuda=ranks.cuda, options=options, memory_bytes=memory_bytes)
    if refused:
        raise Unsupported("; ".join(str(problem) for problem in refused))
    if cell.compiled:
        # What other shapes compiled must not make this one's dynamic, nor count against its limit of recompilations.
        # The compile workers stay: shutting them down may wait 300 s for them, and the watchdog ends them with the run
        torch.compiler.reset()
    trainer = prepare(scenario, ranks, job.seed, mode=cell.mode, graph=cell.graph)
    return trainer, known


def _measure(suite: Suite, cell: GridCell) -> Row:
    left_over = used_bytes(suite.ranks)
    trainer, known = _built(suite, cell)
    try:
        return {**_row(suite, cell, trainer, known), "left_over_bytes": left_over}
    finally:
        discard(trainer)


def _profiled(suite: Suite, cell: GridCell) -> Row:
    """Build it once more and profile one step."""
    trainer, _ = _built(suite, cell)
    try:
        one_step(trainer, lambda phase: None)
        if cell.graph:
            capture(trainer)
        reduced = profile(trainer)
    finally:
        discard(trainer)
    row: Row = {
        f"{category}_s": reduced.busy_s(category) for category in WORK_CATEGORIES if category != Category.OPTIMIZER
    }
    row["optimizer_busy_s"] = reduced.busy_s(Category.OPTIMIZER)
    row["kernels"] = sum(kernel.count for kernel in reduced.kernels)
    row["kernel_flops"] = sum(kernel.flops or 0.0 for kernel in reduced.kernels) or None
    return row


def _row(suite: Suite, cell: GridCell, trainer: Trainer, known: bool) -> Row:
    ranks, job, scenario = suite.ranks, suite.job, trainer.scenario
    assert scenario is not None

    first_s = timed_step(trainer)["step"]
    if cell.graph:
        capture(trainer)
    for _ in range(job.warmup):
        timed_step(trainer)
    samples = [timed_step(trainer) for _ in range(job.steps)]
    row = spread_columns([sample["step"] for sample in samples])
    step_s = row.pop("median_s")
    row = {"step_s": step_s, **row, "first_step_s": first_s}
    row |= {f"{name}_s": spread_columns([s[name] for s in samples])["median_s"] for name in WORK_PHASES}
    flops = model_flops_per_token(cell.model, cell.seq_len) * scenario.tokens / (3 if cell.mode == "forward" else 1)
    peak = peak_flops_per_s(scenario.cluster.chip, cell.precision)
    row |= {"tokens_per_s": scenario.tokens / step_s, "model_flops": flops, "model_flops_per_s": flops / step_s}
    row["mfu_frac"] = flops / step_s / peak if known and peak else None
    row["parameters"] = sum(p.numel() for p in trainer.module.parameters())
    peaks = allocator_peaks(trainer) if ranks.cuda and not cell.graph else {}
    row["peak_bytes"] = max((one["allocated_bytes"] for one in peaks.values()), default=None)
    row["reserved_bytes"] = max((one["reserved_bytes"] for one in peaks.values()), default=None)
    row |= {f"{name}_peak_bytes": peaks[name]["allocated_bytes"] if name in peaks else None for name in WORK_PHASES}
    return row
