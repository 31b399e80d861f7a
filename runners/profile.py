"""One training step under torch.profiler, reduced to kernels; the trace can be kept."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

from torch.profiler import ProfilerActivity, schedule
from torch.profiler import profile as torch_profile

from runners.ranks import synchronize
from runners.trace import Reduced, reduce_trace
from runners.trainee import Trainee, one_step


def profile(trainee: Trainee, *, communicate: bool = True, keep: Path | None = None) -> Reduced:
    """Profile one step, after one to warm the profiler up; ``keep`` is where the Chrome trace goes, .json[.gz]."""
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if trainee.ranks.cuda else [])
    with tempfile.TemporaryDirectory() as folder:
        path = keep or Path(folder) / "trace.json"
        with torch_profile(
            activities=activities,
            schedule=schedule(wait=0, warmup=1, active=1, repeat=1),
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
            record_shapes=True,
        ) as profiler:
            for _ in range(2):
                one_step(trainee, lambda phase: None, communicate=communicate)
                synchronize(trainee.ranks)
                profiler.step()
        return reduce_trace(read_trace(path)["traceEvents"])


def read_trace(path: Path) -> dict[str, list[dict[str, object]]]:
    """Read a Chrome trace that this host's torch wrote."""
    data = path.read_bytes()
    document: dict[str, list[dict[str, object]]] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return document
