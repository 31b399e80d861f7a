"""How fast a trace of a million events is read, and in how much memory, beside Python's own json.

Run ``python benchmarks/import_kineto.py [EVENTS]``; each reader runs in a process of its own.
"""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

EVENTS = 1_000_000
ROOT = Path(__file__).parent.parent


def write_trace(path: Path, events: int) -> None:
    """Write a trace like that of a real step: ops with shapes, launches, kernels, arrows and Python frames."""
    opener = partial(gzip.open, path, "wt", compresslevel=1) if path.suffix == ".gz" else partial(path.open, "w")
    with opener() as file:
        file.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],\n "traceEvents": [\n')
        per_step = 50_000
        for i in range(events):
            step, at = divmod(i, per_step)
            file.write(",\n  " if i else "  ")
            file.write(_written(_event(i, step, at, per_step)))
        file.write('\n  ],"traceName": "trace.json"}\n')


def _written(event: dict) -> str:
    """Lay an event out as Kineto does: a line of names, a line of times, and the args on a line of theirs."""
    names = ", ".join(f'"{key}": {json.dumps(event[key])}' for key in ("ph", "cat", "name", "pid", "tid"))
    times = ", ".join(f'"{key}": {event[key]:.3f}' for key in ("ts", "dur") if key in event)
    args = ", ".join(f'"{key}": {json.dumps(value)}' for key, value in event.get("args", {}).items())
    inside = f',\n    "args": {{\n      {args}\n    }}' if args else ""
    return f"{{\n    {names},\n    {times}{inside}\n  }}"


def _event(i: int, step: int, at: int, per_step: int) -> dict:
    ts = 1000.0 + 0.8 * i
    if at == 0:
        name, dur = f"ProfilerStep#{step}", 0.8 * per_step
        return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 7, "tid": 7, "ts": ts, "dur": dur, "args": {}}
    op = i // 5
    if i % 5 == 0:
        args = {
            "External id": op,
            "Ev Idx": i,
            "Input Dims": [[4096, 1024], [1024, 4096]],
            "Input type": ["c10::BFloat16"] * 2,
        }
        return {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": ts, "dur": 3.5, "args": args}
    if i % 5 == 1:
        args = {"External id": op, "cbid": 211, "correlation": op}
        return {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "pid": 7,
            "tid": 7,
            "ts": ts,
            "dur": 1.5,
            "args": args,
        }
    if i % 5 == 2:
        args = {
            "External id": op, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": op,
            "registers per thread": 32, "shared memory": 0, "blocks per SM": 15.5, "warps per SM": 31.0,
            "grid": [2048, 1, 1], "block": [64, 1, 1], "est. achieved occupancy %": 48,
        }  # fmt: skip
        name = f"ampere_bf16_s16816gemm_bf16_128x{i % 40}_ldg8_f2f_stages_32x5_nn"
        return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts + 5, "dur": 2.25, "args": args}
    if i % 5 == 3:
        return {"ph": "f", "id": op, "pid": 0, "tid": 7, "ts": ts, "cat": "ac2g", "name": "ac2g", "bp": "e"}
    args = {"Python parent id": i, "Python id": i, "Ev Idx": i}
    name = "torch/nn/modules/module.py(1773): _call_impl"
    return {"ph": "X", "cat": "python_function", "name": name, "pid": 7, "tid": 7, "ts": ts, "dur": 9.0, "args": args}


def _import(path: Path) -> str:
    from app.importers import import_file

    imported = import_file(path, path.name)
    (measurement,) = imported.measurements
    return f"{len(measurement.steps_s)} steps, {len(measurement.kernels)} kernels"


def _json(path: Path) -> str:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return f"{len(json.loads(data)['traceEvents'])} events, not analysed"


READERS = {"headroom": _import, "json": _json}


def main() -> None:
    """Write the trace, read it with each reader, print one line each."""
    if len(sys.argv) == 3:
        reader, path = sys.argv[1], Path(sys.argv[2])
        start = time.process_time()
        said = READERS[reader](path)
        seconds = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(f"{reader:9} {path.name:15} {seconds:6.2f} s user+sys {peak / 1e9:6.2f} GB peak   {said}")
        return
    events = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    with tempfile.TemporaryDirectory() as folder:
        for name in ("trace.json", "trace.json.gz"):
            path = Path(folder) / name
            write_trace(path, events)
            print(f"{events:,} events, {path.stat().st_size / 1e6:.1f} MB")
            for reader in READERS:
                command = [sys.executable, __file__, reader, str(path)]
                subprocess.run(command, check=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)})


if __name__ == "__main__":
    main()
