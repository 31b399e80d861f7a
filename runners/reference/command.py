"""The command ``reference``: measure a machine with all that the estimator is held against, unattended."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from estimator.scenario import catalog
from estimator.scenario.problems import InputProblems, Problem
from runners.backends import local
from runners.guard import heartbeat
from runners.job import Job
from runners.reference import job_series
from runners.reference.jobs import entries, job_of
from runners.worker import Cancelled, raise_cancelled

GRACE_S = 20.0
"""What ending a job may take when this command is told to end: its own processes get a polite signal first."""

OVERTIME_S = 60.0
PLANS, PLANS_LIMIT_S = "plans", 540.0
"""The series of steps under every plan (``plans.py``), which are one group of processes and no jobs."""

FAILED, CANCELLED = 1, 143
OTHER_CHIP = "h200-sxm"
"""What a scenario says where nothing tells of the device; its result then says that it ran on another."""


def add_reference(parser: argparse.ArgumentParser) -> None:
    """Give the command its flags."""
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="a folder for each job, and a summary"
    )
    parser.add_argument("--ranks", type=int, default=1, metavar="N", help="GPUs, or processes on a CPU (default 1)")
    parser.add_argument("--limit-s", type=float, default=0.0, metavar="S", help="end by then (default: no bound)")
    parser.add_argument("--only", default="", metavar="LIST", help="names of jobs, as --list prints them")
    parser.add_argument("--again", action="store_true", help="measure also what has a result in the folder")
    parser.add_argument(
        "--list", action="store_true", help="print the jobs, their limits and commands; measure nothing"
    )
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try it out on a CPU")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: GPUs if any")
    parser.set_defaults(command=reference)


def reference(options: argparse.Namespace) -> int:
    """Measure the jobs asked for; return 0 where all of them measured something. Raises InputProblems."""
    jobs = _jobs(options)
    if options.list:
        for name, job in jobs.items():
            request = local.render(options.out / name, job)
            print(f"{name}: at most {job.time_limit_s:.0f} s\n  {shlex.join(request.command)}")
        if _wants_plans(options):
            print(f"{PLANS}-{options.ranks}: at most {PLANS_LIMIT_S:.0f} s\n  {shlex.join(_plans_command(options))}")
        return 0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, raise_cancelled)
    # Whatever this process is stuck in, and if it is killed: nothing that it started outlives it
    heartbeat.start(heartbeat.Watch(time_limit_s=options.limit_s, overtime_s=OVERTIME_S, grace_s=GRACE_S))
    begin_s = time.monotonic()
    try:
        whole = job_series.run(jobs, options.out, _say, limit_s=options.limit_s, again=options.again)
        if _wants_plans(options):
            left_s = options.limit_s - (time.monotonic() - begin_s) if options.limit_s else PLANS_LIMIT_S
            whole = _measure_plans(options, min(PLANS_LIMIT_S, left_s)) and whole
    except Cancelled:
        _say("stopped on request")
        return CANCELLED
    finally:
        heartbeat.end()
    return 0 if whole else FAILED


def _wants_plans(options: argparse.Namespace) -> bool:
    return not options.only or PLANS in [name.strip() for name in options.only.split(",")]


def _plans_command(options: argparse.Namespace, limit_s: float = PLANS_LIMIT_S) -> list[str]:
    """The series of plans in one group of processes, a result for each."""
    command = [sys.executable]
    if options.ranks > 1:
        command += ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
        command += ["--nproc-per-node", str(options.ranks)]
    command += ["-m", "runners", "series", "--out", str(options.out / f"{PLANS}-{options.ranks}")]
    command += ["--device", options.device, "--limit-s", f"{limit_s:.0f}"]
    return command + ["--small"] * options.small + ["--again"] * options.again


def _measure_plans(options: argparse.Namespace, limit_s: float) -> bool:
    """Measure the series of plans; says whether all of it was measured."""
    folder = options.out / f"{PLANS}-{options.ranks}"
    if limit_s < job_series.LEAST_S:
        _say(f"{folder.name}: no time is left")
        return False
    if not (folder / "predictions.json").exists():
        first = f"headroom predict --ranks {options.ranks} --results {folder}"
        _say(f"{folder.name}: nothing was predicted; where Headroom is installed, {first} does it before")
    _say(f"{folder.name}: at most {limit_s:.0f} s")
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    process = subprocess.Popen(_plans_command(options, limit_s), env=environment)
    try:
        return process.wait(limit_s + OVERTIME_S) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _jobs(options: argparse.Namespace) -> dict[str, Job]:
    if options.ranks < 1:
        raise InputProblems([Problem(field="--ranks", message="is below 1", remedy="Give 1, 2, 4 or more.")])
    wanted = [name.strip() for name in options.only.split(",") if name.strip()]
    chip = chip_here() if options.device != "cpu" else OTHER_CHIP
    jobs = {
        f"{entry.name}-{options.ranks}": job_of(
            entry, options.ranks, device=options.device, small=options.small, chip=chip
        )
        for entry in entries(options.ranks)
        if not wanted or entry.name in wanted
    }
    known = [*(entry.name for entry in entries(options.ranks)), PLANS]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise InputProblems(
            [Problem(field="--only", message=f"{unknown[0]!r} is not known", remedy=f"One of: {', '.join(known)}.")]
        )
    return jobs


def chip_here() -> str:
    """The catalogue's name of the first GPU, as nvidia-smi calls it."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return OTHER_CHIP
    command = (program, "--query-gpu=name", "--format=csv,noheader")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        return catalog.chip(done.stdout.splitlines()[0].strip()).name
    except (OSError, subprocess.SubprocessError, IndexError, InputProblems):
        return OTHER_CHIP


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
