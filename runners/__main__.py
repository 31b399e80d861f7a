"""Measure on this host: ``python -m runners <benchmark> --help``."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
from dataclasses import fields
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from estimator.scenario.codec import decode
from estimator.scenario.problems import InputProblems, Problem
from runners.benchmarks import MODULES
from runners.guard import heartbeat
from runners.guard.journal import journal_of, recover
from runners.job import BENCHMARKS, RESULT_FILE, Job, read_job, read_json, read_measurement, tell
from runners.options import ProgramOptions, about, add_arguments, add_fields, from_arguments, options_of
from runners.program.command import add_trace, split
from runners.reference.command import add_reference
from runners.reference.plans import plans
from runners.series_list import entries_of, read_series
from runners.terminal import Told, rates_text, result_text
from runners.uncollected import uncollected
from runners.worker import BAD_INPUT, FAILED, leave, raise_cancelled, rank_and_world_size, work

PROBE_OVERTIME_S = 120.0
"""What a probe may take longer than it was asked to: importing torch, and the largest product."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code: 0 done (out of memory included), 1 failed, 2 bad input."""
    given = sys.argv[1:] if arguments is None else arguments
    own, behind = split(given) if given[:1] in (["trace"], ["step"]) else (given, [])
    options = _parser().parse_args(own)
    if behind:
        options.arguments = behind
    try:
        code = int(options.command(options))
    except InputProblems as error:
        said_by = getattr(options, "said_by", "")
        print(f"{said_by}: {error}" if said_by else error, file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        return FAILED  # whoever read what it prints has seen enough
    return code


def _measure(options: argparse.Namespace) -> int:
    values = from_arguments(options)
    program = options.benchmark == "step" and bool(options.module or options.hf or options.script)
    sources = (options.scenario, options.job, values.get("models"), options.benchmark != "step" or program)
    if not any(sources):
        options.parser.error("one of --scenario, --job, --models, --module, --hf and --script is required")
    _refuse([*_problems(options), *(_program_problems(options, values) if program else [])])
    if options.job is not None:
        job = read_job(options.job)
        return work(job, options.job / RESULT_FILE, partial(tell, options.job), options.trace, options.job)
    document = {name: getattr(options, name) for name in ("benchmark", "device", "warmup", "steps", "seed", "label")}
    document |= {name: getattr(options, name) for name in ("time_limit_s", "row_limit_s")}
    scenario = {} if options.scenario is None else read_json(options.scenario, "scenario")
    document |= {"scenario": scenario, "options": values, "world_size": rank_and_world_size()[1]}
    job = decode(Job, document)
    options_of(job.benchmark, job.options)
    run = _program_run(options, values) if program else None
    told = Told()
    code = work(job, options.out, lambda event: _say(told.text(event)), options.trace, run=run)
    if code == 0 and rank_and_world_size()[0] == 0:
        found = read_measurement(options.out)
        _say(rates_text(found))
        _say(f"{result_text(found)}: {options.out}")
    return code


def _program_problems(options: argparse.Namespace, values: dict[str, Any]) -> list[Problem]:
    """What a program of somebody else's cannot be measured with."""
    found = []
    given = [name for name in ("module", "hf", "script") if getattr(options, name)]
    if len(given) > 1:
        found.append(Problem(field=f"--{given[1]}", message=f"stands beside --{given[0]}", remedy="Give one of them."))
    if options.script is not None and not options.script.is_file():
        remedy = "Give the path of a script."
        found.append(Problem(field="--script", message=f"there is no file {options.script}", remedy=remedy))
    if options.script is None and getattr(options, "arguments", []):
        remedy = "Name it with --script, or leave them out."
        found.append(Problem(field="--", message="is followed by arguments of no script", remedy=remedy))
    if options.scenario is not None or options.job is not None:
        message = "a program says itself what its step is"
        found.append(Problem(field="--scenario", message=message, remedy="Leave it out, or the program."))
    for name in sorted(set(values) - {"optimizer_kernel"}):
        message = "says something of a scenario's step, not of a program's"
        found.append(Problem(field=f"--{name.replace('_', '-')}", message=message, remedy="Leave it out."))
    return found


def _program_run(options: argparse.Namespace, values: dict[str, Any]) -> Any:
    """How a program is measured in place of a scenario; never part of a job, which others may send."""
    if options.script is not None:
        with uncollected():
            found = import_module("runners.benchmarks.script_step")  # imports torch
        return partial(found.run, script=options.script, arguments=getattr(options, "arguments", []))
    names = (field.name for field in fields(ProgramOptions))
    chosen = decode(ProgramOptions, {name: getattr(options, name) for name in names if hasattr(options, name)}, "")
    with uncollected():
        found = import_module("runners.benchmarks.program_step")  # imports torch
    kernel = values.get("optimizer_kernel", "default")
    return partial(found.run, module=options.module, hf=options.hf, options=chosen, kernel=kernel)


def _probe(options: argparse.Namespace) -> int:
    _refuse(_problems(options))
    heartbeat.start(heartbeat.Watch(time_limit_s=2 * options.seconds, overtime_s=PROBE_OVERTIME_S))
    with uncollected():
        probes = import_module(MODULES["probe"])  # imports torch
    code = int(probes.run(options.out, options.seconds, options.device))
    _say(f"{options.out}: its object 'chip' is this device, for a scenario's cluster")
    return code


def _series(options: argparse.Namespace) -> int:
    with uncollected():
        series = import_module("runners.series")  # imports torch
    rank, world_size = rank_and_world_size()
    given = None if options.list is None else read_series(options.list)
    entries = entries_of(plans(world_size, small=options.small)) if given is None else given
    wanted = [name.strip() for name in options.only.split(",") if name.strip()]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, raise_cancelled)
    watch = heartbeat.Watch(
        rank=rank, world_size=world_size, time_limit_s=options.limit_s * 1.1, row_limit_s=options.row_limit_s
    )
    heartbeat.start(watch)
    chosen = [entry for entry in entries if not wanted or entry.name in wanted]
    failed = series.run(chosen, options.out, options.device, _say, limit_s=options.limit_s, again=options.again)
    heartbeat.end()
    return FAILED if failed else 0


def _recover(options: argparse.Namespace) -> int:
    if not recover(options.result, "failed", "it was killed; these are the rows until then", "failed"):
        where = journal_of(options.result).name
        message = "is there already" if options.result.exists() else f"has no {where} with rows beside it"
        remedy = "Name the result of a run that was killed."
        _refuse([Problem(field="result", message=f"{options.result.name} {message}", remedy=remedy)])
    return 0


def _problems(options: argparse.Namespace) -> list[Problem]:
    found = []
    if options.command is _measure and options.job is None and options.out is None:
        found.append(Problem(field="--out", message="is missing", remedy="Add --out RESULT.json."))
    for name in ("out", "trace"):
        path = getattr(options, name, None)
        if path is not None and (why := _unwritable(path)):
            found.append(
                Problem(field=f"--{name}", message=why, remedy="Choose a file in a folder that you may write.")
            )
    seconds = getattr(options, "seconds", 1.0)
    if not 0 < seconds <= 3600:
        found.append(Problem(field="--seconds", message=f"{seconds:g} is out of range", remedy="Give 1 to 3600."))
    trace = getattr(options, "trace", None)
    if trace is not None and not trace.name.endswith((".json", ".json.gz")):
        found.append(Problem(field="--trace", message="has another ending", remedy="End it with .json or .json.gz."))
    return found


def _unwritable(path: Path) -> str:
    """Say why nothing can be written there, before hours are measured for it; "" where it can."""
    try:
        if path.is_dir():
            return f"{path} is a folder"
        if not path.parent.is_dir():
            return f"there is no folder {path.parent}"
        with contextlib.suppress(FileNotFoundError):
            path.stat()  # its name may be too long
        with tempfile.TemporaryFile(dir=path.parent):
            return ""
    except OSError as error:
        return f"{path} cannot be written: {error.strerror or error}"


def _refuse(problems: list[Problem]) -> None:
    if problems:
        raise InputProblems(problems)


def _say(text: str) -> None:
    if text:
        print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m runners", description="Measure training on this host.")
    commands = parser.add_subparsers(required=True, metavar="BENCHMARK")

    for name in BENCHMARKS:
        _add_benchmark(commands.add_parser(name, help=about(name)), name)

    probe = commands.add_parser("probe", help="this machine's peaks, as a chip of the catalogue")
    probe.add_argument("--out", type=Path, required=True, metavar="FILE", help="where the chip goes")
    probe.add_argument("--seconds", type=float, default=5.0, metavar="S", help="time to spend (default 5)")
    probe.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: a GPU where there is one"
    )
    probe.set_defaults(command=_probe)

    add_reference(commands.add_parser("reference", help="all that the estimator is held against, unattended"))

    many = commands.add_parser("series", help="many scenarios' steps in one group of processes, a result for each")
    many.add_argument(
        "list", type=Path, nargs="?", metavar="LIST.json",
        help="steps: name, scenario, options, warmup, steps; default: the reference series for so many processes",
    )  # fmt: skip
    many.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where NAME.json goes, for each")
    many.add_argument("--only", default="", metavar="LIST", help="names of steps")
    many.add_argument("--small", action="store_true", help="the reference series at tiny sizes, to try it out on a CPU")
    many.add_argument("--again", action="store_true", help="measure also what has a result in the folder")
    many.add_argument("--limit-s", type=float, default=0.0, metavar="S", help="begin no step after it (default: none)")
    many.add_argument("--row-limit-s", type=float, default=120.0, metavar="S", help="end all if a step takes longer")
    many.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: GPUs if any")
    many.set_defaults(command=_series)
    add_trace(commands.add_parser("trace", help="the op list of a program's step, without a GPU"))

    lost = commands.add_parser("recover", help="the result of a run that was killed, from the rows on disk")
    lost.add_argument("result", type=Path, metavar="RESULT.json", help="what the run would have written")
    lost.set_defaults(command=_recover)
    return parser


def _add_benchmark(parser: argparse.ArgumentParser, name: str) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--scenario", type=Path, metavar="FILE", help="scenario as JSON; needs --out")
    source.add_argument(
        "--job", type=Path, metavar="FOLDER", help="job folder: reads job.json, writes events and result"
    )
    parser.add_argument("--out", type=Path, metavar="RESULT.json", help="where the measurement goes")
    parser.add_argument("--trace", type=Path, metavar="PATH", help="keep the profiler's trace, .json or .json.gz")
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: GPUs where there are any"
    )
    parser.add_argument("--warmup", type=int, default=3, metavar="N", help="runs before measuring (default 3)")
    parser.add_argument("--steps", type=int, default=10, metavar="N", help="measured runs of each (default 10)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of parameters and data (default 0)")
    parser.add_argument("--label", default="", metavar="TEXT", help="name for people")
    parser.add_argument(
        "--time-limit-s", type=float, default=0.0, metavar="S", help="end the run after so long (default: no bound)"
    )
    parser.add_argument(
        "--row-limit-s", type=float, default=900.0, metavar="S", help="end it if a row takes longer (default 900)"
    )
    add_arguments(parser.add_argument_group("what is measured"), name)
    if name == "step":
        _add_program(parser.add_argument_group("a program in place of a scenario"))
    parser.set_defaults(command=_measure, benchmark=name, parser=parser)


def _add_program(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--module", default="", metavar="FILE:FACTORY", help="FACTORY() gives (module, batch[, optimizer])"
    )
    group.add_argument("--hf", default="", metavar="CONFIG.json", help="a model of Hugging Face; needs transformers")
    group.add_argument(
        "--script",
        type=Path,
        metavar="SCRIPT.py",
        help="a program with a loop of its own; what follows -- is given to it",
    )
    add_fields(group, ProgramOptions)


if __name__ == "__main__":
    leave(main())
