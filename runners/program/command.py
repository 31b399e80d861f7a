"""The command ``trace``: run an unmodified training program on fake devices, write the op list of one of its steps."""

from __future__ import annotations

import argparse
import functools
import gc
import importlib.metadata
import json
import logging
import os
import runpy
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from estimator.scenario import catalog
from estimator.scenario.codec import decode
from estimator.scenario.hardware import Chip
from estimator.scenario.op_list import CALLS, OpList, to_json
from estimator.scenario.op_rows import loss_rows, rows_are
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.training import OPTIMIZER_KERNELS
from runners.options import ProgramOptions, add_fields
from runners.program import commands
from runners.program.failures import FAILED, ProgramFailed, failure, last_words, wants_ranks
from runners.program.peers import Peers

if TYPE_CHECKING:
    from runners.program.recording import Recording

CHIP = "h100-sxm"
_ONTO_IT = 'Let it move its model and batches to "cuda", or begin with torch.set_default_device("cuda").'
NO_CUDA = ("cpu", "tpu")
"""Families of chips, by their efficiencies, that torch.cuda does not run on."""

NAMED_VERSIONS = ("accelerate", "diffusers", "lightning", "pytorch-lightning", "timm", "torchtitan", "transformers")


OF_A_CPU = (
    "Choose a GPU: a program is traced as one runs it. On this CPU, profile a step with torch.profiler (record_shapes)"
    " and import that: its ops are priced for this CPU; or measure it: python -m runners step --device cpu --script."
)


def add_trace(parser: argparse.ArgumentParser) -> None:
    """Give the command its flags."""
    parser.add_argument("program", nargs="?", default="", metavar="SCRIPT.py|MODULE:FACTORY", help="what to run")
    parser.add_argument(
        "-m", dest="as_module", action="store_true", help="the program is named as a module, as python -m runs it"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="OPS.json", help="where the op list goes")
    parser.add_argument("--quiet", action="store_true", help="say nothing of it")
    parser.add_argument("--said-by", default="", metavar="NAME", help="whose command a line about a mistake names")
    parser.add_argument(
        "--world-size",
        type=int,
        metavar="N",
        help="ranks that it is told of, as by torchrun (default: none)",
    )
    parser.add_argument("--rank", type=int, default=0, metavar="R", help="which of them it is (default 0)")
    parser.add_argument("--chip", default=CHIP, metavar="KEY", help=f"which GPU torch.cuda tells of (default {CHIP})")
    parser.add_argument(
        "--steps", type=int, default=2, metavar="K", help="optimizer steps to run; the last is recorded (default 2)"
    )
    alone = parser.add_argument_group("for --hf and MODULE:FACTORY, which bring no loop of their own")
    alone.add_argument(
        "--hf", type=Path, metavar="CONFIG.json", help="a model of transformers, which must be installed"
    )
    alone.add_argument(
        "--optimizer-kernel", choices=OPTIMIZER_KERNELS, default="default", help="which of PyTorch's optimizer kernels"
    )
    add_fields(alone, ProgramOptions)
    parser.epilog = "What follows -- is given to the program."
    parser.set_defaults(command=trace, arguments=[])


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what stands before the first ``--``, and the program's own arguments behind it."""
    given = list(arguments)
    if "--" not in given:
        return given, []
    at = given.index("--")
    return given[:at], given[at + 1 :]


def trace(options: argparse.Namespace) -> int:
    """Trace the program; return 0 where an op list was written, 1 where the program failed. Raises InputProblems."""
    chip = _checked(options)
    program = _program(options)
    peers = Peers(options.rank, functools.partial(_for_rank, options))
    try:
        found = run(
            program, chip=chip, name=_named(options), arguments=_said(options), steps=options.steps,
            world_size=options.world_size or 0, rank=options.rank,
            peers=peers, own=options.hf is None, loops=_is_own(options),
        )  # fmt: skip
        peers.stay()
    except ProgramFailed as failed:
        own = options.hf is None and not wants_ranks(failed.error)
        raised = failed.error.__traceback__ is not None  # by somebody's own code, which the traceback names
        if own and raised and not isinstance(failed.error, SystemExit):
            traceback.print_exception(failed.error)
        print(f"{options.said_by or 'trace'}: {failed.problem}", file=sys.stderr, flush=True)
        return FAILED
    finally:
        peers.close()
    options.out.write_text(json.dumps(to_json(found), separators=(",", ":")) + "\n", encoding="utf-8")
    if not options.quiet:
        print(f"{options.out}: {told(found)}", file=sys.stderr, flush=True)
    return 0


def _named(options: argparse.Namespace) -> str:
    """The program as it was asked for; of an absolute path, which tells of a machine, the file's own name."""
    if not options.program:
        return str(options.hf.name)
    path = Path(options.program)
    return path.name if path.is_absolute() and path.is_file() else str(options.program)


def _for_rank(options: argparse.Namespace, rank: int) -> list[str]:
    """The command that traces another rank, for what it sends."""
    given = [options.program] if options.program else ["--hf", str(options.hf)]
    said = _said(options)
    how = ["--world-size", str(options.world_size or rank + 1), "--rank", str(rank), "--chip", options.chip]
    how += ["--steps", str(options.steps), "--out", os.devnull, "--quiet"]
    own = ["--", *said] if _is_own(options) else said
    return [sys.executable, "-m", "runners", "trace", *(["-m"] if options.as_module else []), *given, *how, *own]


def told(found: OpList) -> str:
    """Say how many calls, parameters and tokens there are, by which a reader sees that the right step was traced."""
    kinds = Counter(call.kind for call in found.calls)
    words = {
        "kernel": "that launch kernels",
        "collective": "collectives",
        "wait": "waits",
        "sync": "the host waits for",
    }
    parts = ", ".join(f"{kinds[kind]:,} {words[kind]}" for kind in CALLS if kinds[kind])
    said = [f"{len(found.calls):,} calls ({parts})"]
    if found.parameters:
        said.append(f"{found.parameters:,} parameters")
    if rows := loss_rows(found, (call.phase for call in found.calls)):
        of = f" of rank {found.rank}" if found.world_size > 1 else ""
        said.append(f"{rows:,} {rows_are(found)} in the step{of}")
    return "; ".join(said)


def _is_own(options: argparse.Namespace) -> bool:
    """Whether the program is a script, or a module that runs as one, and trains by itself."""
    path = Path(options.program)
    return bool(options.as_module) or path.suffix == ".py" or path.is_file()


def _said(options: argparse.Namespace) -> list[str]:
    """The program's own arguments; of a module that came alone, how it is trained."""
    if _is_own(options):
        return list(options.arguments)
    words = ["--optimizer-kernel", options.optimizer_kernel] if options.optimizer_kernel != "default" else []
    chosen = _chosen(options)
    for field in fields(ProgramOptions):
        value = getattr(chosen, field.name)
        if value is True:
            words.append(f"--{field.name}")
        elif value is not False:
            words += [f"--{field.name}", str(value)]
    return words


def _chosen(options: argparse.Namespace) -> ProgramOptions:
    given = {field.name: getattr(options, field.name) for field in fields(ProgramOptions) if field.name in options}
    return decode(ProgramOptions, given)


def run(
    program: Callable[[Recording], Any],
    *,
    chip: Chip,
    peers: Peers,
    name: str,
    arguments: Sequence[str] = (),
    steps: int = 2,
    world_size: int = 0,
    rank: int = 0,
    own: bool = True,
    loops: bool = False,
) -> OpList:
    """Run a program and return the op list of its last step; raise ProgramFailed.

    ``program`` is given what records it; ``own``: it is code of the user's, who can mend it; ``loops``: it
    has a loop of its own, so that a step begins while the device still works off the one before.
    It takes this process over for good: torch knows no other device from then on.
    """
    gc.disable()  # until the recorded step begins: a seventh of the time went into looking through imports
    local = _as_launched(chip, world_size, rank)
    commands.stand_in()
    import torch

    from runners.program import distributed, stand_in, triton_kernels
    from runners.program.chip import Device
    from runners.program.fake import Route
    from runners.program.recording import Finished, Recording
    from runners.program.steps import Steps

    # what fails on shapes is raised as well, and some of it is tried on purpose
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)  # what is computed for real is small: a second thread would but wait, at full load
    recording = Recording(steps=steps)
    device = Device(chip, recording, devices=max(1, min(world_size, chip.chips_per_node)), index=local)
    route = Route(device, recording)
    route.install()
    distributed.install(route, world_size, rank, peers)
    triton_kernels.install(recording)
    stand_in.install(recording)
    route.recorder.in_backward = functools.partial(last_words, own=own)
    counted = Steps(recording, steps)
    counted.install()
    recording.modules.install()
    gc.freeze()  # torch, of which nothing refers to what the program makes: the look for garbage need not go through it
    try:
        with route:
            program(recording)
    except Finished:
        pass
    except InputProblems:
        raise
    except SystemExit as error:
        if error.code not in (None, 0):
            raise ProgramFailed(error, failure(name, error, own=own)) from None
    except Exception as error:
        if not recording.ends:  # what its own cleaning up runs into afterwards is not asked for
            raise ProgramFailed(error, failure(name, error, own=own)) from error
    finally:
        recording.modules.remove()
    if counted.done < steps:
        ended = f"after {counted.done} of {steps} steps" if counted.done else "without a step of an optimizer"
        recording.assume(f"the program ended {ended}: the list holds all that it did from its start")
    before = 0 < counted.done == counted.count - 1
    if not recording.calls and not before:
        message = "ran without anything for the device"
        problem = Problem(field=name, message=message, remedy=_ONTO_IT)
        raise ProgramFailed(RuntimeError(message), problem)
    counted_all, trained = counted.parameters()
    if trained < counted_all:
        frozen = counted_all - trained
        recording.assume(f"{frozen:,} of {counted_all:,} parameters are frozen: they have no gradient and no moments")
    apart = world_size > 1 and not recording.world_size
    ranks = 1 if apart else max(world_size, recording.world_size, 1)
    found = recording.op_list(
        before=before, program=name, chip=chip.name, world_size=ranks,
        rank=0 if apart else rank, arguments=tuple(arguments), parameters=counted_all, trained_parameters=trained,
        versions=_versions(), follows_on=loops and counted.done >= steps,
    )  # fmt: skip
    return replace(found, problems=(*found.problems, _apart(world_size))) if apart else found


def _apart(ranks: int) -> Problem:
    """What is said of ranks that exchange nothing."""
    return Problem(
        field="--world-size",
        message=f"no process group was made: each of {ranks} ranks trains apart, and what is said here is of one",
        remedy="Leave it out, or let the program call torch.distributed.init_process_group.",
    )


def _checked(options: argparse.Namespace) -> Chip:
    found = []
    if bool(options.program) == (options.hf is not None):
        field, message = (options.program, "stands beside --hf") if options.program else ("trace", "lacks a program")
        remedy = "Give one of SCRIPT.py, MODULE:FACTORY and --hf CONFIG.json."
        found.append(Problem(field=field, message=message, remedy=remedy))
    if options.steps < 1:
        found.append(Problem(field="--steps", message="is below 1", remedy="Give 1 or more; 2 is a steady state."))
    if options.world_size is not None and options.world_size < 1:
        remedy = "Give the number of ranks, or leave it out for a program that is not started by torchrun."
        found.append(Problem(field="--world-size", message="is below 1", remedy=remedy))
    elif not 0 <= options.rank < (options.world_size or 1):
        remedy = f"Give 0 to {(options.world_size or 1) - 1}."
        found.append(Problem(field="--rank", message="is none of the ranks", remedy=remedy))
    chip = None
    if catalog.is_this_cpu(options.chip):
        found.append(Problem(field="--chip", message="a CPU runs no CUDA", remedy=OF_A_CPU))
    elif (chip := catalog.chip(options.chip)).efficiency in NO_CUDA:
        found.append(Problem(field="--chip", message=f"{chip.label} runs no CUDA", remedy="Choose a GPU."))
    if found or chip is None:
        raise InputProblems(found)
    return chip


def _program(options: argparse.Namespace) -> Callable[[Recording], Any]:
    """Return what runs the program; what needs torch is imported when it runs, on the fake device."""
    path = Path(options.program)
    if options.as_module:
        return lambda _: run_module(options.program, options.arguments)
    if options.hf is None and _is_own(options):
        if not path.is_file():
            problem = Problem(field=str(path), message="there is no such file", remedy="Give the path of a script.")
            raise InputProblems([problem])
        return lambda _: run_script(path, options.arguments)
    if options.hf is None and ":" not in options.program:
        problem = Problem(
            field=options.program, message="this is no script", remedy="Give SCRIPT.py or MODULE:FACTORY."
        )
        raise InputProblems([problem])
    chosen, hf = _chosen(options), "" if options.hf is None else str(options.hf)
    sys.path.insert(0, str(Path.cwd()))

    def program(recording: Recording) -> None:
        from runners.program_of import program_of

        made = program_of(module=options.program, hf=hf, options=chosen, device="cuda", kernel=options.optimizer_kernel)
        for note in made.notes:
            recording.assume(note)
        if (options.world_size or 0) > 1:
            import torch
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            made.module = DistributedDataParallel(made.module)
        train(made, recording)

    return program


def train(program: Any, recording: Recording) -> None:
    """Train without an end, as ``step`` measures it; the trace ends it.

    Nobody will have a list of the steps before the last: of them is kept only what that begins with.
    """
    recording.drops = recording.steps > 1
    scaler = program.scaler
    while True:
        loss = program.loss(program.batch)
        (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is None:
            program.optimizer.step()
        else:
            scaler.step(program.optimizer)
            scaler.update()
        program.optimizer.zero_grad(set_to_none=True)


def run_script(path: Path, arguments: Sequence[str]) -> None:
    """Run a script as Python would, with these arguments."""
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    runpy.run_path(str(path), run_name="__main__")


def run_module(name: str, arguments: Sequence[str]) -> None:
    """Run a module as ``python -m`` would, with these arguments."""
    sys.argv = [name, *arguments]
    sys.path.insert(0, str(Path.cwd()))
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _as_launched(chip: Chip, world_size: int, rank: int) -> int:
    """Set the variables that torchrun sets; return the local rank."""
    if world_size < 1:
        return 0
    per_node = min(world_size, chip.chips_per_node)
    local = rank % per_node
    os.environ |= {
        "WORLD_SIZE": str(world_size), "RANK": str(rank), "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(per_node),
        "GROUP_RANK": str(rank // per_node), "GROUP_WORLD_SIZE": str(-(-world_size // per_node)),
        "ROLE_RANK": str(rank), "ROLE_WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0",
    }  # fmt: skip
    return local


def _versions() -> dict[str, str]:
    import torch

    found = {"python": sys.version.split()[0], "torch": torch.__version__}
    for name in NAMED_VERSIONS:
        if name.replace("-", "_") in sys.modules:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
    return found
