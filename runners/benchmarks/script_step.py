"""A training step of somebody else's script: it runs as it stands, timed from one optimizer step to the next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import graph as autograd
from torch.optim import optimizer as hooks
from torch.profiler import record_function

from estimator.scenario.breakdown import WORK_PHASES, MemoryKind, Phase
from estimator.scenario.measurement import MeasuredMemory, Measurement, Warning
from estimator.scenario.problems import InputProblems, Problem
from runners.benchmarks.program_step import blank_of
from runners.benchmarks.step import DEFINITIONS, Report, Timed, out_of_memory, put_together
from runners.clocks import clocks
from runners.guard import heartbeat
from runners.host_pace import host_pace_s
from runners.job import Job, progress
from runners.load import Moment, load_since, moment
from runners.program.command import run_script
from runners.ranks import Ranks, leave, synchronize, world_size_from_environment
from runners.row_status import is_out_of_memory
from runners.timed_step import TELL_S, samples_by_rank
from runners.timing import between, stamp
from runners.trace.profile import Profiling
from runners.trace.reduced import PHASE_PREFIX, reduce_trace
from runners.worker import rank_and_world_size

SCRIPT_DEFINITIONS = DEFINITIONS | {
    "steps_s": "from the end of one step of the program's optimizer to the end of its next, one after another without "
    "waiting for the device between them, the slowest rank of each; the first optimizer that steps counts",
    "ranks": "by rank and step; backward is the time in autograd's engine, optimizer from its last end to the "
    "optimizer's, forward all else, data and logging included; events on the device (on a CPU clock readings)",
    Phase.EXPOSED_COMMUNICATION: "the mean over ranks of the seconds of the profiled step in which communication ran "
    "and nothing else did, taken out of the phase that launched it",
    "host_paces_s": "seconds of an op on a host tensor of 64 numbers, before the measured steps and after",
    "memory": "GPU: peak of the caching allocator over the measured steps; parameters, gradients and optimizer are the "
    "bytes that the optimizer holds at the end of a step",
}


class Measured(BaseException):
    """All was measured: the program ends here. No Exception, so that none of its handlers takes it."""


def run(
    job: Job, report: Report, trace: Path | None = None, *, script: Path, arguments: Sequence[str] = ()
) -> Measurement | None:
    """Measure steps of the script's own loop; on rank 0 return what was found, on others None.

    Torch's optimizers tell where a step ends: ``job.warmup`` steps pass, ``job.steps`` are timed, two more run under
    the profiler, then the program is ended. Out of memory is a result too. Raises InputProblems where the program ends
    before.
    """
    rank, world_size = rank_and_world_size()
    watch = _Watch(job, report if rank == 0 else lambda event: None, trace if rank == 0 else None)
    with watch:
        try:
            run_script(script, arguments)
        except Measured:
            pass
        except SystemExit as ended:
            if ended.code not in (None, 0) and not watch.complete:
                raise RuntimeError(f"{script.name} ended with {ended.code}") from None
        except Exception as error:
            if watch.complete:  # what its own cleaning up runs into afterwards is not asked for
                return watch.result(script.name, arguments)
            if not is_out_of_memory(error):
                raise
            blank = blank_of(job, Ranks(rank=rank, world_size=world_size, device=watch.device), script.name)
            return out_of_memory(blank, error, watch.stage, None)
    if not watch.complete:
        message = f"{script.name} ended after {watch.done} steps of an optimizer, {watch.needed} are needed"
        remedy = "Let it train longer, or give a smaller --warmup and --steps."
        raise InputProblems([Problem(field="--script", message=message, remedy=remedy)])
    return watch.result(script.name, arguments)


class _Watch:
    """What is read while the program runs: stamps, peaks and a profile, at the ends of steps and backwards."""

    def __init__(self, job: Job, report: Report, trace: Path | None) -> None:
        self.job, self.report, self.trace = job, report, trace
        self.done = 0
        self.stage = "build"
        self.needed = job.warmup + job.steps + Profiling.STEPS + 1  # the first end begins a step
        self.steps: list[list[tuple[str, Any]]] = []
        self.complete = False
        self.paces_s: list[float] = []
        self.ranks = Ranks()
        self.used = MeasuredMemory(peak_bytes=None, by_kind={})
        self._cuda = job.device != "cpu" and torch.cuda.is_available()
        self._leader: Any = None
        self._nested: dict[int, torch.optim.Optimizer] = {}
        self._stepping: list[int] = []
        self._depth = 0
        self._told_s = 0.0
        self._began: tuple[Moment | None, dict[str, float]] = (None, {})
        self._ended: dict[str, float] = {}
        self._profiling: Profiling | None = None
        self._marked: record_function | None = None
        self._stack = ExitStack()

    @property
    def device(self) -> str:
        """This rank's device, in torch's words."""
        return f"cuda:{torch.cuda.current_device()}" if self._cuda else "cpu"

    def __enter__(self) -> _Watch:
        for hook in (
            hooks.register_optimizer_step_pre_hook(self._before_optimizer),
            hooks.register_optimizer_step_post_hook(self._after_optimizer),
        ):
            self._stack.callback(hook.remove)
        engine = autograd._engine_run_backward

        def backward(*arguments: Any, **options: Any) -> Any:
            self._mark(Phase.FORWARD, Phase.BACKWARD)
            self._depth += 1
            try:
                return engine(*arguments, **options)
            finally:
                self._depth -= 1
                self._mark(Phase.BACKWARD, Phase.FORWARD)

        # torch.autograd and Tensor.backward each hold a name for it
        for module in (autograd, torch.autograd):
            if hasattr(module, "_engine_run_backward"):
                before = getattr(module, "_engine_run_backward")  # noqa: B009
                setattr(module, "_engine_run_backward", backward)  # noqa: B010  (private, and mypy does not know it)
                self._stack.callback(setattr, module, "_engine_run_backward", before)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _tell(self, phase: str, step: int, steps: int) -> None:
        if step in (0, steps) or time.monotonic() - self._told_s >= TELL_S:
            self._told_s = time.monotonic()
            self.report(progress(phase, step, steps, None))

    def _mark(self, ended: str, begins: str) -> None:
        """A phase ends and the next begins; of a backward within a backward nothing is said."""
        if self._depth:
            return
        if self.stage == "measure":
            self.steps[-1].append((ended, stamp(self._cuda)))
        elif self.stage == "profile":
            self._annotate(begins)

    def _annotate(self, phase: str) -> None:
        if self._marked is not None:
            self._marked.__exit__(None, None, None)
        self._marked = record_function(f"phase:{phase}") if phase else None
        if self._marked is not None:
            self._marked.__enter__()  # type: ignore[no-untyped-call]

    def _before_optimizer(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._end_stepping(optimizer)  # its last step raised, and torch told nobody
        self._stepping.append(id(optimizer))

    def _end_stepping(self, optimizer: torch.optim.Optimizer) -> None:
        """Neither it is stepping any more, nor what it stepped."""
        if id(optimizer) in self._stepping:
            del self._stepping[self._stepping.index(id(optimizer)) :]

    def _after_optimizer(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._end_stepping(optimizer)
        if self._stepping:  # one that another steps, as ZeroRedundancyOptimizer does with its own
            self._nested[id(optimizer)] = optimizer
            return
        if self._leader is None:
            self._leader = optimizer
        if optimizer is not self._leader or self._depth:
            return
        self.done += 1
        heartbeat.alive()
        warm, timed = self.job.warmup + 1, self.job.warmup + 1 + self.job.steps
        if self.done < warm:
            self._tell("warmup", self.done, self.job.warmup)
        elif self.done == warm:
            self._begin()
        elif self.done <= timed:
            self.steps[-1].append((Phase.OPTIMIZER, stamp(self._cuda)))
            self._tell("measure", self.done - warm, self.job.steps)
            if self.done == timed:
                self._end()
            else:
                self.steps.append([("", self.steps[-1][-1][1])])
        else:
            self._annotate("")
            assert self._profiling is not None
            if self._profiling.step():
                self.complete = True
                raise Measured
            self._annotate(Phase.FORWARD)

    def _begin(self) -> None:
        self.ranks = Ranks(
            rank=dist.get_rank() if dist.is_initialized() else 0,
            world_size=dist.get_world_size() if dist.is_initialized() else 1,
            device=self.device,
        )
        synchronize(self.ranks)
        self.paces_s = [host_pace_s()]
        self._began = (moment(), clocks(self._cuda))
        if self._cuda:
            torch.cuda.reset_peak_memory_stats()
        self.stage = "measure"
        self.steps.append([("", stamp(self._cuda))])

    def _end(self) -> None:
        synchronize(self.ranks)
        self.paces_s.append(host_pace_s())
        self._ended = clocks(self._cuda)
        kinds = _held(self._leader, list(self._nested.values()))
        if self._cuda:
            self.used = MeasuredMemory(
                peak_bytes=float(torch.cuda.max_memory_allocated()),
                reserved_bytes=float(torch.cuda.max_memory_reserved()),
                by_kind=kinds,
            )
        else:
            self.used = MeasuredMemory(peak_bytes=None, by_kind=kinds)
        self.load = load_since(self._began[0], self.ranks)
        self.stage = "profile"
        self._tell("profile", 0, 1)
        self._profiling = Profiling(self._cuda, self.trace)
        self._annotate(Phase.FORWARD)

    def result(self, name: str, arguments: Sequence[str]) -> Measurement | None:
        """Put together what was read, on rank 0; all ranks must call it."""
        assert self._profiling is not None
        mine = []
        for marks in self.steps:
            sample = dict.fromkeys(WORK_PHASES, 0.0)
            for (_, begin), (phase, end) in pairwise(marks):
                sample[phase] += between(begin, end)
            mine.append({"step": between(marks[0][1], marks[-1][1]), **sample})
        reduced = reduce_trace(_optimizers_own(self._profiling.events), device=self._cuda)
        found = Timed(
            samples=samples_by_rank(self.ranks, mine), alone=[], loss=None, load=self.load, peaks={},
            clocks=[self._began[1], self._ended], paces_s=self.paces_s,
        )  # fmt: skip
        warnings: list[Warning] = []
        if self.ranks.world_size < world_size_from_environment():
            message = "the program never joined its ranks: this is one of them alone"
            warnings.append(Warning(code="ranks_apart", message=message))
        made = put_together(
            blank_of(self.job, self.ranks, name), self.ranks, self.job, found, with_it=reduced, quiet=reduced,
            used=self.used, warnings=warnings, plain=False, rates={},
        )  # fmt: skip
        parameters = [p for group in self._leader.param_groups for p in group["params"]]
        about = {"name": name, "arguments": list(arguments), "parameters": sum(p.numel() for p in parameters)}
        leave(self.ranks)
        if self.ranks.rank:
            return None
        return replace(made, samples={**made.samples, "definitions": SCRIPT_DEFINITIONS, "program": about})


def _optimizers_own(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give what follows the last backward, clipping and unscaling among it, to the optimizer, as the stamps do."""
    named = (Phase.FORWARD, Phase.BACKWARD)
    of = {f"{PHASE_PREFIX}{phase}": phase for phase in named}
    marks = sorted((e for e in events if e.get("cat") == "user_annotation" and e["name"] in of), key=lambda e: e["ts"])
    if len(marks) > 1 and of[marks[-1]["name"]] == Phase.FORWARD:
        marks[-1]["name"] = f"{PHASE_PREFIX}{Phase.OPTIMIZER}"
    return list(events)


def _held(optimizer: torch.optim.Optimizer, nested: Sequence[torch.optim.Optimizer]) -> dict[str, float]:
    """Bytes of this rank's parameters, gradients and states that an optimizer holds, itself or by those it steps."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    kept = {id(state): state for one in (optimizer, *nested) for state in one.state.values()}
    states = [v for state in kept.values() for v in state.values() if isinstance(v, torch.Tensor)]
    return {
        MemoryKind.PARAMETERS: _bytes(parameters),
        MemoryKind.GRADIENTS: _bytes([p.grad for p in parameters if p.grad is not None]),
        MemoryKind.OPTIMIZER: _bytes(states),
    }


def _bytes(tensors: Sequence[torch.Tensor]) -> float:
    local = (tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors)
    return float(sum(tensor.numel() * tensor.element_size() for tensor in local))
