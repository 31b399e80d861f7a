"""Work under torch.profiler, as the events of its Chrome trace; one training step of it reduced to kernels."""

from __future__ import annotations

import gzip
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.profiler import ProfilerActivity, schedule
from torch.profiler import profile as torch_profile

from runners.trace.reduced import Reduced, reduce_trace

if TYPE_CHECKING:
    from runners.train_step import Trainer


def profile(trainer: Trainer, *, communicate: bool = True, keep: Path | None = None) -> Reduced:
    """Profile one step; ``keep`` is where the Chrome trace goes, .json or .json.gz."""
    from runners.train_step import one_step  # and with it torch's compiler: seconds, which a probe spares

    events = profiled_events(
        trainer.ranks.cuda, lambda: one_step(trainer, lambda phase: None, communicate=communicate), keep
    )
    return reduce_trace(events, trainer.scores, device=trainer.ranks.cuda)


def profiled_events(cuda: bool, work: Callable[[], None], keep: Path | None = None) -> list[dict[str, Any]]:
    """Call ``work`` twice, the second time profiled; return the ``traceEvents``."""
    profiling = Profiling(cuda, keep)
    over = False
    while not over:
        work()
        over = profiling.step()
    return profiling.events


@contextmanager
def _one_cycle() -> Iterator[None]:
    """Hear no warning that events of the last cycle alone are kept.

    With ``acc_events``, which spares it too, torch makes an object of every event, which nobody reads.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Profiler clears events", UserWarning)
        yield


class Profiling:
    """A profiler that begins now: of the steps that are told it, the first warms it up and the second is recorded.

    ``keep`` is where the Chrome trace goes, .json or .json.gz.
    """

    STEPS = 2

    def __init__(self, cuda: bool, keep: Path | None = None) -> None:
        self.cuda, self.keep = cuda, keep
        self.events: list[dict[str, Any]] = []
        self._steps = 0
        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if cuda else [])
        self._profiler = torch_profile(
            activities=activities,
            schedule=schedule(wait=0, warmup=1, active=1, repeat=1),
            on_trace_ready=self._ready,
            record_shapes=True,
        )
        with _one_cycle():
            self._profiler.start()

    def step(self) -> bool:
        """A step has ended; whether it was the one that is recorded."""
        if self.cuda:
            torch.cuda.synchronize()
        with _one_cycle():
            self._profiler.step()
            self._steps += 1
            if self._steps < self.STEPS:
                return False
            self._profiler.stop()
        return True

    def _ready(self, profiler: torch_profile) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = self.keep or Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(path))
            data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        self.events = json.loads(text)["traceEvents"]
