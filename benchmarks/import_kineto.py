"""How fast a trace of a million events is read, and in how much memory, beside Python's own json.

Run ``python benchmarks/import_kineto.py [EVENTS] [--hta PYTHON] [--tracelens PYTHON]``; each reader runs in a process
of its own, and so do HolisticTraceAnalysis and TraceLens, where they are installed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
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
    names = ", ".join(
        f'"{key}": {json.dumps(event[key])}' for key in ("ph", "id", "cat", "name", "pid", "tid", "bp") if key in event
    )
    times = ", ".join(f'"{key}": {event[key]:.3f}' for key in ("ts", "dur") if key in event)
    args = ", ".join(f'"{key}": {json.dumps(value)}' for key, value in event.get("args", {}).items())
    inside = f',\n    "args": {{\n      {args}\n    }}' if args else ""
    return f"{{\n    {names},\n    {times}{inside}\n  }}"


def _event(i: int, step: int, at: int, per_step: int) -> dict:
    ts = 1000.0 + 0.8 * i
    if at == 0:
        name, dur = f"ProfilerStep#{step}", 0.8 * per_step
        return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 7, "tid": 7, "ts": ts, "dur": dur, "args": {}}
    op = i // 6
    if i % 6 == 0:
        args = {
            "External id": op,
            "Ev Idx": i,
            "Input Dims": [[4096, 1024], [1024, 4096]],
            "Input type": ["c10::BFloat16"] * 2,
        }
        return {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": ts, "dur": 3.5, "args": args}
    if i % 6 == 1:
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
    if i % 6 == 2:
        args = {
            "External id": op, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": op,
            "registers per thread": 32, "shared memory": 0, "blocks per SM": 15.5, "warps per SM": 31.0,
            "grid": [2048, 1, 1], "block": [64, 1, 1], "est. achieved occupancy %": 48,
        }  # fmt: skip
        name = f"ampere_bf16_s16816gemm_bf16_128x{i % 40}_ldg8_f2f_stages_32x5_nn"
        return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts + 5, "dur": 2.25, "args": args}
    if i % 6 == 3:  # arrows begin where the launch does, and end where the kernel begins
        return {"ph": "s", "id": op, "pid": 7, "tid": 7, "ts": ts - 2 * 0.8, "cat": "ac2g", "name": "ac2g"}
    if i % 6 == 4:
        ts = ts - 2 * 0.8 + 5
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
PEERS = {
    "hta": """
from hta.trace_analysis import TraceAnalysis
found = TraceAnalysis(trace_files={0: path}, trace_dir="").get_temporal_breakdown(visualize=False)
said = f"busy {100 - found['idle_time_pctg'][0]:.1f} %"
""",
    "tracelens": """
from TraceLens import TreePerfAnalyzer
found = TreePerfAnalyzer.from_file(path)
timeline, kernels = found.get_df_gpu_timeline(), found.get_df_kernel_launchers()
said = f"{len(kernels)} ops that launch kernels"
""",
}
"""What people would run instead: programs for the Python of an environment that has them."""
_MEASURED = """
import resource, sys, time
name, path = sys.argv[1:]
start = time.process_time()
{program}
seconds = time.process_time() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(f"{{name:9}} {{path.rsplit('/', 1)[-1]:15}} {{seconds:6.2f}} s user+sys {{peak / 1e9:6.2f}} GB peak   {{said}}")
"""


def main() -> None:
    """Write the trace, read it with each reader, print one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", nargs="?", type=int, default=EVENTS)
    parser.add_argument("--hta", metavar="PYTHON", help="of an environment that has HolisticTraceAnalysis")
    parser.add_argument("--tracelens", metavar="PYTHON", help="of an environment that has AMD's TraceLens")
    asked = parser.parse_args()
    here = "from import_kineto import READERS\nfrom pathlib import Path\nsaid = READERS[name](Path(path))"
    readers = dict.fromkeys(READERS, (sys.executable, here))
    readers |= {name: (getattr(asked, name), PEERS[name]) for name in PEERS if getattr(asked, name)}
    alone = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # as imports are run
    environment = alone | {"PYTHONPATH": f"{ROOT}:{ROOT / 'benchmarks'}"}
    with tempfile.TemporaryDirectory() as folder:
        for file in ("trace.json", "trace.json.gz"):
            path = Path(folder) / file
            write_trace(path, asked.events)
            print(f"{asked.events:,} events, {path.stat().st_size / 1e6:.1f} MB", flush=True)
            for name, (python, program) in readers.items():
                command = [python, "-W", "ignore", "-c", _MEASURED.format(program=program), name, str(path)]
                own = environment if python == sys.executable else alone
                ended = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)
                said = ended.stdout if ended.returncode == 0 else f"{name} failed: {ended.stderr.strip()[-300:]}"
                print(said.strip().rpartition("\n")[2], flush=True)
    for name in PEERS:
        if not getattr(asked, name):
            print(f"{name:9} not measured: give --{name} PYTHON of an environment that has it")


if __name__ == "__main__":
    main()
