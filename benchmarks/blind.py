"""Steps of a series predicted on the host that then measures them: probes, predictions, measurements, in this order.

``python benchmarks/blind.py SERIES.json FOLDER [--limit-s SECONDS]``: traces the series' models beside each other,
probes the host (FOLDER/probes.json), calibrates from these probes alone, writes FOLDER/predictions.json, and only then
measures the steps into FOLDER. Needs torch and transformers, nothing of the server.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from estimator.calibration.calibrate import Source, calibrate, to_document
from estimator.cost.calibration import calibration_from_json
from estimator.cost.efficiency import Efficiencies
from estimator.cost.slowest_chip import shared_host
from estimator.estimate.host_pace import over_paces
from estimator.estimate.of_op_list import cluster_for, estimate_op_list
from estimator.scenario.op_list import from_json
from runners.job import read_measurement, write_atomically
from runners.series_list import Entry, read_series

ONE_THREAD = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
TRACE_LIMIT_S = 150


def main() -> int:
    """Trace, probe, predict, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("series", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chip", default="h200-sxm")
    parser.add_argument("--ops", type=Path, help="op lists that were traced before, by name")
    parser.add_argument("--limit-s", type=float, default=0.0, help="seconds after which no further step begins")
    parser.add_argument("--traced-only", action="store_true")
    given = parser.parse_args()
    folder: Path = given.folder
    ops: Path = given.ops or folder / "ops"
    for path in (folder, ops):
        path.mkdir(parents=True, exist_ok=True)
    entries = read_series(given.series)
    begin_s = time.monotonic()
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 2)) as pool:
        said = list(pool.map(lambda entry: trace(entry, ops, given.chip), entries))
    print(f"traced in {time.monotonic() - begin_s:.0f} s", *filter(None, said), sep="\n", flush=True)
    if given.traced_only:
        return 0
    probes = folder / "probes.json"
    if not probes.exists():
        subprocess.run([sys.executable, "-m", "runners", "probes", "--out", str(probes)], check=True)
    print(f"probed after {time.monotonic() - begin_s:.0f} s", flush=True)
    e = calibration(probes)
    count = len(entries)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        jobs = processes.map(predicted, entries, [ops] * count, [given.chip] * count, [e] * count, [folder] * count)
        found = [one for one in jobs if one]
    write_atomically(folder / "predictions.json", found)
    digest = hashlib.sha256((folder / "predictions.json").read_bytes()).hexdigest()
    print(f"{len(found)} predicted after {time.monotonic() - begin_s:.0f} s, sha256 {digest}", flush=True)
    command = [sys.executable, "-m", "runners", "series", str(given.series), "--out", str(folder)]
    command += ["--limit-s", str(given.limit_s)] if given.limit_s else []
    return subprocess.run(command, check=False).returncode


def trace(entry: Entry, ops: Path, chip: str) -> str:
    """Trace a model in a process of its own; return what went wrong, if anything."""
    out, config = ops / f"{entry.name}.json", ops / f"{entry.name}.config"
    if out.exists():
        return ""
    config.write_text(json.dumps(entry.config), encoding="utf-8")
    what = [entry.module] if entry.module else ["--hf", str(config)]
    command = [sys.executable, "-m", "runners", "trace", *what, "--chip", chip, "--out", str(out)]
    for field in fields(entry.program):
        value, flag = getattr(entry.program, field.name), f"--{field.name}"
        command += ([flag] if value else []) if isinstance(value, bool) else [flag, str(value)]
    kernel = entry.options.get("optimizer_kernel")
    command += ["--optimizer-kernel", str(kernel)] if kernel else []
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, **ONE_THREAD},
            timeout=TRACE_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{entry.name}: not traced within {TRACE_LIMIT_S} s"
    return f"{entry.name}: {done.stderr.strip()[-300:]}" if done.returncode else ""


def calibration(probes: Path) -> Efficiencies:
    """What ``headroom calibrate`` makes of the probes, read as ``--calibration`` reads it."""
    made = calibrate([Source(name=probes.name, measurement=read_measurement(probes))])
    return calibration_from_json(json.loads(json.dumps(to_document(made))), made.name)


def predicted(entry: Entry, ops: Path, chip: str, e: Efficiencies, folder: Path) -> dict[str, Any] | None:
    """One prediction, as ``headroom predict --results`` keeps it; None without an op list."""
    path = ops / f"{entry.name}.json"
    if not path.exists():
        return None
    found = from_json(json.loads(path.read_text(encoding="utf-8")))
    cluster = cluster_for(found, chip)
    one = estimate_op_list(found, cluster, e)
    shared = shared_host(e, max(found.world_size, 1))
    return {
        "name": entry.name,
        "efficiencies": one.efficiencies,
        "step_time_s": one.step_time_s,
        "interval_s": list(one.interval_s),
        "phases_s": one.phases_s,
        "peak_bytes": one.memory.peak_bytes,
        "measured_before": (folder / f"{entry.name}.json").exists(),
        "host_pace_s": shared.host_pace_s,
        "host_backward_pace_s": shared.host_backward_pace_s,
        "over_paces_s": over_paces(
            lambda paced: estimate_op_list(found, cluster, paced, interval=False).step_time_s, e
        ),
    }


if __name__ == "__main__":
    raise SystemExit(main())
