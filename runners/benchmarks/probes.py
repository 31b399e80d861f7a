"""The ``probes`` benchmark: the calibration ladder of a device, from which ``headroom calibrate`` fits efficiencies."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path

import torch

from estimator.scenario.measurement import Measurement
from runners.benchmarks.collectives import DEFINITIONS as COLLECTIVE_DEFINITIONS
from runners.benchmarks.collectives import SIZES_BYTES, Groups, measure_cells
from runners.host_pace import backward_pace_s, host_pace_s
from runners.job import Job
from runners.options import COLLECTIVES, ProbesOptions, options_of
from runners.probes import LADDERS
from runners.probes.probe import Probe
from runners.ranks import gather
from runners.rows import Report, Row, Suite, begin, release
from runners.timing import spread_columns, time_calls

MOST_CALLS = 50
SAMPLE_S = 0.002
"""About how long a sample should take: shorter calls are timed several in a row."""

FEWEST = 3
"""Samples of a visit at least."""

HOST_LADDERS = ("launch", "runtime")
"""Ladders that the host binds: its pace stands beside each of their rows."""

RESTING = ("gemm", "attention")
"""Ladders whose samples are as far apart as they are long. Without rest a GPU at its power limit lowers its clock: H200
multiplied 8192³ in 1.64 ms, with kernels of memory between in 1.45 to 1.50, as a step has them, with rests in 1.40."""

DEFINITIONS = {
    "median_s": "median over samples of one call; a sample is calls_per_sample calls in a row between two events on "
    "the device (on a CPU clock readings), over inputs that rotate so that no cache holds them; every rank measures "
    "its own device, the rows are rank 0's",
    "host_pace_s": "of rows that the host binds: seconds of an op on a host tensor of 64 numbers, the mean of those "
    "read before and after",
    "host_backward_pace_s": "the same in the thread in which autograd works backward",
    "pace_readings": "how often both were read; of models and blocks before each sample as well",
    "host_paces_by_rank_s, host_backward_paces_by_rank_s": "of what ranks do together, both of every rank",
    "gemm": "m tokens, k inputs, n outputs; forward X·Wᵀ, input-gradient G·W, weight-gradient Gᵀ·X; 2·m·n·k FLOPs",
    "attention": "causal; FLOPs count the full square: 4·B·h·S²·D forward, 14·B·h·S²·D forward and backward",
    "elementwise, reduction, copy": "bytes read and written in device memory, a copy to or from the host counted once",
    "launch": "seconds of `kernels` launches in a row, or of a model of `layers` blocks too small to fill a device",
    "optimizer": "7 reads or writes for each parameter, whatever the implementation moves",
    "collective": "rows of the collectives benchmark: " + COLLECTIVE_DEFINITIONS["rows"],
}


def run(job: Job, report: Report, trace: Path | None = None) -> Measurement | None:
    """Climb the ladders asked for within ``limit_s``; probes of the ladders take turns, so that each gets a share.

    Collectives too: they stand evenly among the others, every kind at the smallest and largest payload first.
    """
    options: ProbesOptions = options_of(job.benchmark, job.options)
    suite = begin(job, report, 0, options.limit_s)
    cuda = suite.ranks.cuda
    # all sizes take a CPU 20 minutes and more, and it takes no calibration
    small = options.sizes == "few" or (options.sizes == "default" and not cuda)
    probes = [list(LADDERS[name](cuda, small)) for name in options.ladders if name in LADDERS]
    order = revisited([probe for turn in zip_longest(*probes) for probe in turn if probe is not None])
    library = "nccl" if cuda else "gloo"
    sizes = SIZES_BYTES[library][: 2 if small else None]
    world = suite.ranks.world_size
    cells = [(library, world, kind, size) for size in apart_first(sizes) for kind in COLLECTIVES]
    if world == 1 or "collective" not in options.ladders:
        cells = []
    groups: Groups = {}
    measured = 0
    suite.total = len(order) + len(cells)
    suite.tidy = False  # hundreds of short probes: collecting garbage after each would take longer than they do
    for index, probe in enumerate(order):
        due = index * len(cells) // len(order)
        measure_cells(suite, cells[measured:due], "bf16", groups)
        measured = due
        if index % 50 == 49:
            suite.note_clocks()
            release(suite.ranks)
        columns: Row = {"ladder": probe.ladder, **probe.columns, "precision": probe.precision}
        suite.measure(columns, _work(suite, probe))
    torch.set_float32_matmul_precision("highest")
    release(suite.ranks)
    measure_cells(suite, cells[measured:], "bf16", groups)
    for row in suite.rows:
        row.setdefault("ladder", "collective")
    return suite.result(DEFINITIONS)


def revisited(order: Sequence[Probe]) -> list[Probe]:
    """Probes in their order, with the further visits of some spread evenly between and behind all others."""
    again = [
        probe
        for visit in range(1, max((p.visits for p in order), default=1))
        for probe in order
        if probe.visits > visit
    ]
    apart = len(order) / (len(again) + 1)
    found: list[Probe] = []
    for index, probe in enumerate(order):
        due = int(index / apart)
        found += [*again[len(found) - index : due], probe]
    return [*found, *again[len(found) - len(order) :]]


def apart_first(sizes: Sequence[int]) -> list[int]:
    """Both ends, then the middle of what lies between, and so on: the first few say most of a line."""
    found, spans = [sizes[0], sizes[-1]], [(0, len(sizes) - 1)]
    for low, high in spans:
        middle = (low + high) // 2
        if low < middle < high:
            found.append(sizes[middle])
            spans += [(low, middle), (middle, high)]
    return list(dict.fromkeys(found))


def _work(suite: Suite, probe: Probe) -> Callable[[], Row]:
    def work() -> Row:
        ranks = suite.ranks
        torch.set_float32_matmul_precision("high" if probe.precision == "tf32" else "highest")
        call = probe.build(ranks.device)
        try:
            return _timed(suite, probe, call)
        finally:
            getattr(call, "close", lambda: None)()

    return work


def _timed(suite: Suite, probe: Probe, call: Callable[[], object]) -> Row:
    ranks = suite.ranks
    call()
    if ranks.cuda:
        torch.cuda.synchronize()
    of_host = probe.ladder in HOST_LADDERS
    paces_s: list[float] = []
    backward_s: list[float] = []

    def note() -> None:
        paces_s.append(host_pace_s())
        backward_s.append(backward_pace_s(ranks.device))

    if of_host:
        note()
    begin_s = time.perf_counter()
    time_calls(ranks, call, warmup=1, repeats=1)
    once_s = max(1e-7, (time.perf_counter() - begin_s) / 2)
    calls = 1 if probe.meets else max(1, min(MOST_CALLS, int(SAMPLE_S / once_s)))
    rests = ranks.cuda and probe.ladder in RESTING
    # What ranks do together takes seconds a visit: fewer samples in each leave time for more of them, when the host is
    # at another speed.
    repeats = max(FEWEST, suite.job.steps // probe.visits) if probe.meets else suite.job.steps
    lasts = of_host and "layers" in probe.columns
    times = time_calls(ranks, call, warmup=suite.job.warmup, repeats=repeats, calls=calls, rest=rests,
                       before=note if lasts else None)  # fmt: skip
    row = {**spread_columns(times), "calls_per_sample": calls}
    if of_host:
        note()
        row["host_pace_s"], row["host_backward_pace_s"] = statistics.fmean(paces_s), statistics.fmean(backward_s)
        row["pace_readings"] = len(paces_s)
    if of_host and probe.meets:
        by_rank = gather(ranks, [row["host_pace_s"], row["host_backward_pace_s"]])
        row["host_paces_by_rank_s"], row["host_backward_paces_by_rank_s"] = map(list, zip(*by_rank, strict=True))
    median_s = row["median_s"]
    if probe.flops:
        row |= {"flops": probe.flops, "flops_per_s": probe.flops / median_s}
    if probe.bytes:
        row |= {"bytes": probe.bytes, "bytes_per_s": probe.bytes / median_s}
    if "kernels" in probe.columns:
        row["launch_s"] = median_s / probe.columns["kernels"]
    if probe.count is not None:
        row |= probe.count(call)
    return row
