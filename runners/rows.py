"""The frame of a benchmark that measures many configurations: one row each, whatever becomes of it.

A row is a flat dict with the unit in every column's name and a ``status``: ok, oom, unsupported, failed, or not_run
where the time was over. Every row is on disk and reported before the next one begins, so that a run which dies later
has not been for nothing.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.distributed as dist

from estimator.scenario.measurement import (
    MeasuredCollective,
    Measurement,
    Origin,
    Warning,
    rows_by_status,
    statuses_text,
)
from runners.clocks import clocks
from runners.environment import device, environment
from runners.guard import heartbeat
from runners.job import Job, progress
from runners.ranks import Ranks, join, leave
from runners.row_status import STATUSES, message_of, status_of

Report = Callable[[dict[str, Any]], None]
Row = dict[str, Any]


@dataclass(kw_only=True)
class Suite:
    """What a benchmark of many rows needs; every rank has one, and all agree on what runs and what became of it.

    ``tidy`` gives unused memory back after every row.
    """

    job: Job
    ranks: Ranks
    report: Report
    total: int
    limit_s: float
    begin_s: float = field(default_factory=time.monotonic)
    rows: list[Row] = field(default_factory=list)
    clocks: list[dict[str, float]] = field(default_factory=list)
    collectives: list[MeasuredCollective] = field(default_factory=list)
    done: int = 0
    tidy: bool = True

    def measure(self, columns: Row, work: Callable[[], Row | list[Row]]) -> Row:
        """Run ``work`` for the rows that it gives; whatever it raises becomes a row too. Returns the last one.

        All ranks must call it in the same order. A rank that fails alone leaves its peers waiting in a collective
        until the process group's time is up.
        """
        rows: list[Row]
        heartbeat.row_begins(columns)
        if self.over():
            rows = [{**columns, "status": "not_run", "message": f"the limit of {self.limit_s:g} s was over"}]
        else:
            try:
                found = work()
                rows = [{"status": "ok"} | row for row in (found if isinstance(found, list) else [found])]
            except Exception as error:  # whatever it was, the next row must come
                rows = [{"status": status_of(error), "message": message_of(error)}]
            rows = [{**columns, **row} for row in rows]
            if self.tidy or any(row["status"] != "ok" for row in rows):
                release(self.ranks)
            self._agree(rows, columns)
        heartbeat.row_ends(rows)
        self.rows += rows
        self.done += 1
        if self.ranks.rank == 0:
            seconds = rows[-1].get("median_s", rows[-1].get("step_s"))
            self.report({**progress("measure", self.done, self.total, seconds), "row": rows[-1]})
        return rows[-1]

    def complete(self, rows: list[tuple[Row, Callable[[], Row]]]) -> None:
        """Add to rows that were measured what only a profiler tells, once all are: it slows what runs after it.

        All ranks must call it with the same rows. What fails says so in the row's ``message``.
        """
        for number, (row, work) in enumerate(rows, 1):
            heartbeat.alive()
            if self.over():
                row["message"] = f"not profiled: the limit of {self.limit_s:g} s was over"
                continue
            try:
                row |= work()
            except Exception as error:  # what was measured stays
                row["message"] = f"not profiled: {message_of(error)}"
            release(self.ranks)
            if self.ranks.rank == 0:
                self.report(progress("profile", number, len(rows), None))

    def over(self) -> bool:
        """Whether the time is over, by the first rank's clock."""
        over = time.monotonic() - self.begin_s > self.limit_s
        if self.ranks.world_size == 1:
            return over
        flag = torch.tensor([float(over)], device=self.ranks.device)
        dist.broadcast(flag, 0)
        return bool(flag.item())

    def note_clocks(self) -> None:
        """Read this device's clocks; at the beginning and the end, and where a benchmark thinks it worth while."""
        found = clocks(self.ranks.cuda)
        if found:
            self.clocks.append({"t_s": time.monotonic() - self.begin_s, **found})

    def result(
        self, definitions: dict[str, str], *, samples: Row | None = None, warnings: Sequence[Warning] = ()
    ) -> Measurement | None:
        """Part from the other ranks and return the Measurement on the first one, None on the others."""
        self.note_clocks()
        spent_s = time.monotonic() - self.begin_s
        leave(self.ranks)
        if self.ranks.rank != 0:
            return None
        head = self.head()
        status, why = self._outcome()
        return replace(
            head,
            status=status,
            rows=tuple(self.rows),
            collectives=tuple(self.collectives),
            warnings=(*warnings, *([Warning(code=status, message=why)] if why else [])),
            samples={
                "definitions": definitions,
                **head.samples,
                "seconds_s": spent_s,
                "clocks": self.clocks,
                **(samples or {}),
            },
        )

    def head(self) -> Measurement:
        """What is known before the first row."""
        job = self.job
        return Measurement(
            label=job.label,
            origin=Origin(kind="run", format=job.benchmark, producer="headroom runners", version=torch.__version__),
            device={**device(self.ranks.cuda), "count": self.ranks.world_size},
            world_size=self.ranks.world_size,
            scenario=job.scenario,
            environment=environment(self.ranks.cuda),
            samples={"options": job.options, "warmup": job.warmup, "steps": job.steps, "seed": job.seed},
        )

    def _outcome(self) -> tuple[str, str]:
        """A run in which no row was measured has not succeeded, whatever each of them says; also why."""
        counts = rows_by_status(self.rows)
        if not counts or "ok" in counts:
            return "ok", ""
        message = next((f": {row['message']}" for row in self.rows if row.get("message")), "")
        return "oom" if "oom" in counts else "failed", f"no row was measured ({statuses_text(counts)}){message}"

    def _agree(self, rows: list[Row], columns: Row) -> None:
        """Where any rank failed, the row says so on all of them."""
        if self.ranks.world_size == 1:
            return
        mine = max(STATUSES.index(row["status"]) for row in rows)
        worst = torch.tensor([float(mine)], device=self.ranks.device)
        dist.all_reduce(worst, dist.ReduceOp.MAX)
        status = STATUSES[int(worst.item())]
        if status != "ok" and STATUSES[mine] == "ok":
            rows[:] = [{**columns, "status": status, "message": "on another rank"}]


def begin(job: Job, report: Report, total: int, limit_s: float) -> Suite:
    """Join the other ranks and start the clock."""
    gc.freeze()  # or every ``release`` looks through all of torch, which takes longer than most rows
    ranks = join(job.device)
    torch.manual_seed(job.seed + ranks.rank)
    suite = Suite(job=job, ranks=ranks, report=report, total=total, limit_s=limit_s)
    suite.note_clocks()
    if ranks.rank == 0:
        heartbeat.rows_begin(suite.head())
        report(progress("build", 1, 1, None))
    return suite


def release(ranks: Ranks) -> None:
    """Give memory back that nobody uses, so that the next row starts from where this one did."""
    gc.collect()
    if ranks.cuda:
        torch.cuda.empty_cache()


def used_bytes(ranks: Ranks) -> float | None:
    """What the caching allocator holds in tensors now; None on a CPU, which does not count."""
    return float(torch.cuda.memory_allocated()) if ranks.cuda else None


def peak_bytes(ranks: Ranks) -> float | None:
    """The most that the caching allocator held in tensors since ``reset_peak``; None on a CPU."""
    return float(torch.cuda.max_memory_allocated()) if ranks.cuda else None


def reset_peak(ranks: Ranks) -> None:
    """Start counting the peak from now."""
    if ranks.cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
