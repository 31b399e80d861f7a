"""One process of a run: do the job and leave its outcome, whatever happens."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from estimator.measurement import Measurement, Origin, Warning
from estimator.problems import InputProblems, Problem
from runners.benchmarks import MODULES
from runners.job import CANCEL_FILE, Job, state, write_measurement
from runners.options import options_of

OK, FAILED, BAD_INPUT, CANCELLED = 0, 1, 2, 143

PR_SET_PDEATHSIG = 1

Report = Callable[[dict[str, Any]], None]


class Cancelled(BaseException):
    """Raised in the main thread when the process is told to stop; not an Exception, so that nobody swallows it."""


def rank_and_world_size() -> tuple[int, int]:
    """This process among those that torchrun started; (0, 1) without it."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def work(job: Job, result: Path, report: Report, trace: Path | None = None) -> int:
    """Run ``job`` in this process, write its Measurement to ``result``, report states; return the exit code.

    The first rank that has an outcome writes it: an out of memory on one rank is the run's result, and what the others
    then say about lost connections is not.
    """
    rank, world_size = rank_and_world_size()
    if rank == 0:
        result.unlink(missing_ok=True)
        report(state("running"))
    signal.signal(signal.SIGTERM, _raise_cancelled)
    _die_with_parent()
    try:
        options_of(job.benchmark, job.options)
        found = _problems(job, world_size)
        if found:
            raise InputProblems(found)
        measurement, code = importlib.import_module(MODULES[job.benchmark]).run(job, report, trace), OK
        if measurement is not None and measurement.status != "ok" and world_size > 1:
            code = FAILED  # the peers wait for this rank: its failure makes torchrun end them
    except InputProblems as error:
        _say(rank, "\n".join(str(problem) for problem in error.problems))
        measurement, code = _failure(job, "failed", str(error)), BAD_INPUT
    except Cancelled:
        meant = world_size == 1 or (result.parent / CANCEL_FILE).exists()
        message = "stopped on request" if meant else "stopped because another process of the run ended; see the log"
        measurement, code = _failure(job, "cancelled" if meant else "failed", message), CANCELLED
    except Exception as error:  # whatever it was, the outcome says so
        traceback.print_exc()
        measurement, code = _failure(job, "failed", f"{type(error).__name__}: {error}"), FAILED
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if measurement is not None and write_measurement(result, measurement, keep=True):
        report(state(measurement.status, _message(measurement)))
    return code


def _raise_cancelled(_number: int, _frame: FrameType | None) -> None:
    raise Cancelled


def _die_with_parent() -> None:
    """Ask Linux for SIGTERM when torchrun dies, which starts its workers in sessions of their own."""
    if sys.platform == "linux" and "TORCHELASTIC_RUN_ID" in os.environ:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _say(rank: int, line: str) -> None:
    if rank == 0:
        print(line, file=sys.stderr, flush=True)


def _failure(job: Job, status: str, message: str) -> Measurement:
    try:
        from runners.environment import environment  # imports torch, which may be what is missing

        found = environment(cuda=False)
    except ImportError:
        found = {}
    return Measurement(
        label=job.label,
        origin=Origin(kind="run", format=job.benchmark, producer="headroom runners"),
        world_size=job.world_size,
        scenario=job.scenario,
        status=status,
        environment=found,
        warnings=(Warning(code=status, message=message[:2000]),),
    )


def _message(measurement: Measurement) -> str:
    return "; ".join(warning.message for warning in measurement.warnings if warning.code == measurement.status)


def _problems(job: Job, world_size: int) -> list[Problem]:
    found = []
    if importlib.util.find_spec("torch") is None:
        found.append(Problem(field="torch", message="is not installed here", remedy="Run: pip install torch."))
    if job.world_size != world_size:
        remedy = f"Start it with torchrun --nproc-per-node {job.world_size}, or set world_size to {world_size}."
        message = f"the job wants {job.world_size} processes, {world_size} run"
        found.append(Problem(field="world_size", message=message, remedy=remedy))
    return found
