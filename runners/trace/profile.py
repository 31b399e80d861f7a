"""Work under torch.profiler, as the events of its Chrome trace; one training step of it reduced to kernels."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, schedule
from torch.profiler import profile as torch_profile

from runners.trace.reduced import Reduced, reduce_trace
from runners.train_step import Trainer, one_step


def profile(trainer: Trainer, *, communicate: bool = True, keep: Path | None = None) -> Reduced:
    """Profile one step; ``keep`` is where the Chrome trace goes, .json or .json.gz."""
    events = profiled_events(
        trainer.ranks.cuda, lambda: one_step(trainer, lambda phase: None, communicate=communicate), keep
    )
    return reduce_trace(events, trainer.scores, device=trainer.ranks.cuda)


def profiled_events(cuda: bool, work: Callable[[], None], keep: Path | None = None) -> list[dict[str, Any]]:
    """Call ``work`` twice, the second time profiled; return the ``traceEvents``."""
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if cuda else [])
    with tempfile.TemporaryDirectory() as folder:
        path = keep or Path(folder) / "trace.json"
        with torch_profile(
            activities=activities,
            schedule=schedule(wait=0, warmup=1, active=1, repeat=1),
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
            record_shapes=True,
            acc_events=True,  # there is one cycle; without it torch 2.11 warns that it keeps one only
        ) as profiler:
            for _ in range(2):
                work()
                if cuda:
                    torch.cuda.synchronize()
                profiler.step()
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
        return events
