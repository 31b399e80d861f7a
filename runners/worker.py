"""One process of a run: do the job and leave its outcome, whatever happens."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from estimator.scenario.measurement import Measurement, Origin, status_reason
from estimator.scenario.problems import InputProblems, Problem
from runners.benchmarks import MODULES
from runners.guard import heartbeat, journal
from runners.job import CANCEL_FILE, Job, state, write_measurement
from runners.options import options_of
from runners.parent import end_with_parent
from runners.refusals import grid_refusals, rank_refusals
from runners.uncollected import uncollected

OK, FAILED, BAD_INPUT, CANCELLED = 0, 1, 2, 143

OVERTIME_S = 10.0
"""Whoever started a job with a folder ends it at its time limit; without him its watchdog does, this much later."""


Report = Callable[[dict[str, Any]], None]


_ENDING: list[int] = []
"""Signals that told the process to stop: what it then runs into, in the middle of an import perhaps, is no failure."""


class Cancelled(BaseException):
    """Raised in the main thread when the process is told to stop; not an Exception, so that nobody swallows it."""


def rank_and_world_size() -> tuple[int, int]:
    """This process among those that torchrun started; (0, 1) without it."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def work(
    job: Job,
    result: Path,
    report: Report,
    trace: Path | None = None,
    folder: Path | None = None,
    run: Callable[..., Measurement | None] | None = None,
) -> int:
    """Run ``job`` in this process, write its Measurement to ``result``, report states; return the exit code.

    ``run`` stands in for the job's benchmark.

    ``folder`` is the job's, where it has one. Without it an older result in that place stays as it was where the job is
    refused, and is kept as NAME.older.json where the run fails or is stopped, until one succeeds.

    The first rank that has an outcome writes it: an out of memory on one rank is the run's result, and what the others
    then say about lost connections is not.
    """
    rank, world_size = rank_and_world_size()
    older = journal.older_of(result)
    refused = _refused(job, world_size)
    if rank == 0:
        if not refused:
            _set_aside(result, older)
        report(state("running"))
    _ENDING.clear()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, raise_cancelled)
    _die_with_parent()
    try:
        _guard(job, result, folder)
        if refused:
            raise InputProblems(refused)
        with uncollected():
            run = run or importlib.import_module(MODULES[job.benchmark]).run
        measurement, code = run(job, report, trace), OK
        status = measurement.status if measurement is not None else "ok"
        if status == "failed" or (status != "ok" and world_size > 1):
            code = FAILED  # peers wait for this rank: its failure makes torchrun end them
    except InputProblems as error:
        _say(rank, "\n".join(str(problem) for problem in error.problems))
        # Nothing was measured; a folder has an outcome all the same, for whoever waits for one
        measurement, code = _failure(job, result, "failed", str(error)) if folder else None, BAD_INPUT
    except (Cancelled, Exception) as error:  # whatever it was, the outcome says so
        if isinstance(error, Cancelled) or _ENDING:
            meant = world_size == 1 or (result.parent / CANCEL_FILE).exists()
            message = "stopped on request" if meant else "stopped because another process of the run ended; see the log"
            measurement, code = _failure(job, result, "cancelled" if meant else "failed", message), CANCELLED
        else:
            traceback.print_exc()
            measurement, code = _failure(job, result, "failed", f"{type(error).__name__}: {error}"), FAILED
    _ignore_signals()
    if measurement is not None:
        if write_measurement(result, measurement, keep=True):
            report(state(measurement.status, status_reason(measurement)))
        elif code == OK:
            code = FAILED  # the outcome that stands is another's: of a rank that failed, or of the watchdog
    if rank == 0:
        journal.journal_of(result).unlink(missing_ok=True)
        if not refused:
            _settle(older, result, code, folder)
    heartbeat.end()
    return code


def _set_aside(result: Path, older: Path) -> None:
    """Make room for a result; one that an earlier failure has kept beside it is the better one, and stays."""
    if not result.exists():
        return
    if older.exists():
        result.unlink()
    else:
        result.replace(older)


def _settle(older: Path, result: Path, code: int, folder: Path | None) -> None:
    """Put an older result back, keep it beside the new one, or delete it."""
    if not older.exists():
        return
    if not result.exists():
        older.replace(result)
    elif code == OK or folder:
        older.unlink()
    else:
        _say(0, journal.KEPT.format(older))


def leave(code: int) -> NoReturn:
    """End this process at once: all is written, and an ordinary exit may wait without end.

    Peers may be waiting in a collective whose threads hold it up, groups of processes that something still refers to
    may abort when Python takes them down, and torch waits up to five minutes for its compile workers.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError):
            stream.flush()
    os._exit(code)


def _guard(job: Job, result: Path, folder: Path | None) -> None:
    rank, world_size = rank_and_world_size()
    watch = heartbeat.Watch(
        rank=rank,
        world_size=world_size,
        result=str(result.resolve()),
        folder=str(folder.resolve()) if folder else "",
        time_limit_s=job.time_limit_s,
        overtime_s=OVERTIME_S if folder else 0.0,
        row_limit_s=job.row_limit_s,
    )
    heartbeat.start(watch)
    heartbeat.rows_begin(_blank(job))


def raise_cancelled(number: int, _frame: FrameType | None) -> None:
    """Handle a signal by ending what the main thread does; the next, as torchrun's after Slurm's, disturbs nothing."""
    _ignore_signals()
    _ENDING.append(number)
    raise Cancelled


def _ignore_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _die_with_parent() -> None:
    """Ask Linux for SIGTERM when torchrun dies, which starts its workers in sessions of their own."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        end_with_parent(signal.SIGTERM)


def _say(rank: int, line: str) -> None:
    if rank == 0:
        print(line, file=sys.stderr, flush=True)


def _blank(job: Job) -> Measurement:
    return Measurement(
        label=job.label,
        origin=Origin(kind="run", format=job.benchmark, producer="headroom runners"),
        world_size=job.world_size,
        scenario=job.scenario,
    )


def _failure(job: Job, result: Path, status: str, message: str) -> Measurement:
    """The outcome of a run that broke off, with the rows that were measured until then."""
    found = journal.read(journal.journal_of(result)) or journal.Journal(head=_blank(job))
    if not found.head.environment and _torch_can_be_asked(status):
        try:
            from runners.environment import environment  # imports torch, which may be what is missing

            found = replace(found, head=replace(found.head, environment=environment(cuda=False)))
        except ImportError:
            pass
    return journal.measurement(found, status, message, "not_run" if status == "cancelled" else "failed")


def _torch_can_be_asked(status: str) -> bool:
    """Whether its version may be read: importing it once more where the first time was broken off crashes in C."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return not getattr(torch.__spec__, "_initializing", False)
    return status != "cancelled" and "torch._C" not in sys.modules


def _refused(job: Job, world_size: int) -> list[Problem]:
    """What hinders this job before anything of it is touched; its benchmark may find more."""
    try:
        options = options_of(job.benchmark, job.options)
    except InputProblems as error:
        return list(error.problems)
    found = _problems(job, world_size)
    return found + rank_refusals(job.benchmark, options, world_size) + grid_refusals(options, job.scenario)


def _problems(job: Job, world_size: int) -> list[Problem]:
    found = []
    if importlib.util.find_spec("torch") is None:
        found.append(Problem(field="torch", message="is not installed here", remedy="Run: pip install torch."))
    if job.world_size != world_size:
        remedy = f"Start it with torchrun --nproc-per-node {job.world_size}, or set world_size to {world_size}."
        message = f"the job wants {job.world_size} processes, {world_size} run"
        found.append(Problem(field="world_size", message=message, remedy=remedy))
    return found
