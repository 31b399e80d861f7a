"""The ``collectives`` benchmark: how long one takes against payload, ranks and library, and the bandwidth of it."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from estimator.scenario.measurement import MeasuredCollective, Measurement
from estimator.scenario.problems import InputProblems, Problem
from runners.job import Job
from runners.options import CollectivesOptions, options_of
from runners.parallel.collectives import PAYLOADS, caller, traffic
from runners.ranks import Ranks, gather
from runners.row_status import Unsupported
from runners.rows import Report, Row, Suite, begin, release
from runners.timing import spread_columns, time_calls

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
SIZES_BYTES = {
    "gloo": tuple(2**power for power in range(10, 25, 2)),
    "nccl": tuple(2**power for power in range(10, 31, 2)),
}
LONG_BYTES = 4 * 2**20
"""A sample of a smaller payload is the mean of several calls in a row, so that the launch of one is hidden."""
MOST_CALLS = 20

DEFINITIONS = {
    "bytes": "; ".join(f"{kind}: {words}" for kind, words in PAYLOADS.items()),
    "rows": "one for each configuration and rank: minimum, median, mean and maximum over samples of that rank; all "
    "ranks start a sample together; a sample is the mean of calls_per_sample calls in a row",
    "algorithm_bytes_per_s": "bytes / the median of the slowest rank",
    "bus_bytes_per_s": "algorithm bandwidth times 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and "
    "all-to-all, 1 for broadcast and p2p, as nccl-tests define it: comparable with the bandwidth of the link",
    "units": "bytes are bytes and seconds are seconds: 1 GB/s is 1e9 bytes per second",
    "gloo": "on a machine with GPUs gloo sends tensors in host memory",
}


def run(job: Job, report: Report, trace: Path | None = None) -> Measurement | None:
    """Measure every configuration; rows by rank, ``collectives`` one summary each. Raises InputProblems."""
    options: CollectivesOptions = options_of(job.benchmark, job.options)
    sizes = options.group_sizes or _doubling(job.world_size)
    too_large = [size for size in sizes if size > job.world_size]
    if too_large:
        message = f"{too_large[0]} ranks, but {job.world_size} processes run"
        problem = Problem(field="options.group_sizes", message=message, remedy="Start more processes, or choose fewer.")
        raise InputProblems([problem])
    suite = begin(job, report, 0, options.limit_s)
    libraries = options.libraries or (("nccl",) if suite.ranks.cuda else ("gloo",))
    cells = [
        (library, size, kind, payload)
        for library in libraries
        for size in sizes
        for kind in options.kinds
        if kind != "p2p" or size == min(sizes)
        for payload in options.sizes_bytes or SIZES_BYTES[library]
    ]
    suite.total = len(cells)
    if suite.ranks.rank == 0:
        for name, words in DEFINITIONS.items():
            print(f"{name}: {words}", file=sys.stderr)
    measure_cells(suite, cells, options.dtype)
    return suite.result(DEFINITIONS)


Groups = dict[tuple[str, int], dist.ProcessGroup | None]
"""Those that were made, by library and ranks."""


def measure_cells(
    suite: Suite, cells: list[tuple[str, int, str, int]], dtype: str, groups: Groups | None = None
) -> None:
    """Add rows and summaries for (library, ranks, kind, bytes); groups are made once and kept in ``groups``."""
    groups = {} if groups is None else groups
    for library, size, kind, payload in cells:
        if (library, size) not in groups:
            groups[library, size] = _group(library, size, suite.ranks)
        columns: Row = {"kind": kind, "library": library, "ranks": size, "dtype": dtype, "requested_bytes": payload}
        group = groups[library, size]
        suite.measure(columns, _work(suite, columns, group))


def _work(suite: Suite, columns: Row, group: dist.ProcessGroup | None) -> Callable[[], list[Row]]:
    def work() -> list[Row]:
        if group is None:
            raise Unsupported(f"{columns['library']} does not run on {suite.ranks.device.partition(':')[0]} here")
        return _measure(suite, columns, group)

    return work


def _measure(suite: Suite, columns: Row, group: dist.ProcessGroup) -> list[Row]:
    """Time one configuration on the ranks of its group; the others wait and say nothing."""
    ranks, size, kind = suite.ranks, columns["ranks"], columns["kind"]
    device = ranks.device if columns["library"] == "nccl" else "cpu"
    dtype = DTYPES[columns["dtype"]]
    elements = max(1, columns["requested_bytes"] // dtype.itemsize)
    calls = max(1, min(MOST_CALLS, LONG_BYTES // columns["requested_bytes"]))
    inside = ranks.rank < size
    times = [0.0] * suite.job.steps
    payload = 0.0
    if inside:
        call, payload = caller(kind, elements, dtype, device, group, ranks.rank, size)
        times = _timed(ranks, call, suite, calls, device)
    else:
        _idle(suite)
    by_rank = gather(ranks, [*times, payload])
    release(ranks)
    count = 2 if kind == "p2p" else size
    found = [row[:-1] for row in by_rank[:count]]
    payload = by_rank[0][-1]
    slowest_s = max(statistics.median(values) for values in found)
    algorithm = payload / slowest_s
    bus = algorithm * traffic(kind, size)
    suite.collectives.append(
        MeasuredCollective(
            kind=kind,
            bytes=payload,
            ranks=count,
            seconds=slowest_s,
            algorithm_bytes_per_s=algorithm,
            bus_bytes_per_s=bus,
        )
    )
    shared: dict[str, Any] = {"bytes": payload, "calls_per_sample": calls, "slowest_median_s": slowest_s}
    shared |= {"algorithm_bytes_per_s": algorithm, "bus_bytes_per_s": bus}
    return [{"rank": rank, **spread_columns(values), **shared} for rank, values in enumerate(found)]


def _timed(ranks: Ranks, call: Callable[[], object], suite: Suite, calls: int, device: str) -> list[float]:
    """Time on the device that the library sends from: host memory needs the host's clock."""
    timer = ranks if device == ranks.device else Ranks(rank=ranks.rank, world_size=ranks.world_size)
    return time_calls(timer, call, warmup=suite.job.warmup, repeats=suite.job.steps, calls=calls, align=True)


def _idle(suite: Suite) -> None:
    """Take part in the barriers of those who measure."""
    for _ in range(suite.job.steps):
        dist.barrier()


def _group(library: str, size: int, ranks: Ranks) -> dist.ProcessGroup | None:
    if library == "nccl" and not (ranks.cuda and dist.is_nccl_available()):
        return None
    group: dist.ProcessGroup = dist.new_group(list(range(size)), backend=library)
    return group


def _doubling(world_size: int) -> tuple[int, ...]:
    """2, 4, 8, … and all."""
    sizes = [2**power for power in range(1, 17) if 2**power < world_size]
    return (*sizes, world_size)
