"""How right predictions of other people's models are: traced without a GPU, priced, beside what a GPU measured.

python benchmarks/programs.py predict SERIES.json --out PREDICTED.json   # before; needs transformers
python -m runners series SERIES.json --out FOLDER                        # on a host with the GPU
python benchmarks/programs.py compare PREDICTED.json FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from estimator.estimate.of_op_list import cluster_for, estimate_op_list
from estimator.scenario.op_list import from_json

FLAGS = ("checkpointing", "compile")


def predict(series: Path, out: Path, chip: str, only: str, ranks: int) -> None:
    """Trace and price every model of a series, each in a process of its own; what is predicted already stays."""
    found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    for entry in json.loads(series.read_text()):
        name = entry["name"]
        if only and name not in only.split(","):
            continue
        if "config" not in entry or (name in found and not only):
            continue
        found[name] = _predicted(entry, chip, ranks)
        one = found[name]
        said = one.get("failed") or f"{one['step_s'] * 1e3:8.2f} ms {one['peak_bytes'] / 1e9:7.2f} GB"
        print(f"{name:32} {said}  traced in {one['traced_s']:.1f} s, {one['host_bytes'] / 2**20:.0f} MiB", flush=True)
        out.write_text("{\n" + ",\n".join(f" {json.dumps(key)}: {json.dumps(found[key])}" for key in found) + "\n}\n")


def _predicted(entry: dict[str, Any], chip: str, ranks: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        config, ops = Path(folder) / "config.json", Path(folder) / "ops.json"
        config.write_text(json.dumps(entry["config"]))
        command = [sys.executable, "-m", "runners", "trace", "--hf", str(config), "--chip", chip, "--out", str(ops)]
        command += ["--world-size", str(ranks)] if ranks > 1 else []
        for key, value in entry["program"].items():
            command += ([f"--{key}"] if value else []) if key in FLAGS else [f"--{key}", str(value)]
        kernel = entry.get("options", {}).get("optimizer_kernel")
        command += ["--optimizer-kernel", kernel] if kernel else []
        begin_s = time.perf_counter()
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
            _, status, used = os.wait4(process.pid, 0)
            errors.seek(0)
            words = errors.read().strip().splitlines()
        about = {"traced_s": time.perf_counter() - begin_s, "host_bytes": used.ru_maxrss * 1024}
        if status:
            return {"failed": words[-1] if words else f"status {status}", **about}
        traced = from_json(json.loads(ops.read_text()))
        begin_s = time.perf_counter()
        estimate = estimate_op_list(traced, cluster_for(traced, chip))
        return {
            "step_s": estimate.step_time_s,
            "interval_s": estimate.interval_s,
            "phases_s": estimate.phases_s,
            "breakdown_s": estimate.breakdown_s,
            "peak_bytes": estimate.memory.peak_bytes,
            "parameters": traced.parameters,
            "kernels": sum(op.launches for op in estimate.ops),
            "estimated_s": time.perf_counter() - begin_s,
            **about,
        }


def compare(predicted: Path, measured: Path) -> None:
    """Print every step's errors, and their medians and ninetieth percentiles."""
    times, peaks, inside = [], [], 0
    print(f"{'step':32} {'measured':>10} {'predicted':>10} {'error':>7}   {'peak':>9} {'predicted':>9} {'error':>7}")
    for name, one in json.loads(predicted.read_text()).items():
        path = measured / f"{name}.json"
        if not path.exists():
            print(f"{name:32} not measured")
            continue
        row = json.loads(path.read_text())
        if not row["steps_s"] or "step_s" not in one:
            why = one.get("failed") or row["status"] + ": " + "; ".join(w["message"] for w in row["warnings"])
            print(f"{name:32} {why[:90]}")
            continue
        step_s = statistics.median(row["steps_s"])
        error = one["step_s"] / step_s - 1
        times.append(error)
        inside += one["interval_s"][0] <= step_s <= one["interval_s"][1]
        peak = row["memory"]["peak_bytes"]
        text = ""
        if peak:
            peaks.append(one["peak_bytes"] / peak - 1)
            text = f"{peak / 1e9:6.2f} GB {one['peak_bytes'] / 1e9:6.2f} GB {peaks[-1]:+7.1%}"
        print(f"{name:32} {step_s * 1e3:7.2f} ms {one['step_s'] * 1e3:7.2f} ms {error:+7.1%}   {text}")
    for label, errors in (("time", times), ("memory", peaks)):
        if errors:
            ordered = sorted(map(abs, errors))
            p90 = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
            print(f"{label}: {len(errors)} steps, median {statistics.median(ordered):.1%}, p90 {p90:.1%}, "
                  f"most {ordered[-1]:.1%}, signed {statistics.median(errors):+.1%}")  # fmt: skip
    if times:
        print(f"inside the interval: {inside} of {len(times)}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    before = commands.add_parser("predict")
    before.add_argument("series", type=Path)
    before.add_argument("--out", type=Path, required=True)
    before.add_argument("--chip", default="h200-sxm")
    before.add_argument("--ranks", type=int, default=1, help="data parallel ranks, under DDP")
    before.add_argument("--only", default="", help="names, again if predicted already")
    after = commands.add_parser("compare")
    after.add_argument("predicted", type=Path)
    after.add_argument("measured", type=Path)
    options = parser.parse_args()
    if options.command == "predict":
        predict(options.series, options.out, options.chip, options.only, options.ranks)
    else:
        compare(options.predicted, options.measured)


if __name__ == "__main__":
    main()
