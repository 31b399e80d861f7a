"""Seconds of a call, and how evenly it takes them: events on a GPU, the clock on a CPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from runners.ranks import Ranks, synchronize

SPREAD_COLUMNS = ("minimum_s", "median_s", "mean_s", "maximum_s", "interquartile_range_s")


def time_calls(
    ranks: Ranks,
    work: Callable[[], Any],
    *,
    warmup: int,
    repeats: int,
    calls: int = 1,
    align: bool = False,
    rest: bool = False,
    before: Callable[[], object] | None = None,
) -> list[float]:
    """Seconds of one call, ``repeats`` times: between events on a GPU, by the clock on a CPU, after ``warmup`` calls.

    With ``calls`` a sample is the mean of so many in a row, which hides the launch of all but the first. With
    ``align`` all ranks start a sample together; with ``rest`` the device idles after each as long as
    it worked, and a call that is not timed goes before the next. ``before`` is called, untimed, ahead of every sample.
    """
    for _ in range(warmup):
        work()
    synchronize(ranks)
    seconds = []
    for _ in range(repeats):
        if before is not None:
            before()
        if align:
            dist.barrier()
            synchronize(ranks)
        if rest:
            work()  # launched from rest, the first waits for a host that rested, too
        begin_mark = stamp(ranks.cuda)
        for _ in range(calls):
            work()
        end_mark = stamp(ranks.cuda)
        if ranks.cuda:
            torch.cuda.synchronize()
        seconds.append(between(begin_mark, end_mark) / calls)
        if rest:
            time.sleep(seconds[-1] * calls)
    return seconds


def stamp(cuda: bool) -> Any:
    """A point in time: an event in the stream of a GPU, the clock on a CPU."""
    if not cuda:
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def between(begin_mark: Any, end_mark: Any) -> float:
    """Seconds between two stamps; on a GPU both must have passed."""
    if isinstance(begin_mark, float):
        return float(end_mark - begin_mark)
    return float(begin_mark.elapsed_time(end_mark)) * 1e-3


def spread_columns(seconds: Sequence[float]) -> dict[str, Any]:
    """Columns of a row that say how long something took and how evenly: SPREAD_COLUMNS and ``samples``."""
    ordered = sorted(seconds)
    quarters = statistics.quantiles(ordered, n=4, method="inclusive") if len(ordered) > 1 else [ordered[0]] * 3
    return {
        "minimum_s": ordered[0],
        "median_s": statistics.median(ordered),
        "mean_s": statistics.fmean(ordered),
        "maximum_s": ordered[-1],
        "interquartile_range_s": quarters[2] - quarters[0],
        "samples": len(ordered),
    }
